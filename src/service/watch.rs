//! `WatchApplications`: the hub's items on the wire, until the reader leaves, its deadline passes,
//! or we drain.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::aggregator::{self, Aggregator};
use crate::domain::app::AppState;
use crate::domain::limits::PAGE_SIZE_MAX;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::proto::v1;
use crate::proto::v1::watch_applications_response as wire;
use crate::service::code::{Problem, RETRY_LATER, Reason};
use crate::service::convert;
use crate::service::observe::Deadline;
use crate::telemetry::{Metrics, WatchStream as WatchStreamCount};
use crate::watch::{Event, Filter, Hub, Item, Start, Token, WatchError, Watcher};

/// What a watch call answers.
pub type WatchStream =
    Pin<Box<dyn Stream<Item = Result<v1::WatchApplicationsResponse, Status>> + Send>>;

/// How long a drained reader waits before it connects again: the time a replica needs to be
/// replaced in a rollout is the balancer's business, so only long enough not to come back to this
/// one.
pub(super) const RECONNECT_AFTER: Duration = Duration::from_millis(500);

/// Opens watches, within their number.
#[derive(Clone)]
pub struct Watches {
    hub: Arc<Hub>,
    aggregator: Aggregator,
    open: Arc<Semaphore>,
    open_max: usize,
    draining: CancellationToken,
    metrics: Metrics,
}

impl Watches {
    /// At most `open_max` watches at once; all of them end when `draining` is cancelled.
    pub fn new(
        hub: Arc<Hub>,
        aggregator: Aggregator,
        open_max: usize,
        draining: CancellationToken,
        metrics: Metrics,
    ) -> Watches {
        let open = Arc::new(Semaphore::new(open_max));
        Watches { hub, aggregator, open, open_max, draining, metrics }
    }

    /// A place among the open streams; given back when it is dropped.
    pub fn place(&self) -> Result<Place, Problem> {
        if self.draining.is_cancelled() {
            return Err(Problem::draining());
        }
        match self.open.clone().try_acquire_owned() {
            Ok(permit) => Ok(Place { _permit: permit, _counted: self.metrics.watch_stream() }),
            Err(_) => {
                let max = self.open_max;
                let text = format!(
                    "{max} watches are open already; watch several applications on one stream"
                );
                let problem = Problem::new(Reason::TooManyStreams, text);
                let problem = problem.with("limit", "watch_streams_max").with("max", max);
                Err(problem.retry_after(RETRY_LATER))
            }
        }
    }

    /// Resolves when watches begin to end, because the server stops.
    pub async fn draining(&self) {
        self.draining.cancelled().await;
    }

    /// Starts a watch.
    pub fn open(
        &self,
        filter: Filter,
        resume_token: &str,
        include_units: bool,
        deadline: Option<Deadline>,
    ) -> Result<WatchStream, Problem> {
        let place = self.place()?;
        let start = match resume_token {
            "" => Start::Snapshot,
            token => Start::Resume(Token::decode(token)?),
        };
        let reader = Reader {
            watcher: self.hub.watch(filter, start)?,
            aggregator: include_units.then(|| self.aggregator.clone()),
            hub: self.hub.clone(),
            draining: self.draining.clone(),
            deadline,
            metrics: self.metrics.clone(),
            told: false,
            ended: false,
            _place: place,
        };
        Ok(Box::pin(futures_util::stream::unfold(reader, |mut reader| async {
            let next = reader.next().await?;
            Some((next, reader))
        })))
    }
}

/// A place among the open streams.
pub struct Place {
    _permit: OwnedSemaphorePermit,
    _counted: WatchStreamCount,
}

/// One reader and where it is.
struct Reader {
    watcher: Watcher,
    /// Present if the units are asked for.
    aggregator: Option<Aggregator>,
    hub: Arc<Hub>,
    draining: CancellationToken,
    deadline: Option<Deadline>,
    metrics: Metrics,
    /// The reader knows that we drain.
    told: bool,
    ended: bool,
    _place: Place,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<v1::WatchApplicationsResponse, Status>> {
        if self.ended {
            return None;
        }
        let deadline = self.deadline;
        let passed = async {
            match deadline {
                Some(Deadline(at)) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.draining.cancelled() => match std::mem::replace(&mut self.told, true) {
                false => Some(Ok(self.drain())),
                true => self.end(Problem::draining().into()),
            },
            () = passed => {
                self.end(Status::deadline_exceeded("the deadline of this watch has passed"))
            }
            item = self.watcher.next() => match item {
                Ok(item) => match self.response(item).await {
                    Ok(response) => Some(Ok(response)),
                    Err(problem) => self.end(problem.into()),
                },
                Err(expired) => self.end(Problem::from(WatchError::from(expired)).into()),
            },
        }
    }

    fn end(&mut self, status: Status) -> Option<Result<v1::WatchApplicationsResponse, Status>> {
        self.ended = true;
        Some(Err(status))
    }

    async fn response(&mut self, item: Item) -> Result<v1::WatchApplicationsResponse, Problem> {
        self.metrics.watch_coalesced(item.coalesced);
        let mut response = v1::WatchApplicationsResponse {
            store_epoch: self.hub.epoch().to_string(),
            coalesced_count: i32::try_from(item.coalesced).unwrap_or(i32::MAX),
            ..v1::WatchApplicationsResponse::default()
        };
        response.event = Some(match item.event {
            Event::Upserted(entry) => {
                response.units = self.units(&entry.app, entry.head.revision).await?;
                wire::Event::Upserted(convert::application(&entry.app, &entry.head))
            }
            Event::Removed(app) => wire::Event::Removed(v1::ApplicationRemoved {
                namespace: app.namespace().to_string(),
                name: app.application().to_string(),
            }),
            Event::SnapshotComplete { application_count, token } => {
                response.resume_token = token;
                wire::Event::SnapshotComplete(v1::SnapshotComplete {
                    application_count: application_count as i32,
                })
            }
            Event::Bookmark { digest, application_count, token } => {
                response.resume_token = token;
                wire::Event::Bookmark(v1::Bookmark {
                    digest: format!("{digest:016x}"),
                    application_count: application_count as i32,
                })
            }
        });
        Ok(response)
    }

    /// The units of an application, if they are asked for and it is still there.
    async fn units(&self, app: &AppName, revision: Revision) -> Result<Vec<v1::Unit>, Problem> {
        let Some(aggregator) = &self.aggregator else {
            return Ok(Vec::new());
        };
        let units = |state: &AppState| {
            let units = state.units_after(None).take(PAGE_SIZE_MAX);
            units.map(|(name, unit)| convert::unit(state, name, unit)).collect()
        };
        match aggregator.read(app, revision, units).await {
            // It was deleted meanwhile: that is told next.
            Err(aggregator::Error::Rejected(_)) => Ok(Vec::new()),
            // No units would be a lie. The reader goes on from its token.
            result => result.map_err(|error| Problem::of(app, error)),
        }
    }

    fn drain(&self) -> v1::WatchApplicationsResponse {
        v1::WatchApplicationsResponse {
            event: Some(wire::Event::Drain(v1::Drain {
                reconnect_after: prost_types::Duration::try_from(RECONNECT_AFTER).ok(),
            })),
            store_epoch: self.hub.epoch().to_string(),
            // Before the end of the snapshot there is nothing to go on from.
            resume_token: self.watcher.token().unwrap_or_default(),
            ..v1::WatchApplicationsResponse::default()
        }
    }
}
