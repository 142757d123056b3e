//! The list of applications with its filters, as HTML.

use std::collections::BTreeSet;

use super::html::Html;
use super::now;
use super::view::{self, LEVELS, PageView};
use crate::proto::v1;
use crate::service::convert::level_word;

/// Rows of one page; a filter shows the others.
const ROWS_MAX: usize = 500;

/// Adds the filters and the rows.
pub fn add(html: &mut Html, view: &PageView, apps: &[v1::Application]) {
    let named: Vec<&v1::Application> = apps.iter().filter(|app| view.has_name(app)).collect();
    html.raw(r#"<nav aria-label="Levels" class="levels" id="levels">"#);
    chip(html, view, "", "all", "", named.len());
    for (level, shape) in LEVELS {
        let word = level_word(level);
        let count = named.iter().filter(|app| view::level(app) == level).count();
        chip(html, view, word, word, shape, count);
    }
    html.raw("</nav>");
    search(html, view, apps);
    let shown: Vec<&v1::Application> = apps.iter().filter(|app| view.has(app)).collect();
    if shown.is_empty() {
        html.raw(r#"<p class="none">No application matches.</p>"#);
        return;
    }
    html.raw(r#"<table id="apps"><caption class="hidden">Applications, worst first</caption>"#);
    html.raw("<thead><tr>");
    for column in ["Status", "Application", "Units", "Since", "Message"] {
        html.fill(r#"<th scope="col">{}</th>"#, &[&column]);
    }
    html.raw("</tr></thead><tbody>");
    for app in shown.iter().take(ROWS_MAX) {
        row(html, view, app);
    }
    html.raw("</tbody></table>");
    if ROWS_MAX < shown.len() {
        let rest = shown.len() - ROWS_MAX;
        html.fill(r#"<p class="none">{} more; filter to see them.</p>"#, &[&rest]);
    }
}

fn chip(html: &mut Html, view: &PageView, level: &str, word: &str, shape: &str, count: usize) {
    let to = PageView { level: level.into(), why: String::new(), ..view.clone() };
    html.fill(r#"<a class="chip {}" href="{}" id="level-{}""#, &[&word, &to.url(), &word]);
    html.raw(if view.level == level { r#" aria-current="true""# } else { "" });
    let markup = r#"><span aria-hidden="true">{}</span> {} <b>{}</b></a>"#;
    html.fill(markup, &[&shape, &word, &count]);
}

fn search(html: &mut Html, view: &PageView, apps: &[v1::Application]) {
    html.raw(r#"<form action="/" id="filter" role="search"><label>Namespace "#);
    html.raw(r#"<select name="ns" id="ns"><option value="">all</option>"#);
    let namespaces: BTreeSet<&str> = apps.iter().map(|app| app.namespace.as_str()).collect();
    let selected = Some(view.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    for namespace in namespaces.into_iter().chain(selected).collect::<BTreeSet<_>>() {
        let is_selected = namespace == view.namespace;
        let open = if is_selected { "<option selected>" } else { "<option>" };
        html.element(open, namespace, "</option>");
    }
    let markup =
        r#"</select></label> <label>Name <input type="search" name="q" id="q" value="{}"></label>"#;
    html.fill(markup, &[&view.search]);
    if !view.level.is_empty() {
        html.fill(r#"<input type="hidden" name="level" value="{}">"#, &[&view.level]);
    }
    html.raw(" <button>Filter</button></form>");
}

fn row(html: &mut Html, view: &PageView, app: &v1::Application) {
    let (level, marks) = (view::level(app), view::marks(app));
    let name = format!("{}/{}", app.namespace, app.name);
    let status = app.status.clone().unwrap_or_default();
    html.fill(r#"<tr data-key="{}"><td>"#, &[&name]);
    add_status(html, level, &marks);
    let to = PageView { why: name.clone(), ..view.clone() };
    html.fill(r#"</td><th scope="row"><a id="app-{}" href="{}">"#, &[&name, &to.url()]);
    html.fill(r#"<span class="ns">{}/</span>{}</a></th>"#, &[&app.namespace, &app.name]);
    html.fill("<td>{}</td><td>", &[&app.unit_count]);
    add_since(html, status.since_time.as_ref());
    html.raw(r#"</td><td class="message">"#);
    let unit = status.winner.map(|winner| winner.unit).unwrap_or_default();
    if !unit.is_empty() && !status.message.is_empty() {
        html.text(unit).raw(": ");
    }
    html.text(status.message).raw("</td></tr>");
}

/// Adds a level with its shape, its word and what is doubtful about it.
pub fn add_status(html: &mut Html, level: v1::Level, marks: &[String]) {
    let (word, doubt) = (level_word(level), if marks.is_empty() { "" } else { " doubtful" });
    let markup = r#"<span class="status {}{}"><span aria-hidden="true">{}</span> {}</span>"#;
    html.fill(markup, &[&word, &doubt, &view::shape(level), &word]);
    for mark in marks {
        html.element(r#" <span class="mark">"#, mark, "</span>");
    }
}

/// Adds the age of a time, and the time itself for programs.
pub fn add_since(html: &mut Html, time: Option<&prost_types::Timestamp>) {
    let Some(time) = time else { return };
    let seconds = u64::try_from(now().saturating_sub(time.seconds)).unwrap_or(0);
    html.fill(r#"<time datetime="{}">{}</time>"#, &[time, &age(seconds)]);
}

fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
