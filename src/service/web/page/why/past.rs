//! What was: the last 24 hours of an application, and how long it was well.

use tonic::Status;

use super::{begin, strip};
use crate::proto::v1;
use crate::service::web::page::figures::{Figures, SLOT_SECONDS};
use crate::service::web::page::html::Html;
use crate::service::web::page::moment::{self, DAY_SECONDS};
use crate::service::web::page::{add_failure, now, now_millis, slots};

/// Adds the last 24 hours and the figures.
pub fn add(
    html: &mut Html,
    app: &v1::Application,
    events: &Result<Vec<v1::StatusEvent>, Status>,
    figures: &Figures,
) {
    begin(html, "past", "Last 24 hours", "");
    match events {
        Ok(events) => strip::add(html, app, events, now_millis()),
        Err(status) => add_failure(html, status),
    }
    html.raw("</div>");
    add_figures(html, figures);
}

fn add_figures(html: &mut Html, figures: &Figures) {
    begin(html, "figures", "Last 30 days", "");
    match &figures.answers {
        [Ok(day), Ok(week), Ok(month)] => {
            add_month(html, figures);
            html.raw(r#"<dl class="facts">"#);
            for (what, of) in [("Well, 24 h", day), ("7 d", week), ("30 d", month)] {
                add_fact(html, what, &percent(of.percent));
            }
            add_fact(html, "Episodes", &month.episode_count.to_string());
            let lengths = [
                ("Longest", &month.longest_episode),
                ("Planned", &month.planned),
                ("No record", &month.unknown),
            ];
            for (what, length) in lengths {
                let seconds = length.as_ref().map_or(0, |length| length.seconds);
                if 0 < seconds {
                    add_fact(html, what, &slots::length(seconds));
                }
            }
            html.raw("</dl>");
        }
        answers => {
            let failed = answers.iter().find_map(|answer| answer.as_ref().err());
            failed.iter().for_each(|status| add_failure(html, status));
        }
    }
    html.raw("</div>");
}

/// Adds the strip of 30 days; nothing if it cannot be read.
fn add_month(html: &mut Html, figures: &Figures) {
    if figures.slots.is_empty() {
        return;
    }
    html.raw("<figure>");
    slots::add(html, &figures.slots, "Last 30 days", SLOT_SECONDS);
    html.raw(r#"<div class="ticks" aria-hidden="true">"#);
    for ticks in (1..=3).rev() {
        let seconds = now() - ticks * 10 * DAY_SECONDS;
        let at = prost_types::Timestamp { seconds, nanos: 0 };
        html.element("<span>", moment::day(&at), "</span>");
    }
    html.raw("<span>now</span></div></figure>");
}

fn add_fact(html: &mut Html, what: &str, value: &str) {
    html.fill("<div><dt>{}</dt><dd>{}</dd></div>", &[&what, &value]);
}

/// Formats a share with one decimal. It is never rounded up.
fn percent(percent: Option<f64>) -> String {
    match percent {
        None => "unknown".into(),
        Some(all) if 100.0 <= all => "100 %".into(),
        Some(part) => format!("{:.1} %", (part * 10.0).floor() / 10.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_never_rounded_up_and_one_that_fails_says_so() {
        assert_eq!(percent(Some(99.99)), "99.9 %");
        assert_eq!(percent(Some(100.0)), "100 %");
        assert_eq!(percent(None), "unknown");
        let month = v1::GetUptimeResponse {
            percent: Some(96.95),
            longest_episode: Some(prost_types::Duration { seconds: 25_920, nanos: 0 }),
            ..v1::GetUptimeResponse::default()
        };
        let shown = |last| {
            let mut html = Html::default();
            let first = || Ok(v1::GetUptimeResponse::default());
            add_figures(
                &mut html,
                &Figures { answers: [first(), first(), last], slots: vec![6; 60].into() },
            );
            html.as_str().to_string()
        };
        let text = shown(Ok(month));
        assert!(text.contains("<dt>30 d</dt><dd>96.9 %</dd>"), "{text}");
        assert!(text.contains("<dt>Longest</dt><dd>7h 12m</dd>"), "{text}");
        assert!(!text.contains("Planned") && text.contains("viewBox=\"0 0 60 16\""), "{text}");
        assert!(shown(Err(Status::unavailable("no history"))).contains("no history"));
    }
}
