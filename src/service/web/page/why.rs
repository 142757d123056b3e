//! Why an application has its status, as HTML, with the parts of the application.

use super::application::Details;
use super::html::Html;
use super::list::{add_since, add_status};
use super::view::{self, PageView};
use super::{add_failure, now_millis, parts, strip};
use crate::proto::v1;

/// Adds the reason of one application, and its parts.
pub fn add(html: &mut Html, view: &PageView, details: &Details) {
    let answer = &details.answer;
    let app = answer.application.clone().unwrap_or_default();
    html.raw(r#"<section id="why" aria-labelledby="why-title" tabindex="-1">"#);
    html.fill(r#"<h2 id="why-title">{}/{}</h2><p>"#, &[&app.namespace, &app.name]);
    add_status(html, view::level(&app), &view::marks(&app));
    html.raw(" for ");
    add_since(html, app.status.as_ref().and_then(|status| status.since_time.as_ref()));
    html.raw("</p>");
    match &details.events {
        Ok(events) => strip::add(html, &app, events, now_millis()),
        Err(status) => add_failure(html, status),
    }
    html.raw("<dl>");
    if let Some(winner) = &answer.winner {
        html.raw("<dt>Chosen</dt><dd>");
        contribution(html, winner, &app.leader);
        html.raw("</dd>");
    }
    if !answer.rule.is_empty() {
        html.element("<dt>Rule</dt><dd>", &answer.rule, "</dd>");
    }
    if let Some(quorum) = &app.quorum {
        let (active, known) = (quorum.active_count, quorum.known_count);
        let text = format!("{active} of {known} units are active, needed: {}", quorum.needed_count);
        html.element("<dt>Quorum</dt><dd>", text, "</dd>");
    }
    let action = answer.winner.as_ref().map(|winner| winner.action.as_str()).unwrap_or_default();
    if !action.is_empty() {
        html.fill(r#"<dt>Action</dt><dd><code id="action">{}</code> "#, &[&action]);
        html.raw(r#"<button type="button" id="copy" hidden>Copy</button></dd>"#);
    }
    add_lists(html, answer, &app.leader);
    match &details.operations {
        Ok((operations, is_cut)) => parts::add_operations(html, operations, *is_cut),
        Err(status) => html.element("<dt>Operations</dt><dd>", status.message(), "</dd>"),
    }
    match &details.units {
        Ok(units) => parts::add_units(html, units, app.unit_count),
        Err(status) => html.element("<dt>Units</dt><dd>", status.message(), "</dd>"),
    }
    html.element("<dt>Revision</dt><dd>", app.revision, "</dd>");
    let back = PageView { why: String::new(), ..view.clone() };
    html.fill(r#"</dl><p><a id="back" href="{}">Close</a></p></section>"#, &[&back.url()]);
}

fn add_lists(html: &mut Html, answer: &v1::ExplainApplicationResponse, leader: &str) {
    let rest = parts::rest(&answer.beaten, answer.beaten_count);
    html.list("<dt>Beaten</dt><dd><ul>", &answer.beaten, &rest, |html, beaten| {
        contribution(html, beaten, leader);
        html.element(r#" <span class="note">"#, &beaten.beaten_by, "</span>");
    });
    let listed = i32::try_from(answer.holds.len()).unwrap_or(i32::MAX);
    let rest = parts::rest(&answer.holds, listed.saturating_add(answer.holds_rest_count));
    html.list("<dt>Held</dt><dd><ul>", &answer.holds, &rest, |html, hold| {
        let place = parts::joined([&hold.unit, &hold.component, &hold.target]);
        html.fill("{}: {}", &[&place, &hold.reason]);
    });
    parts::add_faults(html, &answer.faults, answer.fault_count);
}

fn contribution(html: &mut Html, one: &v1::Contribution, leader: &str) {
    let place = one.r#ref.clone().unwrap_or_default();
    let mut marks = parts::marks(one.freshness());
    if !one.held.is_empty() {
        marks.push(format!("held: {}", one.held));
    }
    add_status(html, one.level(), &marks);
    html.raw(" ").text(&place.unit);
    if !place.unit.is_empty() && place.unit == leader {
        html.raw(parts::LEADER);
    }
    html.labelled(" ", &place.component).labelled(": ", &one.message);
}
