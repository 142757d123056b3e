//! The time of applications, from their stored events: how long one was well, and how several were
//! in slots of time.

mod events;
pub mod past;

use tonic::Request;

use crate::domain::uptime::timeline::Now;
use crate::domain::uptime::{Timeline, uptime};
use crate::proto::v1;
use crate::service::Parts;
use crate::service::code::ApiError;
use crate::service::convert;
use crate::service::grpc::read_path::Reads;
use events::{kept, of_state, read_events};

/// Answers a `GetUptime`.
pub(super) async fn get(
    parts: &Parts,
    reads: &Reads,
    request: Request<v1::GetUptimeRequest>,
) -> Result<v1::GetUptimeResponse, ApiError> {
    let now = parts.store.now();
    let (app, _, range) =
        convert::open(request, |fields, wire| convert::uptime_range(fields, wire, now))?;
    let (ever, known, serving) = reads.read(&app, 0, |state| of_state(state, now)).await?;
    let events = read_events(parts, &app).await?;
    let kept = kept(parts, &events, ever);
    let timeline = Timeline::of(events.iter().rev(), Now { kept, ..known });
    Ok(convert::uptime(range, &uptime(range, &timeline, &serving)))
}
