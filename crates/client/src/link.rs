//! The stream of a watch: waiting, opening or open. May be polled and dropped at any point.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::codec::Streaming;

use crate::connection::Client;
use crate::error::Error;
use crate::proto::v1::{WatchApplicationsRequest, WatchApplicationsResponse};

/// Bookmarks arrive every 5 s: three missing ones mean that the server is gone.
const SILENCE_MAX: Duration = Duration::from_secs(15);

type Opening = Pin<Box<dyn Future<Output = Result<Stream, Error>> + Send>>;
type Stream = Streaming<WatchApplicationsResponse>;

/// One attempt to watch, from before the connection to its end.
pub(crate) enum Link {
    /// Waits until this instant.
    Waiting(Instant),
    /// Waits for the answer of the server, for this duration from this instant.
    Opening(Opening, Duration, Instant),
    /// Receives messages; the last one arrived at this instant.
    Open(Box<Stream>, Instant),
}

impl Link {
    /// Starts to open a stream.
    pub(crate) fn open(client: &Client, request: WatchApplicationsRequest) -> Link {
        let patience = client.deadline().min(SILENCE_MAX);
        let client = client.clone();
        let opening = Box::pin(async move {
            let result = client.applications().watch_applications(request).await;
            client.answer(result)
        });
        Link::Opening(opening, patience, Instant::now())
    }

    /// Returns the next message; `None` when the stream must be opened. Cancel safe: the next call
    /// continues an interrupted step.
    pub(crate) async fn next(
        &mut self,
        url: &str,
    ) -> Result<Option<WatchApplicationsResponse>, Error> {
        loop {
            match self {
                Link::Waiting(until) => {
                    sleep_until(*until).await;
                    return Ok(None);
                }
                Link::Opening(opening, patience, begun) => {
                    let after = *patience;
                    let unanswered = |_| Error::Silent { url: url.to_string(), after };
                    let stream =
                        timeout_at(*begun + after, opening).await.map_err(unanswered)??;
                    *self = Link::Open(Box::new(stream), Instant::now());
                }
                Link::Open(stream, heard) => {
                    let message = timeout_at(*heard + SILENCE_MAX, stream.message())
                        .await
                        .map_err(|_| silent(url))?
                        .map_err(|status| Error::from_status(url, status))?;
                    *heard = Instant::now();
                    return message.map(Some).ok_or_else(Error::stream_ended);
                }
            }
        }
    }
}

fn silent(url: &str) -> Error {
    Error::away(url, &format!("no message for {} s", SILENCE_MAX.as_secs()))
}
