//! The watches of the namespaces that routes are about, as one stream of events.

use std::time::Duration;

use bellwether_client::{Client, Error, Event, Watch};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::proto::v1::{
    Application, ListStatusEventsRequest, StatusEvent, WatchApplicationsRequest,
};

/// Events that wait. A slow reader slows the watch down, which then gets the newest state.
const WAITING_MAX: usize = 1_024;

/// Events of the history that are looked through for the end of a mark.
const EVENTS: i32 = 100;

/// How long the history may take to answer.
const HISTORY_TIMEOUT: Duration = Duration::from_secs(2);

/// An event of one of the watches.
pub type SeenEvent = (usize, Result<Event, Error>);

/// The watches, which end with this.
pub struct Watches {
    events: mpsc::Receiver<SeenEvent>,
    current: Vec<bool>,
    _tasks: JoinSet<()>,
}

impl Watches {
    /// Starts a watch for each namespace.
    pub fn start(client: &Client, namespaces: Vec<String>) -> Watches {
        let (sender, events) = mpsc::channel(WAITING_MAX);
        let current = vec![false; namespaces.len()];
        let mut tasks = JoinSet::new();
        for (place, namespace) in namespaces.into_iter().enumerate() {
            let request = WatchApplicationsRequest { namespace, ..Default::default() };
            let mut watch = Watch::new(client, request);
            let sender = sender.clone();
            tasks.spawn(async move {
                loop {
                    let event = watch.next().await;
                    let is_over = event.is_err();
                    if sender.send((place, event)).await.is_err() || is_over {
                        return;
                    }
                }
            });
        }
        Watches { events, current, _tasks: tasks }
    }

    /// Returns the next event. Cancel safe.
    pub async fn next(&mut self) -> SeenEvent {
        match self.events.recv().await {
            Some(seen) => seen,
            // Every watch has sent its last event before.
            None => std::future::pending().await,
        }
    }

    /// Returns an event that has arrived already.
    pub fn try_next(&mut self) -> Option<SeenEvent> {
        self.events.try_recv().ok()
    }

    /// Takes whether a watch is current. Returns whether all are.
    pub fn set_current(&mut self, place: usize, is_current: bool) -> bool {
        self.current[place] = is_current;
        self.current.iter().all(|is| *is)
    }
}

/// Whether an acknowledgement of an application has expired after a revision. If the history does
/// not answer, it has: a message too many is better than none.
pub async fn has_expired(client: &Client, application: &Application, after: u64) -> bool {
    let request = ListStatusEventsRequest {
        namespace: application.namespace.clone(),
        application: application.name.clone(),
        page_size: EVENTS,
        ..ListStatusEventsRequest::default()
    };
    let client = client.clone().with_deadline(HISTORY_TIMEOUT);
    let Ok(answer) = client.call(request).await else { return true };
    let is_expiry = |event: &StatusEvent| {
        let changed = event.changes.iter().any(|it| it.field == "mark" && it.to == "expired");
        after < event.revision && changed && event.reason == "Acknowledged"
    };
    answer.events.iter().any(is_expiry)
}
