//! Times in the page: an age or a clock for people, and the time itself for programs. The script
//! computes ages by the same rule.

use jiff::Timestamp;

use super::html::Html;
use super::now;
use crate::service::convert::age;

/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;

/// Adds the age of a time, with date and clock as a title; nothing without a time.
pub fn add_since(html: &mut Html, time: Option<&prost_types::Timestamp>) {
    let Some(time) = time else { return };
    let seconds = u64::try_from(now().saturating_sub(time.seconds)).unwrap_or(0);
    let markup = r#"<time datetime="{}" title="{}">{}</time>"#;
    html.fill(markup, &[&given(time), &full(time), &age::short(seconds)]);
}

/// Adds a time to come, as the time from now.
pub fn add_until(html: &mut Html, time: &prost_types::Timestamp) {
    let left = u64::try_from(time.seconds - now()).unwrap_or(0);
    let until = if left == 0 { "now".into() } else { format!("in {}", age::short(left)) };
    let markup = r#"<time class="next" datetime="{}" title="{}">{}</time>"#;
    html.fill(markup, &[&given(time), &full(time), &until]);
}

/// Adds a time as the clock shows it.
pub fn add_clock(html: &mut Html, time: &prost_types::Timestamp) {
    let shown = clock_or_day(time);
    html.fill(r#"<time class="clock" datetime="{}">{}</time>"#, &[&given(time), &shown]);
}

/// Formats `14:01:31` for a time of today, otherwise `26 Nov 14:01`.
pub fn clock_or_day(time: &prost_types::Timestamp) -> String {
    if is_today(time) { clock(time) } else { format(time, "%-d %b %H:%M") }
}

/// Formats `2026-11-26T14:01:31Z`.
fn given(time: &prost_types::Timestamp) -> String {
    format(time, "%Y-%m-%dT%H:%M:%SZ")
}

/// Formats `14:01:31`.
pub fn clock(time: &prost_types::Timestamp) -> String {
    format(time, "%H:%M:%S")
}

/// Formats `18:00` for a time of today, otherwise `27 Nov 18:00`.
pub fn short(time: &prost_types::Timestamp) -> String {
    format(time, if is_today(time) { "%H:%M" } else { "%-d %b %H:%M" })
}

/// Formats `26 Nov`, and the year if it is another one.
pub fn day(time: &prost_types::Timestamp) -> String {
    let year = |seconds| format(&prost_types::Timestamp { seconds, nanos: 0 }, "%Y");
    let is_this_year = year(time.seconds) == year(now());
    format(time, if is_this_year { "%-d %b" } else { "%-d %b %Y" })
}

/// Formats `26 Nov 14:01:31 UTC`.
pub fn full(time: &prost_types::Timestamp) -> String {
    format!("{} {} UTC", day(time), clock(time))
}

fn is_today(time: &prost_types::Timestamp) -> bool {
    time.seconds.div_euclid(DAY_SECONDS) == now().div_euclid(DAY_SECONDS)
}

/// Formats a time; as `-` if no calendar has it.
fn format(time: &prost_types::Timestamp, pattern: &str) -> String {
    let moment = Timestamp::from_second(time.seconds);
    moment.map_or("-".to_string(), |moment| moment.strftime(pattern).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_an_age_and_itself() {
        let at = |ago: i64| prost_types::Timestamp { seconds: now() - ago, nanos: 5 };
        let mut html = Html::default();
        add_since(&mut html, Some(&at(47 * 3600 + 60)));
        add_until(&mut html, &at(-125));
        add_until(&mut html, &at(9));
        let text = html.as_str();
        for part in [">47h</time>", ">in 2m</time>", ">now</time>", " UTC\">", "Z\" title="] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let fixed = prost_types::Timestamp { seconds: 1_795_701_691, nanos: 0 };
        assert_eq!(
            (given(&fixed), clock(&fixed)),
            ("2026-11-26T14:01:31Z".into(), "14:01:31".into())
        );
        assert_eq!(format(&prost_types::Timestamp { seconds: i64::MAX, nanos: 0 }, "%Y"), "-");
    }
}
