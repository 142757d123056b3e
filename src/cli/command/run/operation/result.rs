//! The result of `run`: its exit code, where that comes from, and the file of `--result`.

use std::path::Path;

use serde_json::json;

use crate::cli::exit::Exit;
use crate::cli::refusal;
use crate::cli::render::operation::state_word;
use crate::proto::v1::Operation;

/// The result.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code.
    pub exit: Exit,
    /// One line for a person.
    pub sentence: String,
    /// Whether the code is that of the command.
    is_of_command: bool,
    operation: String,
    target: String,
    fence: u64,
    state: String,
}

impl Outcome {
    /// Returns a result without a command.
    pub fn without_command(exit: Exit, operation: &Operation, sentence: String) -> Outcome {
        Outcome {
            exit,
            sentence,
            is_of_command: false,
            operation: operation.operation_id.clone(),
            target: operation.target_version.clone(),
            fence: operation.fence,
            state: state_word(operation.state).to_string(),
        }
    }

    /// Returns the result of a command that ended with a code.
    pub fn of_command(code: u8, operation: &Operation, sentence: String) -> Outcome {
        let exit = Exit::OfCommand(code);
        Outcome { is_of_command: true, ..Outcome::without_command(exit, operation, sentence) }
    }
}

/// Writes the result to a file, if one is wanted.
///
/// # Errors
/// If it cannot be written.
pub fn write(path: Option<&Path>, outcome: &anyhow::Result<Outcome>) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let value = match outcome {
        Ok(outcome) => json!({
            "code": outcome.exit.code(),
            "code_of": if outcome.is_of_command { "command" } else { "bellwether" },
            "operation": outcome.operation,
            "target_version": outcome.target,
            "fence": outcome.fence,
            "state": outcome.state,
            "message": outcome.sentence,
        }),
        Err(error) => json!({
            "code": Exit::of(error).code(),
            "code_of": "bellwether",
            "message": refusal::sentence(error),
        }),
    };
    std::fs::write(path, format!("{value}\n"))
        .map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
}
