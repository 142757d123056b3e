//! The recipients of notifications: a command, Pebble, which gets a notice, and a unit of Juju, for
//! which `juju-exec` dispatches an event.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::Context as _;
use tokio::process::Command;

use crate::cli::command::attend::pebble;
use crate::cli::target::shell_word;

/// What a notification goes to.
#[derive(Debug, Clone)]
pub enum Recipient {
    /// A command with its arguments, and variables for its environment.
    Command(Vec<String>, Vec<(&'static str, OsString)>),
    /// The socket of a Pebble.
    Pebble(PathBuf),
    /// A unit of Juju, and the event that is dispatched.
    Juju {
        /// The unit.
        unit: String,
        /// The event.
        event: String,
    },
}

impl Recipient {
    /// Sends a notification, and waits for the end.
    ///
    /// # Errors
    /// If it cannot be sent, or the recipient reports a failure.
    pub async fn notify(&self, facts: &[(&'static str, String)]) -> anyhow::Result<()> {
        match self {
            Recipient::Command(command, variables) => {
                let [program, arguments @ ..] = command.as_slice() else { return Ok(()) };
                let mut command = Command::new(program);
                command.args(arguments).envs(variables.iter().cloned());
                command.envs(facts.iter().map(|(name, value)| (variable(name), value)));
                run(command, program).await
            }
            Recipient::Pebble(socket) => pebble::notify(socket, facts).await,
            Recipient::Juju { unit, event } => {
                let mut command = Command::new("juju-exec");
                command.args(["-u", unit, &dispatch(event, facts)]);
                run(command, "juju-exec").await
            }
        }
    }
}

/// Returns the name of the variable that has a fact.
fn variable(fact: &str) -> String {
    format!("BELLWETHER_{}", fact.to_uppercase().replace('-', "_"))
}

/// Returns the line of the shell that dispatches an event in the folder of the charm.
fn dispatch(event: &str, facts: &[(&'static str, String)]) -> String {
    let facts = facts.iter().map(|(name, value)| (variable(name), value.as_str()));
    let facts = facts.map(|(name, value)| format!("{name}={} ", shell_word(value)));
    format!("{}JUJU_DISPATCH_PATH=hooks/{} ./dispatch", facts.collect::<String>(), event)
}

async fn run(mut command: Command, program: &str) -> anyhow::Result<()> {
    let child = command.stdin(Stdio::null()).kill_on_drop(true).spawn();
    let status = child.with_context(|| format!("cannot run `{program}`"))?.wait().await?;
    anyhow::ensure!(status.success(), "`{program}`: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn juju_gets_one_line_of_the_shell() {
        let facts = [("event", "retry-due".to_string()), ("target", "a b'; rm -r /".to_string())];
        let line = dispatch("update-status", &facts);
        let expected = r"BELLWETHER_EVENT=retry-due BELLWETHER_TARGET='a b'\''; rm -r /' ";
        assert_eq!(line, format!("{expected}JUJU_DISPATCH_PATH=hooks/update-status ./dispatch"));
    }
}
