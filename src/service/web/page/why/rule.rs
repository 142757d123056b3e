//! Which contribution won, by which rule, and what it beat.

use super::{begin, command, joined};
use crate::proto::v1;
use crate::service::web::page::html::Html;
use crate::service::web::page::tags;

/// Marks the leader.
pub const LEADER: &str = "<span title=\"leader\">*</span>";

/// Contributions that are shown of those that lost.
const BEATEN_MAX: usize = 20;

/// Adds the rule; what it beat is folded.
pub fn add(html: &mut Html, answer: &v1::ExplainApplicationResponse, app: &v1::Application) {
    begin(html, "rule", "Why this one", "");
    if !answer.rule.is_empty() {
        html.element("<p>", &answer.rule, "</p>");
    }
    if let Some(quorum) = &app.quorum {
        let (active, known) = (quorum.active_count, quorum.known_count);
        let text = format!("{active} of {known} units are active, needed: {}", quorum.needed_count);
        html.element("<p>", text, "</p>");
    }
    if let Some(winner) = answer.winner.as_ref().filter(|winner| says_more(winner)) {
        html.raw(r#"<ul class="lines"><li>"#);
        add_contribution(html, winner, &app.leader);
        html.raw("</li></ul>");
    }
    add_holds(html, answer);
    if !answer.beaten.is_empty() {
        let text = match answer.beaten_count {
            1 => "It beats 1 other".to_string(),
            count => format!("It beats {count} others"),
        };
        html.fill(r#"<details id="beaten"><summary>{}</summary><ul class="lines">"#, &[&text]);
        for beaten in answer.beaten.iter().take(BEATEN_MAX) {
            html.raw("<li>");
            add_contribution(html, beaten, &app.leader);
            html.raw("</li>");
        }
        html.raw("</ul>");
        add_rest(
            html,
            answer.beaten.len().min(BEATEN_MAX),
            answer.beaten_count,
            &command(app, "why"),
        );
        html.raw("</details>");
    }
    html.raw("</div>");
}

/// Returns whether a winner says more than the status that it decides.
fn says_more(winner: &v1::Contribution) -> bool {
    let has_component = winner.r#ref.as_ref().is_some_and(|place| !place.component.is_empty());
    has_component || !winner.held.is_empty() || tags::of_freshness(winner.freshness()).is_some()
}

fn add_holds(html: &mut Html, answer: &v1::ExplainApplicationResponse) {
    if answer.holds.is_empty() {
        return;
    }
    html.raw(r#"<h3>Held</h3><ul class="lines">"#);
    for hold in &answer.holds {
        let place = joined(&[&hold.unit, &hold.component, &hold.target]);
        html.fill("<li><span>held</span><span>{}: {}</span></li>", &[&place, &hold.reason]);
    }
    if 0 < answer.holds_rest_count {
        html.fill("<li><span></span><span>{} more</span></li>", &[&answer.holds_rest_count]);
    }
    html.raw("</ul>");
}

/// Adds how many of all a list leaves out, and the command that shows them.
pub fn add_rest(html: &mut Html, shown: usize, all: i32, command: &str) {
    let rest = usize::try_from(all).unwrap_or(0).saturating_sub(shown);
    if 0 < rest {
        html.fill(r#"<p class="note">{} more: <code>{}</code></p>"#, &[&rest, &command]);
    }
}

fn add_contribution(html: &mut Html, one: &v1::Contribution, leader: &str) {
    let place = one.r#ref.clone().unwrap_or_default();
    let doubt = tags::of_freshness(one.freshness());
    tags::add_level(html, one.level(), doubt.is_some());
    html.raw("<span>");
    if let Some(doubt) = doubt {
        html.fill(r#"<span class="mark doubt">{}</span> "#, &[&doubt]);
    }
    if !one.held.is_empty() {
        html.fill(r#"<span class="mark">held: {}</span> "#, &[&one.held]);
    }
    html.text(&place.unit);
    if !place.unit.is_empty() && place.unit == leader {
        html.raw(LEADER);
    }
    html.labelled(" ", &place.component).labelled(": ", &one.message);
    if !one.beaten_by.is_empty() {
        html.fill(r#" <span class="note">{}</span>"#, &[&one.beaten_by]);
    }
    html.raw("</span>");
}
