//! How applications were in slots of time. An application costs a read of its stored events once,
//! and again after each change.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use tonic::{Request, Status};

use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::domain::uptime::Timeline;
use crate::domain::uptime::span::Span;
use crate::domain::uptime::timeline::Now;
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::code::ApiError;
use crate::service::convert::{self, Page, PastOf};
use crate::service::grpc::handlers::Handlers;

use crate::service::grpc::timelines::{Read, Seen};
use crate::service::grpc::uptime::events::{kept, of_state, read_events};
use crate::watch::Entry;

/// Applications of one call whose events are read at the same time.
const READS_AT_ONCE: usize = 16;

impl Handlers {
    /// Answers a `ListPast`.
    pub(in crate::service::grpc) async fn past(
        &self,
        request: Request<v1::ListPastRequest>,
    ) -> Result<v1::ListPastResponse, Status> {
        let (access, wire) = Access::open(request);
        let now = self.parts.store.now();
        let PastOf { namespace, names, slots } = convert::list_past(&access, &wire, now)?;
        let namespace = namespace.as_deref();
        let asked = [namespace.unwrap_or("-"), &format!("{names:?} {slots:?}")];
        let page = Page::<AppName>::open("ListPast", &asked, wire.page_size, &wire.page_token)?;
        let entries = match names.is_empty() {
            true => {
                let every = |_: &Entry| true;
                self.parts.hub.list_where(namespace, page.after.as_ref(), &every, page.size + 1)
            }
            false => {
                let is_next = |app: &&AppName| page.after.as_ref().is_none_or(|last| last < *app);
                let known = names.iter().filter(is_next).filter_map(|app| self.parts.hub.get(app));
                known.filter(|entry| !entry.head.deleted).take(page.size + 1).collect()
            }
        };
        let reads = entries.iter().take(page.size).cloned().map(|entry| self.timeline(entry, now));
        let reads = stream::iter(reads).buffered(READS_AT_ONCE).try_collect();
        let timelines: Vec<Timeline> = reads.await?;
        let mut timelines = timelines.into_iter();
        // One more than fits shows that there is a next page.
        let pasts = entries.iter().map(|entry| {
            let timeline = timelines.next().unwrap_or_default();
            (&entry.app, convert::past(&entry.app, &timeline.past(slots, now)))
        });
        let (applications, next_page_token) = page.fill(pasts);
        Ok(v1::ListPastResponse { applications, next_page_token })
    }

    /// Returns the timeline of an application until now.
    async fn timeline(&self, entry: Arc<Entry>, now: Timestamp) -> Result<Timeline, ApiError> {
        let (head, seen) = (&entry.head, Seen::of(&entry.head));
        let read = match self.timelines.get(&entry.app, seen) {
            Some(read) => read,
            None => {
                let timeline = self.read_timeline(&entry.app, now).await?.into();
                let read = Read { timeline, at: now };
                self.timelines.put(&entry.app, seen, read.clone());
                read
            }
        };
        Ok(until(&read, head, now))
    }

    async fn read_timeline(&self, app: &AppName, now: Timestamp) -> Result<Timeline, ApiError> {
        // An application that was deleted meanwhile has the past that its events say.
        let of_app = self.reads.read_or_empty(app, 0, |state| of_state(state, now)).await?;
        let (ever, known, _) = of_app;
        let events = read_events(&self.parts, app).await?;
        let kept = kept(&self.parts, &events, ever);
        Ok(Timeline::of(events.iter().rev(), Now { kept, ..known }))
    }
}

/// Returns a timeline that was read earlier, until now: what a unit was then, it is still.
fn until(read: &Read, head: &Head, now: Timestamp) -> Timeline {
    let mut timeline = (*read.timeline).clone();
    let since = Span { start: read.at, end: now };
    let totals = &head.summary.totals;
    if 0 < totals.stale_units + totals.lost_units {
        timeline.silent = timeline.silent.iter().copied().chain([since]).collect();
    }
    if 0 < totals.uncertain_units {
        timeline.uncertain = timeline.uncertain.iter().copied().chain([since]).collect();
    }
    timeline
}
