//! Where a document comes from: a file, standard input, or a command.

use std::fs;
use std::io;
use std::io::IsTerminal;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::bail;
use tokio::process::Command;
use tokio::time::timeout;

use crate::cli::context::say;

/// `juju status` of a large model takes some seconds; after a minute it hangs.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a file; `-` or nothing is standard input.
pub fn read_file(path: Option<&Path>) -> anyhow::Result<String> {
    match path {
        Some(path) if path != Path::new("-") => {
            fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
        }
        _ => {
            if io::stdin().is_terminal() {
                say("reading from the terminal; meant is: \
                     juju status --format json | bellwether import juju");
            }
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).context("cannot read standard input")?;
            Ok(text)
        }
    }
}

/// Runs a command and reads what it prints. Its own complaints go where ours go.
pub async fn read_command(words: &[String]) -> anyhow::Result<String> {
    let [program, arguments @ ..] = words else {
        bail!("no command is given after --");
    };
    let line = words.join(" ");
    let running = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output();
    let Ok(result) = timeout(COMMAND_TIMEOUT, running).await else {
        bail!("`{line}` did not end within {} s", COMMAND_TIMEOUT.as_secs());
    };
    let output = result.with_context(|| format!("cannot run `{line}`"))?;
    if !output.status.success() {
        bail!("`{line}` ended with {}", output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` does not print UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(line: &[&str]) -> Result<String, String> {
        let words: Vec<String> = line.iter().map(|w| (*w).to_string()).collect();
        read_command(&words).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn takes_what_a_command_prints() {
        assert_eq!(run(&["printf", "%s", "a b"]).await, Ok("a b".to_string()));
    }

    #[tokio::test]
    async fn says_how_a_command_failed() {
        let failed = run(&["sh", "-c", "exit 3"]).await;
        assert_eq!(failed, Err("`sh -c exit 3` ended with exit status: 3".to_string()));
        let missing = run(&["no-such-command-here"]).await;
        assert_eq!(missing, Err("cannot run `no-such-command-here`".to_string()));
    }
}
