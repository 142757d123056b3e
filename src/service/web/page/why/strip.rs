//! The last 24 hours of an application as a strip, from its history: time from left to right, worse
//! is higher, so that it reads without colours. The same sums in words are its label.
//!
//! ```text
//!  events, newest first --> spans: level from .. to --> slots of 5 min: the worst --> bands
//! ```

use crate::proto::v1;
use crate::service::convert::level_word;
use crate::service::web::page::html::Html;
use crate::service::web::page::moment::DAY_SECONDS;
use crate::service::web::page::slots::{HEIGHT, height, length};
use crate::service::web::page::view::{self, LEVELS};

/// A short trouble takes a whole slot, so that it is seen.
const SLOT: i64 = 300 * 1000;
const SLOTS: i64 = DAY_SECONDS * 1000 / SLOT;
/// A time with one level, in milliseconds since 1970. `None`: the application had none, or the
/// history does not say.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    from: i64,
    to: i64,
    level: Option<v1::Level>,
    message: String,
}

/// Adds the strip. `events` are the latest ones, newest first; one from before the 24 hours shows
/// that none of theirs is missing. `now` has milliseconds.
pub fn add(html: &mut Html, app: &v1::Application, events: &[v1::StatusEvent], now: i64) {
    let spans = spans(app, events, now);
    let sums = sums(&spans);
    let words: Vec<String> = sums.iter().map(|(_, word, time)| format!("{word} {time}")).collect();
    html.raw(r#"<figure><svg class="strip" viewBox="0 0 288 16" preserveAspectRatio="none" "#);
    html.fill(r#"role="img" aria-label="Last 24 hours: {}">"#, &[&words.join(", ")]);
    for (from, to, span) in bands(&spans, now) {
        let Some(level) = span.level else {
            html.fill(r#"<path class="none" d="M{} 15.5H{}"/>"#, &[&from, &to]);
            continue;
        };
        let (word, height) = (level_word(level), height(level));
        html.fill(r#"<rect class="{}" x="{}" width="{}""#, &[&word, &from, &(to - from)]);
        html.fill(r#" y="{}" height="{}"><title>"#, &[&(HEIGHT - height), &height]);
        html.fill("{} to {} UTC: {}", &[&clock(span.from), &clock(span.to), &word]);
        html.labelled(": ", &span.message).raw("</title></rect>");
    }
    html.raw(r#"</svg><div class="ticks" aria-hidden="true">"#);
    for ticks in (1..=4).rev() {
        html.element("<span>", clock(now - ticks * DAY_SECONDS * 250), "</span>");
    }
    html.raw(r#"<span>now</span></div></figure><ul class="sums">"#);
    for (class, word, time) in &sums {
        html.fill(r#"<li><span class="s {}">{}</span> {}</li>"#, &[class, word, time]);
    }
    html.raw("</ul>");
}

/// Returns how long each level lasted, the worst first: class, word, length.
fn sums(spans: &[Span]) -> Vec<(&'static str, &'static str, String)> {
    let levels = LEVELS.map(|level| (Some(level), level_word(level), level_word(level)));
    let all = levels.into_iter().chain([(None, "outside", "no record")]);
    let summed = all.map(|(level, class, word)| {
        let own = spans.iter().filter(|span| span.level == level);
        (class, word, own.map(|span| span.to - span.from).sum::<i64>())
    });
    let given = summed.filter(|(_, _, millis)| 0 < *millis);
    given.map(|(class, word, millis)| (class, word, length(millis / 1000))).collect()
}

/// Returns the levels of the last 24 hours, oldest first.
fn spans(app: &v1::Application, events: &[v1::StatusEvent], now: i64) -> Vec<Span> {
    let start = now - DAY_SECONDS * 1000;
    let mut spans = Vec::new();
    let mut to = now;
    let derived = events.iter().filter(|event| event.kind() == v1::EventKind::Application);
    let mut before = (Some(view::level(app)), String::new());
    if let Some(status) = &app.status {
        before.1.clone_from(&status.message);
    }
    for event in derived {
        let from = event.time.as_ref().map_or(now, millis).clamp(start, to);
        spans.push(Span { from, to, level: given(event.level()), message: event.message.clone() });
        to = from;
        before = (given(event.from_level()), String::new());
    }
    let since = app.status.as_ref().and_then(|status| status.since_time.as_ref());
    let since = since.map_or(start, millis);
    // The history keeps a number of events, so what was before the oldest one is not known.
    let oldest = events.last().and_then(|event| event.time.as_ref()).map_or(start, millis);
    let known = if spans.is_empty() { oldest.max(since) } else { oldest };
    let known = known.clamp(start, to);
    spans.push(Span { from: known, to, level: before.0, message: before.1 });
    spans.push(Span { from: start, to: known, level: None, message: String::new() });
    spans.retain(|span| span.from < span.to);
    spans.reverse();
    spans
}

fn given(level: v1::Level) -> Option<v1::Level> {
    (level != v1::Level::Unspecified).then_some(level)
}

/// Returns the place of a level: worst first, nothing last.
fn place(level: Option<v1::Level>) -> usize {
    level.map_or(LEVELS.len(), view::place)
}

/// Returns the bands: first slot, slot after the last, and what they show.
fn bands(spans: &[Span], now: i64) -> Vec<(i64, i64, Span)> {
    let start = now - DAY_SECONDS * 1000;
    let mut bands: Vec<(i64, i64, Span)> = Vec::new();
    for slot in 0..SLOTS {
        let (from, to) = (start + slot * SLOT, start + (slot + 1) * SLOT);
        let within = spans.iter().filter(|span| span.from < to && from < span.to);
        let Some(worst) = within.min_by_key(|span| place(span.level)) else { continue };
        match bands.last_mut() {
            Some((_, end, last)) if last.level == worst.level && *end == slot => {
                *end = slot + 1;
                last.to = last.to.max(worst.to);
                last.message.clone_from(&worst.message);
            }
            _ => bands.push((slot, slot + 1, worst.clone())),
        }
    }
    bands
}

fn millis(time: &prost_types::Timestamp) -> i64 {
    time.seconds * 1000 + i64::from(time.nanos / 1_000_000)
}

fn clock(millis: i64) -> String {
    let minutes = millis.rem_euclid(DAY_SECONDS * 1000) / 60_000;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::Level::{Active, Blocked, Error, Unspecified, Waiting};

    const NOW: i64 = 1_000_000_000_000;
    const HOUR: i64 = 3600;

    fn at(seconds: i64) -> Option<prost_types::Timestamp> {
        Some(prost_types::Timestamp { seconds: NOW / 1000 - seconds, nanos: 0 })
    }

    fn app(level: v1::Level, since: i64) -> v1::Application {
        let (level, since_time) = (level as i32, at(since));
        let status = v1::AggregatedStatus { level, since_time, ..Default::default() };
        v1::Application { status: Some(status), ..v1::Application::default() }
    }

    fn event(ago: i64, from: v1::Level, to: v1::Level) -> v1::StatusEvent {
        v1::StatusEvent {
            time: at(ago),
            from_level: from as i32,
            level: to as i32,
            kind: v1::EventKind::Application as i32,
            ..v1::StatusEvent::default()
        }
    }

    /// A span as its start and end in seconds before now, and its level.
    type Shown = (i64, i64, Option<v1::Level>);

    fn shown(spans: &[Span]) -> Vec<Shown> {
        spans.iter().map(|s| ((NOW - s.from) / 1000, (NOW - s.to) / 1000, s.level)).collect()
    }

    #[test]
    fn a_level_lasts_until_the_next_event() {
        let day = DAY_SECONDS;
        let mut before = event(2 * day, Unspecified, Unspecified);
        before.kind = v1::EventKind::Configuration as i32;
        let cases: [(&[v1::StatusEvent], i64, &[Shown]); 7] = [
            (&[], 3 * day, &[(day, 0, Some(Blocked))]),
            (&[], HOUR, &[(day, HOUR, None), (HOUR, 0, Some(Blocked))]),
            (
                &[event(HOUR, Active, Blocked), before.clone()],
                HOUR,
                &[(day, HOUR, Some(Active)), (HOUR, 0, Some(Blocked))],
            ),
            (
                &[event(HOUR, Active, Blocked), event(2 * HOUR, Waiting, Active)],
                HOUR,
                &[(day, 2 * HOUR, None), (2 * HOUR, HOUR, Some(Active)), (HOUR, 0, Some(Blocked))],
            ),
            (
                &[event(HOUR, Unspecified, Blocked), before.clone()],
                HOUR,
                &[(day, HOUR, None), (HOUR, 0, Some(Blocked))],
            ),
            (
                &[event(-5, Active, Blocked), event(2 * day, Error, Active)],
                0,
                &[(day, 0, Some(Active))],
            ),
            (&[before], 3 * day, &[(day, 0, Some(Blocked))]),
        ];
        for (events, since, expected) in cases {
            let found = spans(&app(Blocked, since), events, NOW);
            assert_eq!(shown(&found), expected, "{events:?}");
            assert_eq!(
                found.iter().map(|span| span.to - span.from).sum::<i64>(),
                DAY_SECONDS * 1000
            );
        }
    }

    #[test]
    fn a_short_trouble_is_one_band_and_many_troubles_are_few_bands() {
        let older = event(2 * DAY_SECONDS, Error, Active);
        let short = [event(HOUR, Error, Active), event(HOUR + 1, Active, Error), older.clone()];
        let spans = spans(&app(Active, HOUR), &short, NOW);
        let levels: Vec<_> = bands(&spans, NOW).iter().map(|(_, _, span)| span.level).collect();
        assert_eq!(levels, [Some(Active), Some(Error), Some(Active)]);
        let swings = |n: i64| [event(10 * n, Error, Active), event(10 * n + 5, Active, Error)];
        let many: Vec<_> = (0..1000).flat_map(swings).chain([older]).collect();
        let mut html = Html::default();
        add(&mut html, &app(Active, 0), &many, NOW);
        let text = html.as_str();
        assert!(text.matches("<rect").count() < 10 && text.contains("active 22h"), "{text}");
        assert!(text.contains("UTC: error</title>"), "{text}");
    }
}
