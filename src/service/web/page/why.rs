//! Why an application has its status, as HTML.

use super::html::Html;
use super::list::{add_since, add_status};
use super::view::{self, PageView};
use crate::proto::v1;

/// Adds the reason of one application.
pub fn add(html: &mut Html, view: &PageView, answer: &v1::ExplainApplicationResponse) {
    let app = answer.application.clone().unwrap_or_default();
    html.raw(
        "<section id=\"why\" aria-labelledby=\"why-title\" tabindex=\"-1\"><h2 id=\"why-title\">",
    );
    html.text(&app.namespace).raw("/").text(&app.name).raw("</h2><p>");
    add_status(html, view::level(&app), &view::marks(&app));
    html.raw(" for ");
    add_since(html, app.status.as_ref().and_then(|status| status.since_time.as_ref()));
    html.raw("</p><dl>");
    if let Some(winner) = &answer.winner {
        html.raw("<dt>Chosen</dt><dd>");
        contribution(html, winner, &app.leader);
        html.raw("</dd>");
    }
    if !answer.rule.is_empty() {
        html.element("<dt>Rule</dt><dd>", &answer.rule, "</dd>");
    }
    let action = answer.winner.as_ref().map(|winner| winner.action.as_str()).unwrap_or_default();
    if !action.is_empty() {
        html.raw("<dt>Action</dt><dd><code id=\"action\">").text(action);
        html.raw("</code> <button type=\"button\" id=\"copy\" hidden>Copy</button></dd>");
    }
    add_lists(html, answer, &app.leader);
    html.element("<dt>Revision</dt><dd>", app.revision, "</dd>");
    let back = PageView { why: String::new(), ..view.clone() };
    html.raw("</dl><p><a id=\"back\" href=\"").text(back.url()).raw("\">Close</a></p></section>");
}

fn add_lists(html: &mut Html, answer: &v1::ExplainApplicationResponse, leader: &str) {
    if !answer.beaten.is_empty() {
        html.raw("<dt>Beaten</dt><dd><ul>");
        for beaten in &answer.beaten {
            html.raw("<li>");
            contribution(html, beaten, leader);
            html.raw(" <span class=\"note\">").text(&beaten.beaten_by).raw("</span></li>");
        }
        let rest = usize::try_from(answer.beaten_count).unwrap_or(0);
        let rest = rest.saturating_sub(answer.beaten.len());
        if 0 < rest {
            html.raw("<li>").text(rest).raw(" more</li>");
        }
        html.raw("</ul></dd>");
    }
    if !answer.holds.is_empty() {
        html.raw("<dt>Held</dt><dd><ul>");
        for hold in &answer.holds {
            let place = joined([&hold.unit, &hold.component, &hold.target]);
            html.raw("<li>").text(place).raw(": ").text(&hold.reason).raw("</li>");
        }
        html.raw("</ul></dd>");
    }
    if !answer.faults.is_empty() {
        html.raw("<dt>Open faults</dt><dd><ul>");
        for fault in &answer.faults {
            let place = joined([&fault.unit, &fault.component, &fault.target]);
            let text = fault.last.as_ref().map(|last| last.message.as_str()).unwrap_or_default();
            html.raw("<li>").text(place).raw(": ").text(text).raw(", ").text(fault.count);
            html.raw(" times</li>");
        }
        html.raw("</ul></dd>");
    }
    if !answer.operations.is_empty() {
        html.raw("<dt>Operations</dt><dd><ul>");
        for operation in &answer.operations {
            let state = operation.state().as_str_name().trim_start_matches("OPERATION_STATE_");
            html.raw("<li>").text(&operation.operation_id).raw(" to ");
            html.text(&operation.target_version).raw(": ").text(state.to_lowercase()).raw(" ");
            html.text(&operation.progress).raw("</li>");
        }
        html.raw("</ul></dd>");
    }
}

fn contribution(html: &mut Html, one: &v1::Contribution, leader: &str) {
    let place = one.r#ref.clone().unwrap_or_default();
    let mut marks = Vec::new();
    let freshness = one.freshness().as_str_name().trim_start_matches("FRESHNESS_").to_lowercase();
    if !["unspecified", "fresh"].contains(&freshness.as_str()) {
        marks.push(freshness);
    }
    if !one.held.is_empty() {
        marks.push(format!("held: {}", one.held));
    }
    add_status(html, one.level(), &marks);
    html.raw(" ").text(&place.unit);
    if !place.unit.is_empty() && place.unit == leader {
        html.raw("<span title=\"leader\">*</span>");
    }
    if !place.component.is_empty() {
        html.raw(" ").text(&place.component);
    }
    if !one.message.is_empty() {
        html.raw(": ").text(&one.message);
    }
}

fn joined(parts: [&String; 3]) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.map(String::as_str).collect::<Vec<_>>().join(" ")
}
