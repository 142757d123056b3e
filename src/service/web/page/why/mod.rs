//! Why an application has its status: a panel beside the list, in the order of questions.

mod chain;
mod events;
mod marks;
mod past;
mod rule;
mod strip;
mod units;
mod work;

use super::action;
use super::add_failure;
use super::application::Details;
use super::html::Html;
use super::moment;
use super::row;
use super::tags::{self, OperatorMarks};
use super::view::{self, PageView};
use crate::proto::v1;
use crate::service::convert::start::may_be_earlier;

/// Adds the panel of one application.
pub fn add(html: &mut Html, view: &PageView, details: &Details) {
    let answer = &details.answer;
    let app = answer.application.clone().unwrap_or_default();
    open(html, view, &app.namespace, &app.name);
    add_verdict(html, &app, answer);
    chain::add(html, view, answer);
    marks::add(html, &answer.marks);
    rule::add(html, answer, &app);
    past::add(html, &app, &details.events, &details.figures);
    work::add_faults(html, &answer.faults, answer.fault_count, &command(&app, "why"));
    work::add_operations(html, &details.operations, &command(&app, "ops list"));
    units::add(html, &app, &details.units);
    events::add(html, &app, &details.events);
    add_end(html, &app);
    html.raw("</section>");
}

/// Adds why an application cannot be shown, in the place of its panel.
pub fn add_unknown(html: &mut Html, view: &PageView, status: &tonic::Status) {
    let (namespace, name) = view.why.split_once('/').unwrap_or_default();
    open(html, view, namespace, name);
    html.raw(r#"<div class="part-of">"#);
    add_failure(html, status);
    html.raw("</div></section>");
}

/// Adds the beginning of the panel: the name, and the link that closes it.
fn open(html: &mut Html, view: &PageView, namespace: &str, name: &str) {
    html.raw(r#"<section id="why" aria-labelledby="why-title" tabindex="-1"><header>"#);
    html.fill(r#"<h2 id="why-title"><span class="ns">{}/</span>{}</h2>"#, &[&namespace, &name]);
    let markup = r#"<a id="back" class="close" href="{}">Close <kbd>Esc</kbd></a></header>"#;
    html.fill(markup, &[&view.without_why().url()]);
}

/// Adds the status: level, since when, marks, message and action.
fn add_verdict(html: &mut Html, app: &v1::Application, answer: &v1::ExplainApplicationResponse) {
    let tags = tags::of(app, &OperatorMarks::new(answer.marks.clone()));
    let status = app.status.clone().unwrap_or_default();
    html.raw(r#"<div class="part-of" id="verdict"><p class="verdict">"#);
    tags::add_level(html, view::level(app), !tags.is_empty());
    if let Some(since) = &status.since_time {
        html.raw(" for ");
        moment::add_since(html, Some(since));
        let earlier = may_be_earlier(&status, answer.winner.as_ref());
        let earlier = if earlier { " or earlier" } else { "" };
        let since = moment::clock_or_day(since);
        html.fill(r#" <span class="note">since {} UTC{}</span> "#, &[&since, &earlier]);
    }
    tags::add(html, &tags);
    html.raw("</p>");
    if !status.message.is_empty() {
        html.raw(r#"<p class="lead">"#);
        row::add_message(html, &status);
        html.raw("</p>");
    }
    action::add(html, &status.action);
    html.raw("</div>");
}

/// Adds the command that acknowledges, and the facts of the record.
fn add_end(html: &mut Html, app: &v1::Application) {
    html.raw(r#"<div class="part-of end" id="end">"#);
    let acknowledged = app.status.as_ref().is_some_and(|status| status.acknowledged);
    let is_well = [v1::Level::Active, v1::Level::Terminated].contains(&view::level(app));
    if !is_well && !acknowledged {
        html.raw("<h3>Acknowledge, from a terminal</h3>");
        let ack = format!("{} --for 4h -m \"ticket \u{2026}\"", command(app, "ack"));
        action::add_command(html, "", &ack);
    }
    html.fill(r#"<p class="note">Revision {}"#, &[&app.revision]);
    let policy = app.config.as_ref().and_then(|config| config.policy.as_ref());
    html.labelled(" \u{b7} policy ", policy.map(|policy| policy.name.as_str()).unwrap_or_default());
    if let Some(first) = &app.create_time {
        html.fill(" \u{b7} first report {}", &[&moment::day(first)]);
    }
    html.raw("</p></div>");
}

/// Returns a command about an application.
fn command(app: &v1::Application, verb: &str) -> String {
    let namespace = match app.namespace.as_str() {
        "default" => String::new(),
        other => format!(" -n {other}"),
    };
    format!("bellwether{namespace} {verb} {}", app.name)
}

/// Adds the beginning of a part with its heading.
fn begin(html: &mut Html, id: &'static str, heading: &'static str, note: &str) {
    html.fill(r#"<div class="part-of" id="{}"><h3>{}"#, &[&id, &heading]);
    if !note.is_empty() {
        html.fill(r#" <span class="note">{}</span>"#, &[&note]);
    }
    html.raw("</h3>");
}

/// Returns the word of a value of an enum.
fn word(name: &'static str, prefix: &str) -> String {
    name.trim_start_matches(prefix).to_lowercase().replace('_', " ")
}

/// Returns the names that are given, with spaces.
fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join(" ")
}
