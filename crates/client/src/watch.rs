//! A watch that continues across restarts of the server.
//!
//! A watcher receives all applications, [`Event::Current`], then changes. After a lost connection
//! it receives [`Event::Disconnected`], then the changes that happened meanwhile, including a
//! removal for each application that has gone. So a caller that applies the events has a correct
//! copy.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::connection::Client;
use crate::digest::{Copy, SavedApplication};
use crate::error::Error;
use crate::link::Link;
use crate::proto::span;
use crate::proto::v1::watch_applications_response::Event as WireEvent;
use crate::proto::v1::{Application, Unit, WatchApplicationsRequest, WatchApplicationsResponse};

/// Pause before a snapshot from a server that answers but cannot resume the watch.
const FRESH_START: Duration = Duration::from_millis(50);

/// How often in a row a token is sent again to a server that is behind it. Each try takes the
/// server's patience of 5 s. A store that went back to an older copy never reaches the token.
const BEHIND_MAX: u32 = 3;

/// An event for a watcher.
#[derive(Debug, Clone)]
pub enum Event {
    /// The newest state of an application, with its units if they were asked for. After
    /// [`Event::Disconnected`] a state may come again.
    Upserted(Box<Application>, Vec<Unit>),
    /// An application was deleted or left the filter.
    Removed {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
    },
    /// The watcher is current: after each snapshot, and after each resumption. The watch starts a
    /// new snapshot without an [`Event::Disconnected`] if its copy or its token is out of date.
    Current,
    /// The connection is lost, or the server has not received yet what the watcher has. The next
    /// call of [`Watch::next`] makes a new one after `pause`.
    Disconnected {
        /// The reason.
        error: Error,
        /// The time that the next call waits first.
        pause: Duration,
    },
}

/// What a watch needs to continue in another process: its copy, and the token from which it
/// resumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedWatch {
    /// The token.
    pub resume_token: String,
    /// The history of the store that it is about.
    pub store_epoch: String,
    /// The applications.
    pub applications: Vec<SavedApplication>,
}

/// A resumable stream of changes.
pub struct Watch {
    client: Client,
    /// The filter, and the resume token of the last message.
    request: WatchApplicationsRequest,
    link: Link,
    backoff: Backoff,
    /// How often in a row the token was ahead of the server.
    behind: u32,
    copy: Copy,
    store_epoch: String,
    current: bool,
    received: VecDeque<Event>,
}

impl Watch {
    /// Creates a watch with the filter of `request`, starting with a snapshot. Nothing is sent
    /// before the first [`Watch::next`].
    pub fn new(client: &Client, request: WatchApplicationsRequest) -> Watch {
        let mut copy = Copy::default();
        copy.begin_snapshot(false);
        Watch {
            client: client.clone(),
            request: WatchApplicationsRequest { resume_token: String::new(), ..request },
            link: Link::Waiting(Instant::now()),
            backoff: Backoff::default(),
            behind: 0,
            copy,
            store_epoch: String::new(),
            current: false,
            received: VecDeque::new(),
        }
    }

    /// Creates a watch that continues where another one was saved, with the same filter. If the
    /// server can no longer resume it, it starts with a snapshot.
    pub fn resumed(client: &Client, request: WatchApplicationsRequest, saved: SavedWatch) -> Watch {
        let SavedWatch { resume_token, store_epoch, applications } = saved;
        let copy = Copy::of(applications);
        let watch = Watch::new(client, request);
        let request = WatchApplicationsRequest { resume_token, ..watch.request };
        Watch { request, copy, store_epoch, ..watch }
    }

    /// Returns what another process needs to continue; `None` before the first snapshot is
    /// complete, and while [`Watch::next`] has events to return. Those that it has returned since
    /// the last token come again there.
    pub fn saved(&self) -> Option<SavedWatch> {
        let is_returned = self.received.is_empty() && !self.request.resume_token.is_empty();
        let resume_token = is_returned.then(|| self.request.resume_token.clone())?;
        let (store_epoch, applications) = (self.store_epoch.clone(), self.copy.saved());
        Some(SavedWatch { resume_token, store_epoch, applications })
    }

