//! An attack against the real server, as short as it can be.

use serde_json::Value;

use crate::program::bench;

#[test]
fn an_attack_has_a_row_with_what_an_innocent_client_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = bench(&["abuse", "--only", "pings,wrong-tokens", "--seconds", "1", "--json"]);
    let output = command.arg("--dir").arg(directory.path()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&Value> = rows.iter().map(|row| &row["attack"]).collect();
    assert_eq!(names, ["pings", "wrong-tokens"]);
    for row in rows {
        for count in [&row["sent"]["units"], &row["sent"]["bytes"], &row["before"]["calls"]] {
            assert!(0 < count.as_u64().unwrap(), "{row}");
        }
        // Whether the client was served in time depends on the machine.
        assert!(0 < row["during"]["calls"].as_u64().unwrap(), "{row}");
        assert!(row["memory_before"].as_u64() <= row["memory_peak"].as_u64(), "{row}");
    }
}

#[test]
fn an_unknown_attack_is_refused_with_the_names() {
    let output = bench(&["abuse", "--only", "sweet-talk"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("rapid-reset"), "{said}");
}
