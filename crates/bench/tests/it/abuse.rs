//! An attack against the real server, as short as it can be.

use serde_json::Value;

use crate::program::bench;

#[test]
fn an_attack_has_a_row_with_what_an_innocent_client_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let only = "pings,wrong-tokens,unread-files,unread-files-http1,unread-pages,\
                unread-pages-http1,unread-json,unread-json-http1,unread-statuses,gzip-lists,\
                long-lists,large-pages,slow-probes,silent-connections";
    let mut command = bench(&["abuse", "--only", only, "--seconds", "1", "--json"]);
    let output = command.arg("--dir").arg(directory.path()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&Value> = rows.iter().map(|row| &row["attack"]).collect();
    assert_eq!(names, only.split(',').collect::<Vec<_>>());
    for row in rows {
        for count in [&row["sent"]["units"], &row["before"]["calls"], &row["probed"]["made"]] {
            assert!(0 < count.as_u64().unwrap(), "{row}");
        }
        // Whether the client was served in time depends on the machine.
        assert!(row["during"]["calls"].is_u64(), "{row}");
        assert!(row["memory_before"].as_u64() <= row["memory_peak"].as_u64(), "{row}");
    }
}

#[test]
fn an_unknown_attack_is_refused_with_the_names() {
    let output = bench(&["abuse", "--only", "sweet-talk"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("rapid-reset"), "{said}");
}
