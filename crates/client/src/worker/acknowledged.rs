//! The wait for the server's acknowledgement of a commit.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use tokio::sync::watch;

use crate::worker::error::Error;

/// The result of an entry of the outbox: the revision at which it is in force, or an error.
pub(super) type SendOutcome = Option<Result<u64, Error>>;

/// The pending acknowledgement of a report. Await it to know that the report is committed, or drop
/// it.
///
/// ```no_run
/// # async fn example(worker: bellwether_client::Worker) {
/// # let status = bellwether_client::proto::v1::StatusReport::default();
/// match worker.set_status(status).await {
///     Ok(revision) => println!("in force at revision {revision}"),
///     Err(error) => eprintln!("not stored: {error}"),
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Acknowledged(pub(super) Result<Vec<watch::Receiver<SendOutcome>>, Error>);

impl Acknowledged {
    async fn wait(self) -> Result<u64, Error> {
        let mut last = Ok(0);
        for mut outcome in self.0? {
            let settled = match outcome.wait_for(Option::is_some).await {
                Ok(settled) => settled.clone().unwrap_or(Err(Error::Ended)),
                Err(_) => Err(Error::Ended),
            };
            last = match (last, settled) {
                (Ok(before), Ok(revision)) => Ok(revision.max(before)),
                (Err(error), _) | (_, Err(error)) => Err(error),
            };
        }
        last
    }
}

impl IntoFuture for Acknowledged {
    /// The revision of the application at which the report, or the one that replaced it, is in
    /// force.
    type Output = Result<u64, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait())
    }
}
