//! The events of a worker, apart from questions.

use std::time::Duration;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::error;
use crate::error::Refusal;
use crate::proto::v1::{
    CallbackDue, Hold, HoldReleased, Leadership, NeedsMet, Operation, RetryDue, StatusReport,
    Verdict,
};
use crate::worker::error::Error;

/// Events kept for a busy reader; a worker has a few in a minute.
pub(super) const KEPT_MAX: usize = 256;

/// An event of a worker.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// The worker tries to reach a server.
    Connecting {
        /// Its address, as given.
        server: String,
    },
    /// A session was opened.
    Connected {
        /// Identity of the session, for logs.
        session_id: String,
        /// The incarnation of the unit. The same after a reconnect.
        incarnation: u64,
        /// Push statuses of the unit that the server stores.
        retained: Vec<StatusReport>,
        /// Operations that are started and not finished.
        operations: Vec<Operation>,
        /// The leading unit; empty: no leader.
        leader: String,
        /// Epoch of the leader's lease.
        lease_epoch: u64,
    },
    /// The session is lost, or none could be opened.
    Disconnected {
        /// The reason.
        error: error::Error,
        /// The time until the next attempt.
        pause: Duration,
    },
    /// The server stops. The worker reconnects automatically.
    Drained {
        /// The time until then.
        pause: Duration,
    },
    /// The server refuses a report, and a retry cannot help.
    Rejected {
        /// The component; empty for the unit as a whole.
        component: String,
        /// The key of a status, or the target of an error; empty for one without, and for a set.
        key: String,
        /// The reason.
        refusal: Box<Refusal>,
    },
    /// The closure that answers collects panicked: this question has no answer.
    CollectFailed {
        /// The message of the panic.
        panic: String,
    },
    /// Final: a newer incarnation of the unit exists, or the unit was removed.
    Superseded {
        /// The newer incarnation, if there is one and the server named it.
        incarnation: Option<u64>,
    },
    /// Final: the server refuses the worker for good.
    Ended {
        /// The reason.
        error: Error,
    },
    /// The leader of the application.
    Leadership(Leadership),
    /// The time of a retry has come.
    RetryDue(RetryDue),
    /// The time of a callback has come that the unit requested. It comes again in each new session
    /// until the callback is cancelled or replaced.
    CallbackDue(CallbackDue),
    /// All needs of a status or of an error have been met for 1 s: check again. It comes again in
    /// each new session while they are.
    NeedsMet(NeedsMet),
    /// A fault holds a component from now on.
    Hold(Hold),
    /// A component may continue.
    HoldReleased(HoldReleased),
    /// The server's verdict on a reported error.
    Verdict {
        /// The component that reported it.
        component: String,
        /// The target that failed.
        target: String,
        /// The verdict, with the time of a retry.
        verdict: Verdict,
    },
    /// The data of the application changed.
    AppDataChanged {
        /// Etag of the new data.
        etag: String,
    },
    /// The reader was too slow: the oldest events are lost.
    Missed {
        /// Number of lost events.
        count: u64,
    },
}

/// The events of one worker, in their order.
#[derive(Debug)]
pub struct Events(pub(super) broadcast::Receiver<Event>);

impl Events {
    /// Returns the next event; `None` after the end of the worker. Cancel safe.
    pub async fn next(&mut self) -> Option<Event> {
        match self.0.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(count)) => Some(Event::Missed { count }),
            Err(RecvError::Closed) => None,
        }
    }
}
