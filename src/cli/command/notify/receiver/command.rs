//! A command as a receiver: the message is in its environment, and as JSON on its stdin.

use std::ffi::OsString;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::DeliveryError;
use crate::cli::command::notify::message::Message;

/// Ends the group of a command whose time has passed.
struct ProcessGroup(Option<Pid>);

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs the command for a message, and waits for its end. Dropped, it ends the command.
///
/// # Errors
/// If it cannot be started, or does not end with 0.
pub async fn run(
    line: &[String],
    variables: &[(&'static str, OsString)],
    message: &Message,
) -> Result<(), DeliveryError> {
    let [program, arguments @ ..] = line else { return Ok(()) };
    let failed = |error: std::io::Error| DeliveryError::Command(format!("{program}: {error}"));
    let mut child = Command::new(program)
        .args(arguments)
        .envs(variables.iter().cloned())
        .envs(message.variables())
        .stdin(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let mut group = ProcessGroup(pid);
    if let Some(mut stdin) = child.stdin.take() {
        let json = serde_json::to_vec(message).unwrap_or_default();
        // A command that reads nothing closes the pipe.
        let _ = stdin.write_all(&json).await;
    }
    let status = child.wait().await.map_err(failed)?;
    group.0 = None;
    match status.success() {
        true => Ok(()),
        false => Err(DeliveryError::Command(format!("{program}: {status}"))),
    }
}

/// Looks whether the program is there.
///
/// # Errors
/// If it is not.
pub fn check(line: &[String]) -> Result<(), DeliveryError> {
    let program = line.first().map(String::as_str).unwrap_or_default();
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut places = match program.contains('/') {
        true => vec![program.into()],
        false => std::env::split_paths(&paths).map(|path| path.join(program)).collect::<Vec<_>>(),
    };
    places.retain(|place| place.is_file());
    match places.is_empty() {
        true => Err(DeliveryError::Command(format!("{program}: there is no such program"))),
        false => Ok(()),
    }
}
