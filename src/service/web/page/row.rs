//! One application in the list.

use super::action;
use super::html::Html;
use super::moment::{DAY_SECONDS, add_since};
use super::past::{Pasts, SLOTS};
use super::tags::{self, OperatorMarks};
use super::view::{self, PageView};
use super::{progress, slots};
use crate::proto::v1;
use crate::service::convert::severity::{self, Silence};

/// What rows show beside the applications.
#[derive(Debug, Default)]
pub struct Facts {
    /// The marks that operators set.
    pub marks: OperatorMarks,
    /// The last 24 hours; empty: no row has them.
    pub pasts: Pasts,
}

/// Adds the row of an application, which leads to its reason.
pub fn add(html: &mut Html, view: &PageView, app: &v1::Application, facts: &Facts) {
    let (level, tags) = (view::level(app), tags::of(app, &facts.marks));
    let status = app.status.clone().unwrap_or_default();
    let name = format!("{}/{}", app.namespace, app.name);
    html.fill(r#"<tr role="row" data-key="{}"><td role="cell">"#, &[&name]);
    tags::add_level(html, level, !tags.is_empty());
    let to = view.with_why(&app.namespace, &app.name).url();
    html.raw(r#"</td><th role="rowheader" scope="row" class="name">"#);
    html.fill(r#"<a id="app-{}" href="{}"><span class="ns">"#, &[&name, &to]);
    html.fill(
        r#"{}/</span>{}</a></th><td role="cell" class="message">"#,
        &[&app.namespace, &app.name],
    );
    if !tags.is_empty() || !status.message.is_empty() {
        html.raw(r#"<span class="text">"#);
        tags::add(html, &tags);
        if let Some(operation) = app.operation.as_ref().filter(|o| is_at_work(o)) {
            progress::add(html, operation);
        }
        add_message(html, &status);
        html.raw("</span>");
    }
    if !severity::of(app).is_fine() {
        action::add(html, &status.action);
    }
    html.raw("</td>");
    add_heard(html, app);
    html.raw(r#"<td role="cell" class="since">"#);
    add_since(html, status.since_time.as_ref());
    html.raw("</td>");
    if !facts.pasts.is_empty() {
        html.raw(r#"<td role="cell" class="past">"#);
        add_past(html, app, &facts.pasts);
        html.raw("</td>");
    }
    html.raw("</tr>\n");
}

/// Returns whether an operation goes on: of one that waits for a person or has ended, a bar would
/// promise more.
fn is_at_work(operation: &v1::WinningOperation) -> bool {
    use v1::OperationState::{Cancelling, Running, Verifying};
    matches!(operation.state(), Running | Verifying | Cancelling)
}

/// Adds the last 24 hours; nothing for an application that is not there yet.
fn add_past(html: &mut Html, app: &v1::Application, pasts: &Pasts) {
    let Some(slots) = pasts.get(&(app.namespace.clone(), app.name.clone())) else { return };
    let mut slots = slots.to_vec();
    let is_silent = Silence::of(app).is_any();
    slots::add_present(&mut slots, view::level(app), is_silent);
    slots::add(html, &slots, "Last 24 hours", DAY_SECONDS / i64::from(SLOTS));
}

/// Adds the message of a status with the unit that reported it.
pub fn add_message(html: &mut Html, status: &v1::AggregatedStatus) {
    let unit = status.winner.as_ref().map(|winner| winner.unit.as_str()).unwrap_or_default();
    if !unit.is_empty() && !status.message.is_empty() {
        html.text(unit).raw(": ");
    }
    html.text(&status.message);
}

/// Adds how many units reported in time, of all.
fn add_heard(html: &mut Html, app: &v1::Application) {
    let heard = heard(app);
    let class = if heard < app.unit_count || app.unit_count == 0 { " part" } else { "" };
    html.fill(r#"<td role="cell" class="heard{}">"#, &[&class]);
    match app.unit_count {
        0 => html.raw("none"),
        all => html.fill("{}/{}", &[&heard, &all]),
    };
    html.raw("</td>");
}

/// Returns the number of units that reported in time.
pub fn heard(app: &v1::Application) -> i32 {
    let silence = app.status.as_ref().map(Silence::in_status).unwrap_or_default();
    (app.unit_count - silence.stale - silence.lost - silence.uncertain).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(level: v1::Level, units: i32, lost: i32) -> String {
        let status = v1::AggregatedStatus {
            level: level.into(),
            message: "text".into(),
            action: "do \"this\"".into(),
            lost_units: lost,
            winner: Some(v1::StatusRef { unit: "web/0".into(), ..Default::default() }),
            ..v1::AggregatedStatus::default()
        };
        let app = v1::Application {
            namespace: "prod".into(),
            name: "web".into(),
            status: Some(status),
            unit_count: units,
            ..v1::Application::default()
        };
        let mut html = Html::default();
        let mut facts = Facts::default();
        facts.pasts.insert(("prod".into(), "web".into()), vec![6; 48].into());
        add(&mut html, &PageView::of("level=blocked"), &app, &facts);
        html.as_str().to_string()
    }

    #[test]
    fn a_row_has_its_action_and_how_many_units_reported() {
        let text = shown(v1::Level::Blocked, 3, 1);
        for part in [
            "data-key=\"prod/web\"",
            "href=\"/?level=blocked&amp;why=prod/web\"",
            "<span class=\"mark doubt\">1 lost</span> web/0: text</span>",
            "<code>do &quot;this&quot;</code>",
            "class=\"heard part\">2/3<",
            "<td role=\"cell\" class=\"past\"><svg",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(shown(v1::Level::Blocked, 3, 0).contains("class=\"heard\">3/3<"));
        assert!(shown(v1::Level::Unknown, 0, 0).contains("class=\"heard part\">none<"));
        assert!(!shown(v1::Level::Active, 1, 0).contains("<code>"), "no person must act");
    }
}
