//! The source of a document: a file, standard input, or a command.

use std::fs;
use std::io;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::Context as _;
use anyhow::bail;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tokio::time::timeout;

use crate::cli::command::import::format::Format;
use crate::cli::context::say;

/// `juju status` of a large model takes some seconds; after a minute it counts as stuck.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads a file; `-` or nothing is standard input.
pub fn read_file(path: Option<&Path>, format: &Format) -> anyhow::Result<String> {
    match path {
        Some(path) if path != Path::new("-") => {
            let file = fs::File::open(path);
            let text = file.map_err(anyhow::Error::from);
            let text = text.and_then(|file| read(file, format.bytes_max));
            text.with_context(|| format!("cannot read {}", path.display()))
        }
        _ => {
            if io::stdin().is_terminal() {
                say(&format!("reading from the terminal; did you mean: {}", format.example));
            }
            read(io::stdin(), format.bytes_max).context("cannot read standard input")
        }
    }
}

/// Reads a document to its end, up to the limit.
fn read(source: impl Read, bytes_max: u64) -> anyhow::Result<String> {
    let mut text = String::new();
    source.take(bytes_max + 1).read_to_string(&mut text)?;
    if bytes_max < text.len() as u64 {
        bail!("the document has more than {} MiB", bytes_max >> 20);
    }
    Ok(text)
}

/// Runs a command and reads its stdout. Its stderr goes to our stderr.
pub async fn read_command(words: &[String], bytes_max: u64) -> anyhow::Result<String> {
    let [program, arguments @ ..] = words else {
        bail!("no command is given after --");
    };
    let line = words.join(" ");
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot run `{line}`"))?;
    let running = async {
        let mut bytes = Vec::new();
        if let Some(stdout) = child.stdout.take() {
            // The rest is not read: the command ends with a broken pipe, or is killed.
            stdout.take(bytes_max + 1).read_to_end(&mut bytes).await?;
        }
        if bytes_max < bytes.len() as u64 {
            child.start_kill()?;
        }
        io::Result::Ok((bytes, child.wait().await?))
    };
    let Ok(result) = timeout(COMMAND_TIMEOUT, running).await else {
        bail!("`{line}` did not end within {} s", COMMAND_TIMEOUT.as_secs());
    };
    let (bytes, status) = result.with_context(|| format!("cannot run `{line}`"))?;
    if bytes_max < bytes.len() as u64 {
        bail!("`{line}` printed more than {} MiB", bytes_max >> 20);
    }
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    String::from_utf8(bytes).with_context(|| format!("`{line}` does not print UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(line: &[&str]) -> Result<String, String> {
        let words: Vec<String> = line.iter().map(|w| (*w).to_string()).collect();
        read_command(&words, 64 << 20).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn takes_what_a_command_prints() {
        assert_eq!(run(&["printf", "%s", "a b"]).await, Ok("a b".to_string()));
    }

    #[tokio::test]
    async fn takes_no_more_than_a_document_can_have() {
        let error = run(&["sh", "-c", "yes"]).await.expect_err("too long");
        assert_eq!(error, "`sh -c yes` printed more than 64 MiB");
        let error = read(io::repeat(b' '), 64 << 20).expect_err("too long").to_string();
        assert_eq!(error, "the document has more than 64 MiB");
    }

    #[tokio::test]
    async fn an_error_has_the_exit_and_output_of_the_command() {
        let failed = run(&["sh", "-c", "exit 3"]).await;
        assert_eq!(failed, Err("`sh -c exit 3` ended with exit status: 3".to_string()));
        let missing = run(&["no-such-command-here"]).await;
        assert_eq!(missing, Err("cannot run `no-such-command-here`".to_string()));
    }
}
