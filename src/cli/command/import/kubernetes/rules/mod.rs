//! The health of an object by the rules of the user, then by a command of the user, then by the
//! rules of this program. What none of them recognises is never active.

mod command;
mod expression;
mod file;

use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;

use crate::cli::command::import::kubernetes::health;
use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::object::Object;
use crate::cli::command::import::kubernetes::rules::command::HealthCommand;
use crate::cli::command::import::kubernetes::rules::file::{FileRules, read};

/// The rules by which the health of an object is decided.
#[derive(Debug, Default)]
pub struct HealthRules {
    file: FileRules,
    command: Option<HealthCommand>,
}

impl HealthRules {
    /// Reads a file of rules, and remembers a command.
    ///
    /// # Errors
    /// The line of a mistake in the file.
    pub fn new(file: Option<&Path>, command: Option<String>) -> anyhow::Result<HealthRules> {
        let file = match file {
            Some(path) => {
                let text = std::fs::read_to_string(path);
                let rules = text.map_err(anyhow::Error::from).and_then(|text| read(&text));
                rules.with_context(|| format!("cannot read the rules {}", path.display()))?
            }
            None => FileRules::default(),
        };
        Ok(HealthRules { file, command: command.map(HealthCommand::new) })
    }

    /// Returns the health of an object. One that is being deleted needs no rule.
    ///
    /// # Errors
    /// A command that fails.
    pub fn assess(&mut self, object: &Object, now: Timestamp) -> anyhow::Result<Verdict> {
        if let Some(verdict) = health::terminating(object, now) {
            return Ok(verdict);
        }
        if let Some(verdict) = self.file.assess(object) {
            return Ok(verdict);
        }
        if let Some(command) = &mut self.command
            && let Some(verdict) = command.assess(object)?
        {
            return Ok(verdict);
        }
        Ok(health::assess(object, now))
    }

    /// Ends the command; the next object starts it again.
    pub fn rest(&mut self) {
        if let Some(command) = &mut self.command {
            command.stop();
        }
    }
}
