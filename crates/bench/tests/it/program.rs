//! The programs under test, as cargo lays them beside each other.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Between two looks at a condition: the processes that are waited for need the processor.
pub const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The load generator.
const BENCH: &str = env!("CARGO_BIN_EXE_bellwether-bench");

/// The load generator with this line. It starts the server that lies beside it, which cargo builds
/// for the tests of the workspace, but not for those of this package alone.
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
