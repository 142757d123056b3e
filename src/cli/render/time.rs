//! Formats times and ages.

use std::time::Duration;

use jiff::Timestamp;

use crate::cli::span;

/// Converts a time from the wire; `None` if no calendar has it.
pub fn from_wire(moment: Option<&prost_types::Timestamp>) -> Option<Timestamp> {
    moment.and_then(|m| Timestamp::new(m.seconds, m.nanos).ok())
}

/// Converts a time for the wire.
pub fn to_wire(moment: Timestamp) -> prost_types::Timestamp {
    prost_types::Timestamp { seconds: moment.as_second(), nanos: moment.subsec_nanosecond() }
}

/// Returns the age of a time; zero for one in the future, since clocks differ.
pub fn age(moment: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(moment)).unwrap_or_default()
}

/// Formats the age as one number: `4m`; `-` if unknown.
pub fn short_age(moment: Option<&prost_types::Timestamp>, now: Timestamp) -> String {
    from_wire(moment).map_or("-".to_string(), |m| span::short(age(m, now)))
}

/// Whether two times are of the same day.
pub fn is_same_day(one: Timestamp, other: Timestamp) -> bool {
    let day = |moment: Timestamp| moment.strftime("%Y-%m-%d").to_string();
    day(one) == day(other)
}

/// Formats `12:41:02Z` today, `2026-02-24 12:41:02Z` on any other day.
pub fn clock(moment: Timestamp, now: Timestamp) -> String {
    match is_same_day(moment, now) {
        true => moment.strftime("%H:%M:%SZ").to_string(),
        false => full(moment),
    }
}

/// Formats `2026-02-24 12:41:02Z`.
pub fn full(moment: Timestamp) -> String {
    moment.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// Formats a time given in seconds since 1970; as the number if no calendar has it.
pub fn of_seconds(seconds: u64) -> String {
    let moment = i64::try_from(seconds).ok().and_then(|at| Timestamp::from_second(at).ok());
    moment.map_or_else(|| seconds.to_string(), |moment| moment.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_time(text: &str) -> Timestamp {
        text.parse().expect("a timestamp")
    }

    #[test]
    fn names_the_day_only_if_it_is_another() {
        let now = mk_time("2026-02-24T12:45:09Z");
        assert_eq!(clock(mk_time("2026-02-24T00:00:01Z"), now), "00:00:01Z");
        assert_eq!(clock(mk_time("2026-02-23T23:59:59Z"), now), "2026-02-23 23:59:59Z");
    }

    #[test]
    fn a_future_time_has_the_age_zero() {
        let now = mk_time("2026-02-24T12:45:09Z");
        let ahead = to_wire(mk_time("2026-02-24T12:46:00Z"));
        assert_eq!(short_age(Some(&ahead), now), "0s");
        assert_eq!(short_age(None, now), "-");
    }
}
