//! The ends of a session, and what the worker does after each.

use tokio::time::Instant;

use crate::error;
use crate::error::Refusal;
use crate::worker::error::Error;

/// The reason with which a server ends an incarnation or a session.
pub(super) const STALE: &str = "STALE_INCARNATION";

/// The reason for the end of a session, or of an attempt to open one.
#[derive(Debug)]
pub(super) enum Cut {
    /// The goodbye was sent.
    Stopped,
    /// A retry cannot help.
    Final(Error),
    /// A retry may help.
    Lost(error::Error),
    /// The server stops. The next attempt comes after this instant.
    Drained(Instant),
}

impl Cut {
    /// Classifies the error of an attempt: the server refuses `hello`, or was not reached.
    pub(super) fn before_welcome(error: error::Error) -> Cut {
        match error {
            error::Error::Refused(refusal) if refusal.reason == STALE => superseded(&refusal),
            error if error.is_passing() => Cut::Lost(error),
            error => Cut::Final(Error::Client(error)),
        }
    }

    /// Classifies the error of a session. A server may answer STALE_INCARNATION for a session that
    /// is over without naming a rival: then the next `hello` decides, which is refused if there is
    /// one.
    pub(super) fn after_welcome(error: error::Error) -> Cut {
        let names_rival = |refusal: &Refusal| {
            let facts = ["given", "current"];
            facts.iter().any(|fact| refusal.metadata.contains_key(*fact))
        };
        match error {
            error::Error::Refused(refusal) if refusal.reason == STALE && !names_rival(&refusal) => {
                Cut::Lost(error::Error::Refused(refusal))
            }
            error => Cut::before_welcome(error),
        }
    }
}

/// Returns the final error, with the newer incarnation if the server sent it.
fn superseded(refusal: &Refusal) -> Cut {
    let incarnation = refusal.metadata.get("current").and_then(|number| number.parse().ok());
    Cut::Final(Error::Superseded { incarnation, detail: refusal.message.clone() })
}
