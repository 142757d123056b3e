//! The work of an operation: a command with all that belongs to it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::cli::command::run::keeper::deadline::Lease;
use crate::cli::command::run::operation::args::{self, OperationArgs};
use crate::cli::command::run::operation::payload::{Payload, Stored};
use crate::cli::command::run::operation::recipe::Recipe;
use crate::cli::exit::UsageError;
use crate::cli::target::UnitTarget;

/// The work: a command with all that belongs to it.
pub struct CommandWork {
    /// The unit that holds the operation.
    pub holder: UnitTarget,
    /// The name of the operation, if it was given.
    pub id: Option<String>,
    /// The target.
    pub target: String,
    /// Whether it is the work of the unit alone.
    pub is_own: bool,
    /// The command.
    pub command: Vec<String>,
    /// What is known of it.
    pub recipe: Recipe,
    /// Whether repeated work gives the same result.
    pub is_deterministic: bool,
    /// The line that says how far an interrupted run came.
    pub verify: Option<String>,
    /// The lease.
    pub lease: Lease,
    /// What is recorded.
    pub payload: Payload,
    /// The file for the result.
    pub result: Option<PathBuf>,
}

impl CommandWork {
    /// Examines the flags.
    ///
    /// # Errors
    /// If a flag, the recipe or an input is wrong.
    pub fn new(args: OperationArgs, command: Vec<String>) -> Result<CommandWork, UsageError> {
        let holder = args::holder(args.operation.as_deref().unwrap_or_default())?;
        let lease = Lease::new(args.lease, args.grace).map_err(UsageError)?;
        let recipe = args.recipe.as_deref().map(Recipe::load).transpose()?.unwrap_or_default();
        examine_program(&command)?;
        let stored = match args.store_command {
            true => Some(Stored {
                command: command.clone(),
                variables: variables(&args.variables)?,
                recipe: args.recipe.as_deref().map(absolute),
                verify: args.verify.clone(),
                grace: lease.grace.as_millis() as u64,
            }),
            false => None,
        };
        let payload = Payload::new(&command, &args.input, stored)?;
        Ok(CommandWork {
            holder,
            id: args.id,
            target: args.to.unwrap_or_default(),
            is_own: args.own,
            is_deterministic: args.deterministic || recipe.deterministic,
            command,
            recipe,
            verify: args.verify,
            lease,
            payload,
            result: args.result,
        })
    }
}

/// Checks that the program exists, before anything is recorded.
fn examine_program(command: &[String]) -> Result<(), UsageError> {
    let program = command.first().map(String::as_str).unwrap_or_default();
    let is_there = match program.contains('/') {
        true => std::path::Path::new(program).is_file(),
        false => {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
        }
    };
    match is_there {
        true => Ok(()),
        false => Err(UsageError(format!("there is no program `{program}`"))),
    }
}

fn variables(names: &[String]) -> Result<BTreeMap<String, String>, UsageError> {
    let value = |name: &String| match std::env::var(name) {
        Ok(value) => Ok((name.clone(), value)),
        Err(_) => Err(UsageError(format!("--env {name}: the variable is not set, or not UTF-8"))),
    };
    names.iter().map(value).collect()
}

/// Returns the path of a recipe from the root, so that it is found from every folder.
fn absolute(recipe: &str) -> String {
    match std::fs::canonicalize(recipe) {
        Ok(path) => path.display().to_string(),
        Err(_) => recipe.to_string(),
    }
}
