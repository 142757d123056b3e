//! The programs under test, which cargo builds into one folder.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The time between two checks of a condition: the awaited processes need the processor.
pub const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The load generator.
const BENCH: &str = env!("CARGO_BIN_EXE_bellwether-bench");

/// Returns the load generator with these arguments. It starts the server from its own folder. Cargo
/// builds the server there for the tests of the workspace, but not for the tests of this package
/// alone.
pub fn bench(line: &[&str]) -> Command {
    let server = Path::new(BENCH).with_file_name("bellwether");
    assert!(
        server.is_file(),
        "no server at {}: test with --workspace, or build it first (cargo build --bin bellwether)",
        server.display()
    );
    let mut command = Command::new(BENCH);
    command.args(line).env_remove("BELLWETHER_BINARY");
    command
}
