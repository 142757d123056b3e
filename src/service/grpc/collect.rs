//! `CollectApplication`: asks every connected unit for its pull set.

use std::time::Duration;

use tonic::{Request, Status};

use crate::domain::app::AppState;
use crate::domain::revision::Revision;
use crate::domain::status::Kind;
use crate::domain::time::Timestamp;
use crate::domain::unit::Unit;
use crate::proto::v1;
use crate::service::call::Deadline;
use crate::service::code::ApiError;
use crate::service::convert;
use crate::service::grpc::handlers::Handlers;
use crate::session::Collected;

/// How long to wait for answers if the request does not say.
const WAIT_DEFAULT: Duration = Duration::from_secs(5);
/// The shortest wait: a round trip within a building.
const WAIT_MIN: Duration = Duration::from_millis(10);
/// The longest wait: equal to the default interval between collections.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Time that is reserved to send the answer before the caller's deadline: this much, and a little
/// more for each unit, because a large answer takes time on the wire. At most a tenth of the wait.
const ANSWER_TIME: Duration = Duration::from_millis(5);
/// The part of [`ANSWER_TIME`] for each unit.
const ANSWER_TIME_OF_UNIT: Duration = Duration::from_micros(15);
/// How long this replica waits for commits of answers that other replicas received.
const CATCH_UP_MAX: Duration = Duration::from_millis(20);
/// Maximum units in an answer.
const UNITS_MAX: usize = 10_000;
/// Maximum bytes of all statuses in an answer, and of all units besides them: together they fit
/// into the message size that clients accept by default.
const BYTES_MAX: usize = 3 << 19;
/// Maximum statuses in an answer: more do not fit into a message of the default size.
const STATUSES_MAX: usize = 10_000;

/// Collects the pull sets of an application's units.
pub(super) async fn collect(
    Handlers { parts, reads, .. }: &Handlers,
    request: Request<v1::CollectApplicationRequest>,
) -> Result<v1::CollectApplicationResponse, Status> {
    let deadline = request.extensions().get::<Deadline>().copied();
    let (app, wire, (wait, component)) = convert::open(request, |fields, wire| {
        let wait = fields.duration("deadline", wire.deadline, WAIT_MIN, WAIT_MAX);
        let component = wire.component.as_ref();
        Some((wait, component.map(|text| fields.part("component", text))))
    })?;
    let left = deadline.map(|Deadline(at)| at - tokio::time::Instant::now());
    let wait = wait.unwrap_or(WAIT_DEFAULT).min(left.unwrap_or(WAIT_MAX));
    let count = |state: &AppState| state.units_after(None).count();
    let units = reads.after(&app, Revision::default(), count).await?;
    let units = u32::try_from(units).unwrap_or(u32::MAX);
    let wait = wait - (ANSWER_TIME + ANSWER_TIME_OF_UNIT * units).min(wait / 10);
    let collected = parts.sessions.collect(&app, component, wire.recompute, wait).await;
    let collected = collected.map_err(|e| ApiError::of(&app, e))?;
    let newest = collected.answered.values().max().copied().unwrap_or_default();
    let now = parts.store.now();
    let read = |state: &AppState| answer(state, &collected, now);
    // Commits of other replicas arrive soon, but the caller does not wait for them without a limit.
    let seen = reads.after(&app, newest, read);
    Ok(match tokio::time::timeout(CATCH_UP_MAX, seen).await {
        Ok(seen) => seen?,
        Err(_elapsed) => reads.after(&app, Revision::default(), read).await?,
    })
}

fn answer(
    state: &AppState,
    collected: &Collected,
    now: Timestamp,
) -> v1::CollectApplicationResponse {
    let with_statuses = state.status_count() <= STATUSES_MAX;
    let mut room = BYTES_MAX;
    let units = state.units_after(None).take(UNITS_MAX);
    let answers = units.map(|(name, unit)| {
        let answered = collected.answered.contains_key(name);
        let of_unit = state.statuses().of(name, None);
        let pulled = of_unit.filter(|(key, _)| key.kind == Kind::Pull);
        let pulled: Vec<_> =
            pulled.map(|(key, status)| convert::record(state, key, status)).collect();
        let bytes: usize = pulled.iter().map(convert::framed).sum();
        // The statuses of a unit are one set, so the answer has all of them or none.
        let statuses = match with_statuses && bytes <= room {
            true => pulled,
            false => Vec::new(),
        };
        room -= if statuses.is_empty() { 0 } else { bytes };
        v1::UnitAnswer {
            unit: Some(convert::unit(state, name, unit)),
            answered,
            age: age(unit, answered, now),
            statuses,
        }
    });
    let answers: Vec<v1::UnitAnswer> = answers.collect();
    let (answers, rest) = convert::first_of(answers.into_iter(), 2 * BYTES_MAX);
    let beyond = state.units_after(None).count().saturating_sub(UNITS_MAX);
    v1::CollectApplicationResponse {
        answers,
        answers_rest_count: convert::count(rest + beyond),
        asked_count: collected.asked as i32,
        answered_count: collected.answered.len() as i32,
        revision: state.head().revision.0,
    }
}

fn age(unit: &Unit, answered: bool, now: Timestamp) -> Option<prost_types::Duration> {
    match answered {
        // Another replica may have received an unchanged answer, which this replica does not see as
        // a commit.
        true => Some(convert::duration(Duration::ZERO)),
        false if unit.last_answer == Timestamp::default() => None,
        false => Some(convert::duration(now.since(unit.last_answer))),
    }
}
