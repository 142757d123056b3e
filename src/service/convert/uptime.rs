//! Conversion of an uptime: the range of a request, and the answer.

use super::fields::Fields;
use super::value::{count, duration, level};
use crate::domain::level::Level;
use crate::domain::time::Timestamp;
use crate::domain::uptime::span::Span;
use crate::domain::uptime::{RANGE_MAX, Uptime};
use crate::proto::v1;
use crate::service::code::Reason;
use crate::service::protobuf::timestamp;

/// Reads the range of a request. Without an end, or with one ahead, it ends now.
pub fn uptime_range(
    fields: &mut Fields,
    wire: &v1::GetUptimeRequest,
    now: Timestamp,
) -> Option<Span> {
    if wire.start.is_none() {
        return fields.missing("start", "is required");
    }
    let start = fields.moment("start", wire.start)?;
    let end = match wire.end {
        Some(_) => fields.moment("end", wire.end)?,
        None => now,
    };
    if end <= start {
        let field = if wire.end.is_some() { "end" } else { "start" };
        let text = "ends the range before it begins; give an end after its start";
        return fields.wrong(field, text, end.to_utc());
    }
    let end = end.min(now);
    if end <= start {
        return fields.wrong("start", "is not in the past", start.to_utc());
    }
    if RANGE_MAX < end.since(start) {
        let days = RANGE_MAX.as_secs() / 86_400;
        let text = format!("begins a range of more than {days} days; give a shorter one");
        let noted = fields.note("start", Reason::InvalidValue, text);
        noted.with("value", start.to_utc()).with("max_days", days);
        return None;
    }
    Some(Span { start, end })
}

/// Returns the answer for a range.
pub fn uptime(range: Span, found: &Uptime) -> v1::GetUptimeResponse {
    let levels = Level::ALL.into_iter().filter(|l| !found.levels[*l as usize].is_zero());
    let levels = levels.map(|l| v1::LevelDuration {
        level: level(l) as i32,
        duration: Some(duration(found.levels[l as usize])),
    });
    v1::GetUptimeResponse {
        start: Some(timestamp(range.start)),
        end: Some(timestamp(range.end)),
        percent: found.percent(),
        well: Some(duration(found.well)),
        not_well: Some(duration(found.not_well)),
        planned: Some(duration(found.planned)),
        unknown: Some(duration(found.unknown())),
        silent: Some(duration(found.silent)),
        episode_count: count(found.episodes),
        longest_episode: Some(duration(found.longest)),
        levels: levels.collect(),
    }
}
