//! Spans of time as people write and read them: `90s`, `1h30m`; `4m`, `3d`.

use std::time::Duration;

use crate::service::age;

/// Milliseconds of each unit, the largest first.
const UNITS: [(&str, u64); 6] = [
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The longest span that a message carries: 10,000 years, the limit of `google.protobuf.Duration`.
const WIRE_MAX: Duration = Duration::from_secs(315_576_000_000);

/// Parses `90s`, `5m`, `1h30m`, `500ms`; `0` alone needs no unit.
///
/// # Errors
/// A sentence with the accepted form.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no span of time: write 90s, 5m or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        // `ms` is tried before `m`.
        let is_next = |(unit, _): &&(&str, u64)| rest[digits..].starts_with(unit);
        let (unit, millis) = UNITS.iter().rev().find(is_next).ok_or_else(wrong)?;
        rest = &rest[digits + unit.len()..];
        total = total.saturating_add(number.saturating_mul(*millis));
    }
    match Duration::from_millis(total) {
        _ if text.is_empty() => Err(wrong()),
        total if WIRE_MAX < total => Err(format!("`{text}` is longer than 10,000 years")),
        total => Ok(total),
    }
}

/// Returns a parsed span as the wire carries it.
pub fn on_wire(span: Duration) -> prost_types::Duration {
    let longest = prost_types::Duration { seconds: WIRE_MAX.as_secs() as i64, nanos: 0 };
    prost_types::Duration::try_from(span).unwrap_or(longest)
}

pub use bellwether_client::proto::span as from_wire;

/// Formats one number: `35s`, `4m`, `47h`, `3d`.
pub fn short(span: Duration) -> String {
    age::short(span.as_secs())
}

/// Formats a span exact to the second, so that [`parse`] reads it back: `9m48s`.
pub fn exact(span: Duration) -> String {
    let mut seconds = span.as_secs();
    let mut text = String::new();
    for (unit, millis) in &UNITS[1..5] {
        let length = millis / 1_000;
        if length <= seconds {
            text.push_str(&format!("{}{unit}", seconds / length));
            seconds %= length;
        }
    }
    if text.is_empty() { "0s".to_string() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_parsed() {
        for (text, seconds) in
            [("90s", 90), ("5m", 300), ("1h30m", 5_400), ("2d", 172_800), ("1w", 604_800), ("0", 0)]
        {
            assert_eq!(parse(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse("1s500ms"), Ok(Duration::from_millis(1_500)));
    }

    #[test]
    fn wrong_spans_are_refused_with_the_accepted_form() {
        for text in ["", "5", "m", "5x", "-5s", "1.5h", "99999999999999999999s", "5 m"] {
            assert_eq!(
                parse(text),
                Err(format!("`{text}` is no span of time: write 90s, 5m or 1h30m"))
            );
        }
    }

    #[test]
    fn refuses_what_no_message_carries() {
        let longest = parse("315576000000s").unwrap();
        assert_eq!(on_wire(longest).seconds, 315_576_000_000);
        let refused = parse("315576000001s");
        assert_eq!(refused, Err("`315576000001s` is longer than 10,000 years".to_string()));
    }

    #[test]
    fn prints_one_number_or_all() {
        for (seconds, one, all) in [
            (0, "0s", "0s"),
            (59, "59s", "59s"),
            (61, "1m", "1m1s"),
            (5_400, "1h", "1h30m"),
            (259_200, "3d", "3d"),
        ] {
            let span = Duration::from_secs(seconds);
            assert_eq!((short(span).as_str(), exact(span).as_str()), (one, all));
        }
    }
}
