//! What an application needs, down to the first causes, as a nested list.

use super::{action, begin};
use crate::proto::v1;
use crate::proto::v1::CauseState;
use crate::service::web::page::html::Html;
use crate::service::web::page::moment::add_since;
use crate::service::web::page::needs::{add_object, add_state};
use crate::service::web::page::view::PageView;

/// Adds the causes; nothing without any.
pub fn add(html: &mut Html, view: &PageView, answer: &v1::ExplainApplicationResponse) {
    if answer.causes.is_empty() {
        return;
    }
    begin(html, "needs", "Because it needs", "");
    let mut open = 0;
    for cause in &answer.causes {
        let depth = cause.depth.clamp(1, open + 1);
        if open < depth {
            html.raw(if open == 0 { r#"<ul class="tree">"# } else { "<ul>" });
            open += 1;
        } else {
            close(html, open - depth);
            open = depth;
        }
        html.raw("<li>");
        add_cause(html, view, cause);
    }
    close(html, open - 1);
    html.raw("</ul>");
    let needs_rest = answer.application.as_ref().map_or(0, |app| app.needs_rest_count);
    for (count, what) in [(answer.causes_rest_count, "more"), (needs_rest, "more needs")] {
        if 0 < count {
            html.fill(r#"<p class="note">and {} {}</p>"#, &[&count, &what]);
        }
    }
    html.raw("</div>");
}

/// Ends the last item, and so many lists around it, each with its item.
fn close(html: &mut Html, lists: i32) {
    html.raw("</li>");
    for _ in 0..lists {
        html.raw("</ul></li>");
    }
}

fn add_cause(html: &mut Html, view: &PageView, cause: &v1::Cause) {
    let (state, is_readable) = (cause.state(), cause.state() != CauseState::NotReadable);
    html.raw("<p><span>");
    add_state(html, state, cause.level());
    html.raw(" ");
    if let Some(need) = &cause.need {
        add_object(html, view, need, state);
    }
    let is_new = is_readable && !cause.repeated_above;
    if is_new {
        html.labelled(": ", &cause.message);
    }
    let note = note(cause);
    if !note.is_empty() {
        html.fill(r#" <span class="note">{}</span>"#, &[&note]);
    }
    html.raw(r#"</span><span class="note">"#);
    if is_new {
        add_since(html, cause.since_time.as_ref());
    }
    html.raw("</span></p>");
    if is_new && state != CauseState::Met {
        action::add(html, &cause.action);
    }
}

/// Returns what else there is to say about a cause.
fn note(cause: &v1::Cause) -> String {
    if cause.repeated_above {
        return "above".into();
    }
    let by = cause.stated_by.clone().unwrap_or_default().unit;
    let is_there = cause.level() != v1::Level::Unspecified;
    let stated = match cause.state() {
        CauseState::Outside if !by.is_empty() => format!("named by {by}"),
        CauseState::NotKnown if !is_there => "has no report; is the name misspelt?".into(),
        CauseState::Busy => "heals itself".into(),
        CauseState::Met => "is met; its status has not been reported since".into(),
        _ => String::new(),
    };
    let frees = match (cause.frees_count, cause.frees_this) {
        (..=1, true) => "frees this one".into(),
        (count, true) => format!("frees {count}, this one among them"),
        (..=0, false) => String::new(),
        (1, false) => "frees 1 other; this one needs more".into(),
        (count, false) => format!("frees {count} others; this one needs more"),
    };
    let parts = [stated, frees].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::need::Object;

    fn cause(depth: i32, name: &str, state: CauseState) -> v1::Cause {
        let needed = v1::ApplicationNeed {
            namespace: "prod".into(),
            application: name.into(),
            ..v1::ApplicationNeed::default()
        };
        v1::Cause {
            depth,
            need: Some(v1::Need { object: Some(Object::Application(needed)) }),
            state: state.into(),
            level: v1::Level::Blocked.into(),
            message: format!("text of {name}"),
            action: format!("do {name}"),
            ..v1::Cause::default()
        }
    }

    fn shown(causes: Vec<v1::Cause>) -> String {
        let mut html = Html::default();
        let answer = v1::ExplainApplicationResponse { causes, ..Default::default() };
        add(&mut html, &PageView::default(), &answer);
        html.as_str().to_string()
    }

    #[test]
    fn each_depth_is_a_list_and_all_are_closed() {
        use CauseState::{Person, Waiting};
        let text = shown(vec![
            cause(1, "a", Waiting),
            cause(2, "b", Waiting),
            cause(3, "c", Person),
            v1::Cause { repeated_above: true, ..cause(1, "c", Person) },
            cause(2, "d", Person),
        ]);
        for tag in ["ul", "li", "p", "span", "div"] {
            let (open, closed) = (format!("<{tag}"), format!("</{tag}>"));
            assert_eq!(text.matches(&open).count(), text.matches(&closed).count(), "{tag}: {text}");
        }
        assert_eq!((text.matches("<ul").count(), text.matches("<li>").count()), (4, 5), "{text}");
        assert_eq!(text.matches("text of c").count(), 1, "what is above is not said again");
        assert!(text.contains("<span class=\"note\">above</span>"), "{text}");
        assert_eq!(shown(vec![]), "");
    }

    #[test]
    fn a_cause_that_the_reader_may_not_read_has_its_name_alone() {
        let text = shown(vec![cause(1, "secret", CauseState::NotReadable)]);
        assert!(text.contains("not readable</span> <b>prod/secret</b>"), "{text}");
        assert!(!text.contains("text of") && !text.contains("do secret"), "{text}");
        assert!(!text.contains("blocked") && !text.contains("href"), "{text}");
    }

    #[test]
    fn a_cause_says_what_it_frees() {
        let note = |frees_count, frees_this| {
            let cause = cause(1, "a", CauseState::Person);
            note(&v1::Cause { frees_count, frees_this, ..cause })
        };
        assert_eq!(note(1, true), "frees this one");
        assert_eq!(note(4, true), "frees 4, this one among them");
        assert_eq!(note(4, false), "frees 4 others; this one needs more");
        assert_eq!(note(0, false), "");
    }
}
