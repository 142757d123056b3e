//! The `bellwether` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    bellwether::cli::run()
}
