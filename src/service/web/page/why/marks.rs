//! The marks that operators set on an application: author, reason and end.

use super::begin;
use crate::proto::v1;
use crate::service::convert::level_word;
use crate::service::web::page::html::Html;
use crate::service::web::page::moment;

/// Adds the marks; nothing without any.
pub fn add(html: &mut Html, marks: &[v1::Mark]) {
    if marks.is_empty() {
        return;
    }
    begin(html, "marks", "Marks", "");
    html.raw(r#"<ul class="lines">"#);
    for mark in marks {
        let kind = match mark.kind() {
            v1::MarkKind::Acknowledged => "acknowledged",
            v1::MarkKind::Planned => "planned",
            v1::MarkKind::Unspecified => "mark",
        };
        html.fill("<li><span>{}</span><span><b>{}</b>", &[&kind, &covers(mark)]);
        html.labelled(" by ", &mark.author);
        if let Some(start) = mark.start_time.as_ref().filter(|_| !mark.in_force) {
            html.fill(" from {}", &[&moment::short(start)]);
        }
        if let Some(end) = &mark.end_time {
            html.fill(" until {}", &[&moment::short(end)]);
        }
        html.labelled(": ", &mark.reason);
        if mark.kind() == v1::MarkKind::Acknowledged {
            let level = level_word(mark.acknowledged_level());
            html.fill(r#" <span class="note">ends if worse than {}</span>"#, &[&level]);
        }
        html.fill(r#"</span><span class="note">{}</span></li>"#, &[&mark.mark_id]);
    }
    html.raw("</ul></div>");
}

/// Names what a mark covers within its application.
fn covers(mark: &v1::Mark) -> String {
    let parts = [Some(&mark.unit), mark.component.as_ref(), mark.key.as_ref()];
    let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
    match super::joined(&parts) {
        all if all.is_empty() => "all".into(),
        part => part,
    }
}
