//! What a worker is told besides questions.

use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::client::error;
use crate::client::error::Refusal;
use crate::client::worker::error::Error;
use crate::proto::v1::Hold;
use crate::proto::v1::HoldReleased;
use crate::proto::v1::Leadership;
use crate::proto::v1::Operation;
use crate::proto::v1::RetryDue;
use crate::proto::v1::StatusReport;
use crate::proto::v1::Verdict;

/// Events kept for a reader that is busy; a worker has a few in a minute.
pub(super) const KEPT_MAX: usize = 256;

/// What happened to a worker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// Tries to reach a server.
    Connecting {
        /// Its address, as given.
        server: String,
    },
    /// A session began.
    Connected {
        /// Names the session, for logs.
        session_id: String,
        /// Which life of the unit this is. The same after a reconnect.
        incarnation: u64,
        /// Push statuses of the unit that the server has.
        retained: Vec<StatusReport>,
        /// Work that was begun and not finished.
        operations: Vec<Operation>,
    },
    /// The session is lost, or there was none to be had.
    Disconnected {
        /// Why.
        error: error::Error,
        /// How long until the next attempt.
        pause: Duration,
    },
    /// The server stops. The worker connects again by itself.
    Drained {
        /// How long until then.
        pause: Duration,
    },
    /// The server refuses something that was reported, and reporting it again cannot help.
    Rejected {
        /// The component; empty for the unit as a whole.
        component: String,
        /// The key of the status; empty for one without, and for a whole set.
        key: String,
        /// Why.
        refusal: Box<Refusal>,
    },
    /// The closure that answers collects panicked: this question has no answer.
    CollectFailed {
        /// What it said.
        panic: String,
    },
    /// Final: a newer incarnation of the unit lives, or the unit was removed.
    Superseded {
        /// The newer incarnation, if there is one and the server named it.
        incarnation: Option<u64>,
    },
    /// Final: the server refuses the worker for good.
    Ended {
        /// Why.
        error: Error,
    },
    /// Who leads the application.
    Leadership(Leadership),
    /// The time to try again has come.
    RetryDue(RetryDue),
    /// A component stands still from now on.
    Hold(Hold),
    /// A component may go on.
    HoldReleased(HoldReleased),
    /// What to do about an error that was reported.
    Verdict {
        /// The component that met it.
        component: String,
        /// What was asked or acted on.
        target: String,
        /// What it means, and when to try again.
        verdict: Verdict,
    },
    /// The data of the application changed.
    AppDataChanged {
        /// Of the data as it is now.
        etag: String,
    },
    /// The reader was too slow: the oldest events are gone.
    Missed {
        /// How many.
        count: u64,
    },
}

/// The events of one worker, in their order.
#[derive(Debug)]
pub struct Events(pub(super) broadcast::Receiver<Event>);

impl Events {
    /// The next event; `None` once the worker is over. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(count)) => Some(Event::Missed { count }),
            Err(RecvError::Closed) => None,
        }
    }
}