    /// Returns the next event. Cancel safe.
    ///
    /// # Errors
    /// Only errors that a retry cannot heal: an invalid filter, refused credentials, or missing
    /// rights.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if let Some(event) = self.received.pop_front() {
                return Ok(event);
            }
            match self.link.next(self.client.url()).await {
                Ok(None) => self.link = Link::open(&self.client, self.request.clone()),
                Ok(Some(message)) => self.take(message),
                Err(error) if error.is_expired_token() && !self.tries_again(&error) => {
                    self.start_over(FRESH_START)
                }
                Err(error) if error.is_passing() || error.is_expired_token() => {
                    let pause = self.disconnect(error.retry_after());
                    self.received.push_back(Event::Disconnected { error, pause });
                }
                Err(error) => {
                    // A future that has ended must not be polled: the next call opens a new stream.
                    self.link = Link::Waiting(Instant::now() + self.backoff.pause(None));
                    return Err(error);
                }
            }
        }
    }

    /// Returns whether another server, or this one later, may continue after the token.
    fn tries_again(&mut self, error: &Error) -> bool {
        self.behind += 1;
        error.is_behind() && self.behind <= BEHIND_MAX
    }

    fn take(&mut self, message: WatchApplicationsResponse) {
        self.behind = 0;

        if !message.store_epoch.is_empty() && message.store_epoch != self.store_epoch {
            let known_before = !self.store_epoch.is_empty();
            self.store_epoch = message.store_epoch;
            if known_before {
                // The store may have lost acknowledged writes: this copy may be newer than the
                // store.
                return self.start_over(FRESH_START);
            }
        }
        if !message.resume_token.is_empty() {
            self.request.resume_token = message.resume_token;
        }
        match message.event {
            Some(WireEvent::Upserted(application)) => self.upsert(application, message.units),
            Some(WireEvent::Removed(removed)) => self.remove(removed.namespace, removed.name),
            Some(WireEvent::SnapshotComplete(_)) => {
                for (namespace, name) in self.copy.end_snapshot() {
                    self.received.push_back(Event::Removed { namespace, name });
                }
                self.copy.cover();
                self.send_current();
            }
            Some(WireEvent::Bookmark(bookmark)) => {
                if bookmark.digest == self.copy.digest() {
                    self.copy.cover();
                    // Only a verified copy resets the pause, not a mere answer.
                    self.backoff.reset();
                    self.send_current();
                } else {
                    // A snapshot costs the server much, so repeated mismatches increase the pause.
                    let pause = self.backoff.pause(None);
                    self.start_over(pause);
                }
            }
            Some(WireEvent::Drain(drain)) => {
                self.disconnect(span(drain.reconnect_after));
            }
            None => {}
        }
    }

    fn upsert(&mut self, application: Application, units: Vec<Unit>) {
        if self.copy.upsert(&application) {
            let event = Event::Upserted(Box::new(application), units);
            self.received.push_back(event);
        }
    }

    fn remove(&mut self, namespace: String, name: String) {
        if self.copy.remove(&namespace, &name) {
            self.received.push_back(Event::Removed { namespace, name });
        }
    }

    fn send_current(&mut self) {
        if !std::mem::replace(&mut self.current, true) {
            self.received.push_back(Event::Current);
        }
    }

    /// Restarts with a snapshot, after a pause. The store may have lost what the copy has.
    fn start_over(&mut self, pause: Duration) {
        self.current = false;
        self.behind = 0;
        self.request.resume_token.clear();
        self.copy.begin_snapshot(true);
        self.link = Link::Waiting(Instant::now() + pause);
    }

    fn disconnect(&mut self, asked: Option<Duration>) -> Duration {
        let pause = self.backoff.pause(asked);
        self.current = false;
        // A new connection, because on the old one a vanished peer would cause another timeout.
        self.client = self.client.reconnected();
        self.link = Link::Waiting(Instant::now() + pause);
        self.copy.resume();
        if self.request.resume_token.is_empty() {
            // The interrupted snapshot starts again.
            self.copy.begin_snapshot(false);
        }
        pause
    }
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;
    use crate::proto::v1::{ApplicationRemoved, Bookmark, SnapshotComplete};

    fn mk_watch() -> Watch {
        Watch::new(&Client::mk_lazy(), WatchApplicationsRequest::default())
    }

    fn mk_message(event: WireEvent) -> WatchApplicationsResponse {
        WatchApplicationsResponse {
            event: Some(event),
            store_epoch: "one".into(),
            ..WatchApplicationsResponse::default()
        }
    }

    fn mk_upsert(name: &str, revision: u64) -> WatchApplicationsResponse {
        mk_message(WireEvent::Upserted(Application {
            namespace: "default".into(),
            name: name.into(),
            revision,
            ..Application::default()
        }))
    }

    fn mk_complete(resume_token: &str) -> WatchApplicationsResponse {
        WatchApplicationsResponse {
            resume_token: resume_token.into(),
            ..mk_message(WireEvent::SnapshotComplete(SnapshotComplete::default()))
        }
    }

    fn mk_bookmark(digest: &str) -> WatchApplicationsResponse {
        mk_message(WireEvent::Bookmark(Bookmark { digest: digest.into(), ..Bookmark::default() }))
    }

    /// Returns the events since the last call, one word for each.
    fn received(watch: &mut Watch) -> String {
        let words = watch.received.drain(..).map(|event| match event {
            Event::Upserted(application, _) => format!("+{}", application.name),
            Event::Removed { name, .. } => format!("-{name}"),
            Event::Current => "current".to_string(),
            Event::Disconnected { .. } => "disconnected".to_string(),
        });
        words.collect::<Vec<_>>().join(" ")
    }

    #[tokio::test]
    async fn a_watch_begins_with_a_snapshot_and_continues_with_changes() {
        let mut watch = mk_watch();
        watch.take(mk_upsert("web", 1));
        watch.take(mk_complete("t1"));
        watch.take(mk_upsert("web", 2));
        watch.take(mk_upsert("web", 2));
        assert_eq!(received(&mut watch), "+web current +web");
        assert_eq!(watch.request.resume_token, "t1");
        watch.take(mk_message(WireEvent::Removed(ApplicationRemoved {
            namespace: "default".into(),
            name: "web".into(),
        })));
        assert_eq!(received(&mut watch), "-web");
    }

    #[tokio::test]
    async fn a_bookmark_that_proves_the_copy_changes_nothing() {
        let mut watch = mk_watch();
        watch.take(mk_complete("t1"));
        watch.take(mk_bookmark("0000000000000000"));
        assert_eq!(received(&mut watch), "current");
        assert_eq!(watch.request.resume_token, "t1");
    }

    #[tokio::test]
    async fn a_bookmark_that_disagrees_starts_over() {
        let mut watch = mk_watch();
        watch.take(mk_upsert("db", 1));
        watch.take(mk_upsert("web", 1));
        watch.take(mk_complete("t1"));
        watch.take(mk_bookmark("00000000deadbeef"));
        assert_eq!(received(&mut watch), "+db +web current");
        assert_eq!(watch.request.resume_token, "");
        assert!(matches!(watch.link, Link::Waiting(_)));
        watch.take(mk_upsert("web", 1));
        watch.take(mk_complete("t2"));
        assert_eq!(received(&mut watch), "+web -db current");
    }

    #[tokio::test]
    async fn another_store_epoch_starts_over() {
        let mut watch = mk_watch();
        watch.take(mk_upsert("web", 7));
        watch.take(mk_complete("t1"));
        received(&mut watch);
        watch.take(WatchApplicationsResponse { store_epoch: "two".into(), ..mk_upsert("web", 3) });
        assert_eq!(watch.request.resume_token, "");
        assert!(matches!(watch.link, Link::Waiting(_)));
    }

    #[tokio::test]
    async fn a_resumed_watch_names_the_moment_it_is_current_again() {
        let mut watch = mk_watch();
        watch.take(mk_complete("t1"));
        watch.disconnect(None);
        received(&mut watch);
        watch.take(mk_bookmark("0000000000000000"));
        assert_eq!(received(&mut watch), "current");
    }

    /// A failover may have lost the change, and given its revision to another one.
    #[tokio::test]
    async fn a_change_after_the_token_is_received_again() {
        let mut watch = mk_watch();
        watch.take(mk_upsert("db", 1));
        watch.take(mk_complete("t1"));
        watch.take(mk_upsert("web", 1));
        watch.disconnect(None);
        assert_eq!(received(&mut watch), "+db current +web");
        watch.take(mk_upsert("db", 1));
        watch.take(mk_upsert("web", 1));
        assert_eq!(received(&mut watch), "+web");
    }

    /// A store that went back to an older copy never reaches the token.
    #[tokio::test]
    async fn a_token_is_sent_three_times_to_servers_that_are_behind() {
        let mk_refused = |cause: &str| {
            let mut details = ErrorDetails::new();
            let facts = [("cause".to_string(), cause.to_string())];
            details.set_error_info("RESUME_TOKEN_EXPIRED", "bellwether", facts);
            Error::from_status("", Status::with_error_details(Code::OutOfRange, cause, details))
        };
        let mut watch = mk_watch();
        let tries = [(); 4].map(|()| watch.tries_again(&mk_refused("behind")));
        assert_eq!(tries, [true, true, true, false]);
        watch.start_over(FRESH_START);
        assert!(!watch.tries_again(&mk_refused("pruned")));
        watch.take(mk_upsert("web", 1));
        assert!(watch.tries_again(&mk_refused("behind")));
    }

    #[tokio::test]
    async fn a_saved_watch_continues_with_its_copy() {
        let mut watch = mk_watch();
        assert_eq!(watch.saved(), None);
        watch.take(mk_upsert("db", 1));
        watch.take(mk_complete("t1"));
        assert_eq!(watch.saved(), None, "events wait");
        received(&mut watch);
        let saved = watch.saved().expect("a snapshot");
        let request = WatchApplicationsRequest::default();
        let mut resumed = Watch::resumed(&Client::mk_lazy(), request, saved);
        assert_eq!(resumed.request.resume_token, "t1");
        resumed.take(mk_upsert("db", 1));
        resumed.take(mk_upsert("web", 2));
        assert_eq!(received(&mut resumed), "+web");
        let other = WatchApplicationsResponse { store_epoch: "two".into(), ..mk_upsert("db", 1) };
        resumed.take(other);
        assert_eq!(resumed.request.resume_token, "", "another store starts over");
    }

    #[tokio::test]
    async fn the_watch_continues_after_a_time_without_servers() {
        let mut watch = mk_watch();
        let event = watch.next().await.expect("passes");
        assert!(matches!(event, Event::Disconnected { error: Error::Unreachable { .. }, .. }));
    }
}
