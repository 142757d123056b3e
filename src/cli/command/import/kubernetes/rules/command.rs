//! A command of the user that judges objects, such as one that runs the scripts of Argo CD: it
//! reads an object as a line of JSON and answers with a line, `{"status": ..., "message": ...}`,
//! or an empty line or `{}` if it has no rule for the object. It is started once for a document.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use serde::Deserialize;

use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::object::Object;
use crate::proto::v1::Level;

/// Longest answer in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// How long the command may take for one object.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The command, running or not.
#[derive(Debug)]
pub struct HealthCommand {
    line: String,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    child: Child,
    objects: ChildStdin,
    answers: Receiver<std::io::Result<String>>,
}

/// An answer: the words of Argo CD.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct HealthAnswer {
    status: String,
    message: String,
}

impl HealthCommand {
    /// Returns a command that is not started yet; a shell takes its line.
    pub fn new(line: String) -> HealthCommand {
        HealthCommand { line, running: None }
    }

    /// Returns the health of an object by the command; `None` if it has no rule for it.
    ///
    /// # Errors
    /// A command that ends, takes too long or does not answer with a line of JSON.
    pub fn assess(&mut self, object: &Object) -> anyhow::Result<Option<Verdict>> {
        let asked = self.ask(object);
        if asked.is_err() {
            self.stop();
        }
        let name = || format!("{} {}", object.kind(), object.name());
        let answer = asked.with_context(|| format!("`{}` fails for {}", self.line, name()))?;
        let answer = answer.trim();
        if answer.is_empty() {
            return Ok(None);
        }
        let answer: HealthAnswer = serde_json::from_str(answer)
            .with_context(|| format!("`{}` answers for {} with {answer:?}", self.line, name()))?;
        Ok(verdict(&answer))
    }

    fn ask(&mut self, object: &Object) -> anyhow::Result<String> {
        let running = match &mut self.running {
            Some(running) => running,
            none => none.insert(start(&self.line)?),
        };
        let mut line = serde_json::to_vec(object.value())?;
        line.push(b'\n');
        running.objects.write_all(&line).and_then(|()| running.objects.flush())?;
        match running.answers.recv_timeout(ANSWER_TIMEOUT) {
            Ok(answer) => Ok(answer?),
            Err(RecvTimeoutError::Timeout) => {
                bail!("no answer within {} s", ANSWER_TIMEOUT.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(anyhow!("it ended; it must answer each line with a line, until its input ends"))
            }
        }
    }

    /// Ends the command.
    pub fn stop(&mut self) {
        if let Some(Running { mut child, objects, answers }) = self.running.take() {
            drop((objects, answers));
            // Its input has ended, and nothing that it still does is needed.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for HealthCommand {
    fn drop(&mut self) {
        self.stop();
    }
}

fn start(line: &str) -> anyhow::Result<Running> {
    let mut child = Command::new("sh")
        .args(["-c", &format!("exec {line}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let (Some(objects), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("it has no input or no output");
    };
    let (send, answers) = sync_channel(1);
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut answer = String::new();
            match (&mut output).take(ANSWER_BYTES_MAX).read_line(&mut answer) {
                Ok(0) => break,
                Ok(_) if !answer.ends_with('\n') => {
                    let text = format!("an answer without an end within {ANSWER_BYTES_MAX} bytes");
                    let _ = send.send(Err(std::io::Error::other(text)));
                    break;
                }
                Ok(_) => {
                    if send.send(Ok(answer)).is_err() {
                        break;
                    }
                }
                Err(error) => {
                    let _ = send.send(Err(error));
                    break;
                }
            }
        }
    });
    Ok(Running { child, objects, answers })
}

/// Returns the verdict of an answer; `None` for one without a status.
fn verdict(answer: &HealthAnswer) -> Option<Verdict> {
    let (level, reason) = match answer.status.as_str() {
        "" => return None,
        "Healthy" => (Level::Active, ""),
        "Suspended" => (Level::Active, "Suspended"),
        "Progressing" => (Level::Maintenance, "Progressing"),
        "Degraded" => (Level::Error, "Degraded"),
        "Missing" => (Level::Waiting, "Missing"),
        _ => (Level::Waiting, "HealthUnknown"),
    };
    let text = if answer.message.is_empty() { &answer.status } else { &answer.message };
    Some(Verdict::new(level, reason, text).field(format!("health command: {}", answer.status)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(kind: &str) -> Object {
        Object::new(json!({"apiVersion": "a.b/v1", "kind": kind, "metadata": {"name": "x"}}))
            .expect("an object")
    }

    #[test]
    fn a_command_answers_line_by_line() {
        let script = r#"sh -c 'while read -r line; do case $line in
            *Bad*) echo "{\"status\": \"Degraded\", \"message\": \"m\"}";;
            *Good*) echo "{\"status\": \"Healthy\"}";;
            *Odd*) echo "{}";;
            *) echo;; esac; done'"#;
        let mut command = HealthCommand::new(script.replace('\n', " "));
        let mut of = |kind: &str| command.assess(&object(kind)).expect("an answer");
        let bad = of("Bad").expect("a rule");
        assert_eq!((bad.level, bad.message.as_str()), (Level::Error, "m"));
        assert_eq!(of("Good").map(|good| good.level), Some(Level::Active));
        assert_eq!((of("Odd"), of("Other")), (None, None));
    }

    #[test]
    fn a_command_that_does_not_answer_fails() {
        for (line, expected) in [
            ("true", "fails for Thing x"),
            ("no-such-command-here", "fails for Thing x"),
            ("cat", ""),
            ("sh -c 'while read -r line; do yes | tr -d \"\\n\"; done'", "fails for Thing x"),
        ] {
            let mut command = HealthCommand::new(line.to_string());
            let answer = command.assess(&object("Thing"));
            // `cat` repeats the object, which has no status.
            match line {
                "cat" => assert_eq!(answer.expect("an answer"), None),
                _ => {
                    let error = format!("{:#}", answer.expect_err(line));
                    assert!(error.contains(expected), "{error}");
                }
            }
        }
    }
}
