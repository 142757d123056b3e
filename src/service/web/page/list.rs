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
    html.raw("<nav aria-label=\"Levels\" class=\"levels\" id=\"levels\">");
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
        html.raw("<p class=\"none\">No application matches.</p>");
        return;
    }
    html.raw(
        "<table id=\"apps\"><caption class=\"hidden\">Applications, worst first</caption>\
         <thead><tr><th scope=\"col\">Status</th><th scope=\"col\">Application</th>\
         <th scope=\"col\">Units</th><th scope=\"col\">Since</th>\
         <th scope=\"col\">Message</th></tr></thead><tbody>",
    );
    for app in shown.iter().take(ROWS_MAX) {
        row(html, view, app);
    }
    html.raw("</tbody></table>");
    if ROWS_MAX < shown.len() {
        let rest = shown.len() - ROWS_MAX;
        html.raw("<p class=\"none\">").text(rest).raw(" more; filter to see them.</p>");
    }
}

fn chip(html: &mut Html, view: &PageView, level: &str, word: &str, shape: &str, count: usize) {
    let to = PageView { level: level.into(), why: String::new(), ..view.clone() };
    html.raw("<a class=\"chip ").text(word);
    html.raw("\" href=\"").text(to.url()).raw("\" id=\"level-").text(word).raw("\"");
    if view.level == level {
        html.raw(" aria-current=\"true\"");
    }
    html.raw("><span aria-hidden=\"true\">").text(shape).raw("</span> ").text(word);
    html.raw(" <b>").text(count).raw("</b></a>");
}

fn search(html: &mut Html, view: &PageView, apps: &[v1::Application]) {
    html.raw(
        "<form action=\"/\" id=\"filter\" role=\"search\"><label>Namespace \
         <select name=\"ns\" id=\"ns\"><option value=\"\">all</option>",
    );
    let namespaces: BTreeSet<&str> = apps.iter().map(|app| app.namespace.as_str()).collect();
    let selected = Some(view.namespace.as_str()).filter(|namespace| !namespace.is_empty());
    for namespace in namespaces.into_iter().chain(selected).collect::<BTreeSet<_>>() {
        let is_selected = namespace == view.namespace;
        html.raw(if is_selected { "<option selected>" } else { "<option>" });
        html.text(namespace).raw("</option>");
    }
    html.raw("</select></label> <label>Name <input type=\"search\" name=\"q\" id=\"q\" value=\"");
    html.text(&view.search).raw("\"></label>");
    if !view.level.is_empty() {
        html.raw("<input type=\"hidden\" name=\"level\" value=\"").text(&view.level).raw("\">");
    }
    html.raw(" <button>Filter</button></form>");
}

fn row(html: &mut Html, view: &PageView, app: &v1::Application) {
    let (level, marks) = (view::level(app), view::marks(app));
    let name = format!("{}/{}", app.namespace, app.name);
    let status = app.status.clone().unwrap_or_default();
    html.raw("<tr data-key=\"").text(&name).raw("\"><td>");
    add_status(html, level, &marks);
    let to = PageView { why: name.clone(), ..view.clone() };
    html.raw("</td><th scope=\"row\"><a id=\"app-").text(&name).raw("\" href=\"").text(to.url());
    html.raw("\"><span class=\"ns\">").text(&app.namespace).raw("/</span>").text(&app.name);
    html.raw("</a></th><td>").text(app.unit_count).raw("</td><td>");
    add_since(html, status.since_time.as_ref());
    html.raw("</td><td class=\"message\">");
    let unit = status.winner.map(|winner| winner.unit).unwrap_or_default();
    if !unit.is_empty() && !status.message.is_empty() {
        html.text(unit).raw(": ");
    }
    html.text(status.message).raw("</td></tr>");
}

/// Adds a level with its shape, its word and what is doubtful about it.
pub fn add_status(html: &mut Html, level: v1::Level, marks: &[String]) {
    html.raw("<span class=\"status ").text(level_word(level));
    html.raw(if marks.is_empty() { "" } else { " doubtful" });
    html.raw("\"><span aria-hidden=\"true\">").text(view::shape(level)).raw("</span> ");
    html.text(level_word(level)).raw("</span>");
    for mark in marks {
        html.raw(" <span class=\"mark\">").text(mark).raw("</span>");
    }
}

/// Adds the age of a time, and the time itself for programs.
pub fn add_since(html: &mut Html, time: Option<&prost_types::Timestamp>) {
    let Some(time) = time else { return };
    let seconds = u64::try_from(now().saturating_sub(time.seconds)).unwrap_or(0);
    html.raw("<time datetime=\"").text(time).raw("\">").text(age(seconds)).raw("</time>");
}

fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
