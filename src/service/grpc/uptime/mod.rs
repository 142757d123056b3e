//! The time of applications, from their stored events: how long one was well, and how several were
//! in slots of time. An application costs a read of its events once, and again after each change.

mod events;
mod past;

use std::sync::Arc;

use tonic::{Request, Status};

use crate::domain::app::{AppState, Head};
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::uptime::timeline::{Now, until};
use crate::domain::uptime::{Timeline, uptime};
use crate::proto::v1;
use crate::service::code::ApiError;
use crate::service::convert;
use crate::service::grpc::handlers::Handlers;
use crate::service::grpc::timelines::{Read, Seen};
use events::{kept, of_state, read_events};

impl Handlers {
    /// Answers a `GetUptime`.
    pub(super) async fn uptime(
        &self,
        request: Request<v1::GetUptimeRequest>,
    ) -> Result<v1::GetUptimeResponse, Status> {
        let now = self.parts.store.now();
        let (app, _, range) =
            convert::open(request, |fields, wire| convert::uptime_range(fields, wire, now))?;
        let entry = self.reads.entry(&app, 0).await?;
        let head = entry.head();
        let timeline = self.timeline(&app, &head, now).await?;
        let found = uptime(range, &timeline, &head.config.serving_levels);
        Ok(convert::uptime(range, &found))
    }

    /// Returns the timeline of an application with this head, until now.
    async fn timeline(
        &self,
        app: &AppName,
        head: &Head,
        now: Timestamp,
    ) -> Result<Arc<Timeline>, ApiError> {
        let seen = Seen::of(head);
        let read = match self.timelines.get(app, seen) {
            Some(read) => read,
            None => {
                let read = self.read_timeline(app, head.revision, now).await?;
                self.timelines.put(app, seen, read.clone());
                read
            }
        };
        Ok(until(&read.timeline, &read.now, now))
    }

    /// Reads what is kept for a head of this revision. The state of the application can be older
    /// than the head, which the hub receives first: then it is waited for.
    async fn read_timeline(
        &self,
        app: &AppName,
        revision: Revision,
        now: Timestamp,
    ) -> Result<Read, ApiError> {
        // An application that was deleted meanwhile has the past that its events say.
        let of_state = |state: &AppState| of_state(state, now);
        let of_app = self.reads.read_or_empty(app, revision.0, of_state).await?;
        let (ever, known) = of_app;
        let events = read_events(&self.parts, app).await?;
        let now = Now { kept: kept(&self.parts, &events, ever), ..known };
        Ok(Read { timeline: Timeline::of(events.iter().rev(), now).into(), now })
    }
}
