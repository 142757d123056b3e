//! The last events of an application.

use tonic::Status;

use super::{begin, command, joined};
use crate::proto::v1;
use crate::proto::v1::EventKind;
use crate::service::web::page::html::Html;
use crate::service::web::page::moment::add_clock;
use crate::service::web::page::{add_failure, tags};

/// Events that are shown.
const EVENTS_MAX: usize = 5;

/// Adds the last events, the newest first, and the command that prints all.
pub fn add(html: &mut Html, app: &v1::Application, events: &Result<Vec<v1::StatusEvent>, Status>) {
    let shown = [EventKind::Application, EventKind::Status, EventKind::Unit, EventKind::Leader];
    let is_shown = |event: &&v1::StatusEvent| shown.contains(&event.kind());
    if events.as_ref().is_ok_and(|events| !events.iter().any(|event| is_shown(&event))) {
        return;
    }
    begin(html, "events", "Last events", &command(app, "log"));
    match events {
        Err(status) => add_failure(html, status),
        Ok(events) => {
            html.raw(r#"<ul class="events">"#);
            events
                .iter()
                .filter(is_shown)
                .take(EVENTS_MAX)
                .for_each(|event| add_event(html, event));
            html.raw("</ul>");
        }
    }
    html.raw("</div>");
}

fn add_event(html: &mut Html, event: &v1::StatusEvent) {
    html.raw("<li>");
    if let Some(time) = &event.time {
        add_clock(html, time);
    }
    html.raw("<span>");
    let place = event.status.clone().unwrap_or_default();
    match event.kind() {
        EventKind::Leader => add_leader(html, event),
        EventKind::Unit => {
            html.fill("<b>{}</b> {}", &[&place.unit, &unit_words(event)]);
        }
        EventKind::Application => add_change(html, "application", event),
        _ => {
            let place = joined(&[&place.unit, &place.component]);
            add_change(html, if place.is_empty() { "application" } else { &place }, event);
        }
    }
    html.raw("</span></li>");
}

fn add_leader(html: &mut Html, event: &v1::StatusEvent) {
    let change = event.changes.iter().find(|change| change.field == "leader");
    match change.map(|change| (change.from.as_str(), change.to.as_str())) {
        Some(("", to)) => html.fill("<b>{}</b> leads", &[&to]),
        Some((from, "")) => html.fill("<b>{}</b> no longer leads", &[&from]),
        Some((from, to)) => html.fill("<b>{}</b> leads, after {}", &[&to, &from]),
        None => html.raw("the leader changed"),
    };
}

/// Says what happened to a unit as a whole.
fn unit_words(event: &v1::StatusEvent) -> String {
    let words = match event.cause.as_str() {
        "UnitLost" => "is lost",
        "UnitReturned" => "reports again",
        "UnitRemoved" => "is removed",
        "UnitReplaced" => "began anew",
        "UnitStopping" => "announced its stop",
        "Doubted" => "is uncertain: the store may have lost its last report",
        _ => tags::of_freshness(event.freshness()).unwrap_or("changed"),
    };
    words.to_string()
}

/// Adds a change of level: `web/0 db active -> blocked: message`.
fn add_change(html: &mut Html, place: &str, event: &v1::StatusEvent) {
    let none = v1::Level::Unspecified;
    html.fill("<b>{}</b> ", &[&place]);
    if event.from_level() != none && event.from_level() != event.level() {
        tags::add_level(html, event.from_level(), false);
        html.raw(" \u{2192} ");
    }
    let freshness = tags::of_freshness(event.freshness());
    if event.level() == none {
        html.raw("ended");
    } else {
        tags::add_level(html, event.level(), freshness.is_some());
    }
    html.labelled(", ", freshness.unwrap_or_default());
    html.labelled(" ", &event.message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_events_are_in_words() {
        let event = |kind: EventKind, cause: &str| v1::StatusEvent {
            kind: kind.into(),
            cause: cause.into(),
            status: Some(v1::StatusRef { unit: "web/0".into(), ..Default::default() }),
            from_level: v1::Level::Active.into(),
            level: v1::Level::Blocked.into(),
            message: "no <db>".into(),
            ..v1::StatusEvent::default()
        };
        let leader =
            v1::EventChange { field: "leader".into(), from: "web/1".into(), to: "web/0".into() };
        let mut claimed = event(EventKind::Leader, "LeaderTransferred");
        claimed.changes = vec![leader];
        let all = vec![
            event(EventKind::Application, "Derived"),
            event(EventKind::Configuration, "Configured"),
            event(EventKind::Status, "Reported"),
            event(EventKind::Unit, "UnitLost"),
            claimed,
        ];
        let app = v1::Application {
            namespace: "default".into(),
            name: "web".into(),
            ..v1::Application::default()
        };
        let mut html = Html::default();
        add(&mut html, &app, &Ok([all.clone(), all].concat()));
        let text = html.as_str();
        assert_eq!(text.matches("<li>").count(), EVENTS_MAX, "{text}");
        for part in [
            "<span class=\"note\">bellwether log web</span>",
            "<b>application</b> <span class=\"s active\">active</span> \u{2192} \
             <span class=\"s blocked\">blocked</span> no &lt;db&gt;",
            "<b>web/0</b> is lost",
            "<b>web/0</b> leads, after web/1",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
