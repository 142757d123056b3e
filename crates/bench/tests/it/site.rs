//! The choice of the measured server: the named one, or an error if there is no server.

use crate::program::bench;

/// A measurement that needs no other program.
const LINE: &[&str] = &["collect", "--workers", "100", "--rounds", "1", "--seconds", "1"];

#[test]
fn a_missing_server_is_an_error_with_the_next_step() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("bellwether");
    let missing = missing.to_str().unwrap();
    let mut by_flag = bench(LINE);
    by_flag.args(["--bellwether", missing]);
    let mut by_variable = bench(&["all", "--quick"]);
    by_variable.env("BELLWETHER_BINARY", missing);
    for mut command in [by_flag, by_variable] {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
        for expected in [missing, "cargo build --bin bellwether", "--bellwether FILE"] {
            assert!(said.contains(expected), "{expected} is not in: {said}");
        }
    }
}

#[test]
fn the_server_that_is_named_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = bench(LINE);
    // A program that starts and is not a server.
    command.args(["--bellwether", "/bin/true"]).arg("--dir").arg(directory.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("true ended before"), "{said}");
}
