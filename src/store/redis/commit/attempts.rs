//! The attempts to get a request answered, until Redis answers or the deadline passes.

use std::time::Duration;

use redis::{Pipeline, ServerError, Value};
use tokio::time::Instant;

use crate::store::Applied;
use crate::store::redis::link::{LinkError, is_unserved};
use crate::store::redis::script;

use super::sender::Sender;

/// The deadline of a commit or a confirmation.
const DEADLINE: Duration = Duration::from_secs(2);
/// The deadline of one that was never sent.
const UNSENT_DEADLINE: Duration = Duration::from_millis(500);
/// The pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(25);

/// The attempts of one request.
pub(super) struct Attempts<'a> {
    sender: &'a Sender<'a>,
    started: Instant,
    was_sent: bool,
}

/// Why no further attempt follows.
pub(super) struct GivenUp {
    pub(super) reason: String,
    /// Whether Redis may have applied the request.
    pub(super) applied: Applied,
}

impl<'a> Attempts<'a> {
    pub(super) fn new(sender: &'a Sender<'a>) -> Attempts<'a> {
        Attempts { sender, started: Instant::now(), was_sent: false }
    }

    /// Sends a pipeline until there is an answer.
    pub(super) async fn send(&mut self, pipeline: &Pipeline) -> Result<Vec<Value>, GivenUp> {
        loop {
            let reason = match self.sender.run(pipeline).await {
                Ok(answers) => {
                    self.was_sent = true;
                    return Ok(answers);
                }
                Err(LinkError::Refused { reason }) => {
                    // Includes a commit that Redis made and the replicas or the disk did not
                    // confirm.
                    return Err(GivenUp { reason, applied: Applied::Maybe });
                }
                Err(LinkError::Ambiguous { reason }) => {
                    self.was_sent = true;
                    reason
                }
                Err(LinkError::Away { reason }) => reason,
            };
            tokio::time::sleep(RETRY_PAUSE).await;
            self.check_deadline(reason)?;
        }
    }

    /// Prepares the next attempt after an error that [`passing_error`] has found: loads the
    /// scripts, or waits.
    pub(super) async fn prepare_next(&mut self, error: &ServerError) -> Result<(), GivenUp> {
        if error.code() == "NOSCRIPT" {
            // Its answer does not matter: the next attempt shows whether the script is loaded.
            let _ = self.sender.run(&script::load_all()).await;
            return self.check_deadline("NOSCRIPT after loading it".to_string());
        }
        tokio::time::sleep(RETRY_PAUSE).await;
        self.check_deadline(error.to_string())
    }

    fn check_deadline(&self, reason: String) -> Result<(), GivenUp> {
        let (deadline, applied) = match self.was_sent {
            true => (DEADLINE, Applied::Maybe),
            false => (UNSENT_DEADLINE, Applied::No),
        };
        match self.started.elapsed() < deadline {
            true => Ok(()),
            false => Err(GivenUp { reason, applied }),
        }
    }
}

/// Returns the error of an answer if nothing was applied, and another attempt may find the script,
/// another master, or a ready one.
pub(super) fn passing_error(answer: &Value) -> Option<&ServerError> {
    match answer {
        Value::ServerError(error)
            if matches!(error.code(), "NOSCRIPT" | "TRYAGAIN" | "BUSY") || is_unserved(answer) =>
        {
            Some(error)
        }
        _ => None,
    }
}
