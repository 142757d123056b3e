//! Converts the events of one watcher to messages, for single and multiplexed streams.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use prost::Message;

use super::parts::Encoded;
use super::{Watches, drain, epoch};
use crate::domain::app::AppState;
use crate::domain::limits::PAGE_SIZE_MAX;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::proto::v1;
use crate::proto::v1::watch_applications_response as wire;
use crate::service::code::ApiError;
use crate::service::convert::{self, PAGE_BYTES_MAX};
use crate::service::grpc::read_path::Reads;
use crate::store::Epoch;
use crate::watch::{Event, Item, Standing, WatchError, Watcher};

/// A watcher, and the pending read for its next message.
pub struct Track {
    watches: Watches,
    watcher: Watcher,
    include_units: bool,
    /// The item whose units are being read.
    asking: Option<Box<Asking>>,
    epoch: Option<(Epoch, Bytes)>,
}

/// The next message to a reader.
pub struct Tracked {
    /// The message.
    pub parts: Encoded,
    /// Number of changes that a newer state replaced before this reader took them.
    pub coalesced: u64,
}

struct Asking {
    item: Item,
    units: Pin<Box<dyn Future<Output = Result<Units, ApiError>> + Send>>,
}

/// The first units of an application, and the number of the others.
type Units = (Vec<v1::Unit>, i32);

impl Track {
    /// Creates a track of `watcher`, with the units of each application if `include_units`.
    pub fn new(watches: Watches, watcher: Watcher, include_units: bool) -> Track {
        Track { watches, watcher, include_units, asking: None, epoch: None }
    }

    /// Returns the next message. If there is none, the task is woken when there may be one. After
    /// an error the reader can resume with its token.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Tracked, ApiError>> {
        let polled = self.poll(context);
        // After the read: what the hub withholds since then is not in a bookmark of before.
        match self.watches.conflict(self.watcher.scope()) {
            Some(problem) => Poll::Ready(Err(problem)),
            None => polled,
        }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Tracked, ApiError>> {
        if self.asking.is_none() {
            let item = ready!(self.watcher.poll_next(context)).map_err(WatchError::from)?;
            match &item.event {
                Event::Upserted(entry) if self.include_units => {
                    let (app, revision) = (entry.app.clone(), entry.revision());
                    let reads = self.watches.0.reads.clone();
                    let units = Box::pin(units(reads, app, revision));
                    self.asking = Some(Box::new(Asking { item, units }));
                }
                _ => return Poll::Ready(Ok(self.sent(item, (Vec::new(), 0)))),
            }
        }
        let Some(asking) = &mut self.asking else { return Poll::Pending };
        let units = ready!(asking.units.as_mut().poll(context))?;
        let item = asking.item.clone();
        self.asking = None;
        Poll::Ready(Ok(self.sent(item, units)))
    }

    /// Returns the position if the reader has received everything.
    pub fn standing(&self) -> Option<(Standing, bool)> {
        let standing = self.watcher.standing().filter(|_| self.asking.is_none())?;
        Some((standing, self.include_units))
    }

    /// Returns the drain event.
    pub fn drain(&self) -> Encoded {
        Encoded::of(&v1::WatchApplicationsResponse {
            event: Some(wire::Event::Drain(drain())),
            store_epoch: self.watches.0.hub.epoch().to_string(),
            // Before the end of the snapshot there is no token to resume from.
            resume_token: self.token().unwrap_or_default(),
            ..v1::WatchApplicationsResponse::default()
        })
    }

    /// Returns the token of what the reader has; `None` while a relay withholds some of it.
    fn token(&self) -> Option<String> {
        let token = self.watcher.token()?;
        self.watches.conflict(self.watcher.scope()).is_none().then_some(token)
    }

    fn sent(&mut self, item: Item, (units, units_rest_count): Units) -> Tracked {
        let Item { event, coalesced } = item;
        let mut message = v1::WatchApplicationsResponse {
            coalesced_count: convert::count(coalesced),
            units,
            units_rest_count,
            ..v1::WatchApplicationsResponse::default()
        };
        message.event = match event {
            Event::Upserted(entry) if coalesced == 0 && message.units.is_empty() => {
                let parts = Encoded::upserted(&entry, self.epoch());
                return Tracked { parts, coalesced };
            }
            Event::Upserted(entry) => {
                message.store_epoch = self.watches.0.hub.epoch().to_string();
                let parts = Encoded::upserted(&entry, message.encode_to_vec().into());
                return Tracked { parts, coalesced };
            }
            Event::Removed(app) => Some(wire::Event::Removed(v1::ApplicationRemoved {
                namespace: app.namespace().to_string(),
                name: app.application().to_string(),
            })),
            Event::SnapshotComplete { application_count, token } => {
                message.resume_token = token;
                let application_count = application_count as i32;
                Some(wire::Event::SnapshotComplete(v1::SnapshotComplete { application_count }))
            }
            Event::Bookmark { digest, application_count, token } => {
                message.resume_token = token;
                Some(wire::Event::Bookmark(v1::Bookmark {
                    digest: format!("{digest:016x}"),
                    application_count: application_count as i32,
                    as_of_time: Some(convert::timestamp(self.watches.as_of(self.watcher.scope()))),
                }))
            }
        };
        message.store_epoch = self.watches.0.hub.epoch().to_string();
        Tracked { parts: Encoded::of(&message), coalesced }
    }

    /// Returns the current store epoch, encoded.
    fn epoch(&mut self) -> Bytes {
        let now = self.watches.0.hub.epoch();
        epoch(&mut self.epoch, now, || self.watches.epoch(now))
    }
}

/// Reads the units of an application, if the application still exists. If it does not, the next
/// event removes it.
async fn units(reads: Reads, app: AppName, revision: Revision) -> Result<Units, ApiError> {
    let units = |state: &AppState| {
        let count = state.units_after(None).count();
        let units = state.units_after(None).take(PAGE_SIZE_MAX);
        let units = units.map(|(name, unit)| convert::unit(state, name, unit));
        let (units, _) = convert::first_of(units, PAGE_BYTES_MAX);
        let rest = convert::count(count - units.len());
        (units, rest)
    };
    Ok(reads.if_there(&app, revision, units).await?.unwrap_or_default())
}
