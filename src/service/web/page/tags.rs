//! The marks of a row: what is doubtful about a status, and what a reader has to know about it.

use std::collections::HashMap;

use super::html::Html;
use super::{moment, now};
use crate::proto::v1;
use crate::service::convert::level_word;
use crate::service::convert::severity::Silence;

/// A word in a frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Tag {
    text: String,
    /// Whether it says that the status is not sure.
    is_doubt: bool,
    /// The next attempt, which the text announces.
    next: Option<prost_types::Timestamp>,
}

/// The marks that operators set, by application.
#[derive(Debug, Default)]
pub struct OperatorMarks(HashMap<(String, String), Vec<v1::Mark>>);

impl OperatorMarks {
    /// Sorts marks by their application.
    pub fn new(marks: Vec<v1::Mark>) -> OperatorMarks {
        let mut all = OperatorMarks::default();
        for mark in marks {
            let app = (mark.namespace.clone(), mark.application.clone());
            all.0.entry(app).or_default().push(mark);
        }
        all
    }

    /// Returns the mark of a kind that is in force and ends last.
    fn last(&self, app: &v1::Application, kind: v1::MarkKind) -> Option<&v1::Mark> {
        let marks = self.0.get(&(app.namespace.clone(), app.name.clone()))?;
        let in_force = marks.iter().filter(|mark| mark.in_force && mark.kind() == kind);
        in_force.max_by_key(|mark| mark.end_time.map(|end| (end.seconds, end.nanos)))
    }
}

/// Returns the marks of an application.
pub fn of(app: &v1::Application, marks: &OperatorMarks) -> Vec<Tag> {
    let Some(status) = &app.status else { return vec![doubt("no status".into())] };
    let counts = Silence::in_status(status).counts();
    let mut tags: Vec<Tag> = counts.map(|(count, word)| doubt(format!("{count} {word}"))).collect();
    tags.extend(open_errors(status));
    if status.flapping || 0 < status.flapping_count {
        tags.push(fact("flapping".into()));
    }
    let of_kind = |word, kind| match marks.last(app, kind) {
        Some(mark) => format!("{word}{}", by_until(mark)),
        None => String::from(word),
    };
    if status.planned {
        let text = of_kind("planned", v1::MarkKind::Planned);
        let without = status.level_without_marks();
        let differs = without != v1::Level::Unspecified && without != status.level();
        let rest = if differs { format!(", else {}", level_word(without)) } else { String::new() };
        tags.push(fact(text + &rest));
    }
    if status.acknowledged {
        tags.push(fact(of_kind("acknowledged", v1::MarkKind::Acknowledged)));
    }
    tags
}

/// Returns the number of open errors, and when one of them is tried again next.
fn open_errors(status: &v1::AggregatedStatus) -> Option<Tag> {
    let text = match status.fault_count {
        ..=0 => return None,
        1 => "1 open error".to_string(),
        count => format!("{count} open errors"),
    };
    // A worker that is late has no time to show.
    let next = status.next_retry_time.filter(|next| now() < next.seconds);
    let text = if next.is_some() { text + ", next attempt " } else { text };
    Some(Tag { next, ..fact(text) })
}

/// Formats ` by alice until 23:00`.
fn by_until(mark: &v1::Mark) -> String {
    let by = Some(&mark.author).filter(|author| !author.is_empty());
    let by = by.map_or_else(String::new, |author| format!(" by {author}"));
    let until = mark.end_time.as_ref().map(moment::short);
    by + &until.map_or_else(String::new, |until| format!(" until {until}"))
}

fn doubt(text: String) -> Tag {
    Tag { text, is_doubt: true, next: None }
}

fn fact(text: String) -> Tag {
    Tag { text, is_doubt: false, next: None }
}

/// Returns what is doubtful about a status of this freshness.
pub fn of_freshness(freshness: v1::Freshness) -> Option<&'static str> {
    match freshness {
        v1::Freshness::Unspecified | v1::Freshness::Fresh => None,
        v1::Freshness::Stale => Some("stale"),
        v1::Freshness::Lost => Some("lost"),
        v1::Freshness::Uncertain => Some("uncertain"),
    }
}

/// Adds marks, each with a space after it.
pub fn add(html: &mut Html, tags: &[Tag]) {
    for tag in tags {
        html.raw(if tag.is_doubt {
            r#"<span class="mark doubt">"#
        } else {
            r#"<span class="mark">"#
        });
        html.text(&tag.text);
        if let Some(next) = &tag.next {
            moment::add_until(html, next);
        }
        html.raw("</span> ");
    }
}

/// Adds a level with its shape and its word. A doubtful one is never green.
pub fn add_level(html: &mut Html, level: v1::Level, is_doubtful: bool) {
    let (word, doubt) = (level_word(level), if is_doubtful { " doubt" } else { "" });
    html.fill(r#"<span class="s {}{}">{}</span>"#, &[&word, &doubt, &word]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::Level::{Active, Blocked, Maintenance};

    fn app(level: v1::Level, change: impl FnOnce(&mut v1::AggregatedStatus)) -> v1::Application {
        let mut status = v1::AggregatedStatus { level: level.into(), ..Default::default() };
        change(&mut status);
        v1::Application {
            namespace: "prod".into(),
            name: "web".into(),
            status: Some(status),
            ..v1::Application::default()
        }
    }

    fn shown(app: &v1::Application, marks: Vec<v1::Mark>) -> String {
        let tags = of(app, &OperatorMarks::new(marks));
        tags.iter().map(|tag| tag.text.as_str()).collect::<Vec<_>>().join("; ")
    }

    fn mark(kind: v1::MarkKind, author: &str, end: i64) -> v1::Mark {
        v1::Mark {
            namespace: "prod".into(),
            application: "web".into(),
            kind: kind.into(),
            author: author.into(),
            end_time: Some(prost_types::Timestamp { seconds: end, nanos: 0 }),
            in_force: true,
            ..v1::Mark::default()
        }
    }

    #[test]
    fn doubts_are_first_and_facts_follow() {
        let status = app(Active, |status| {
            (status.stale_units, status.lost_units, status.fault_count) = (1, 2, 3);
            status.flapping = true;
        });
        assert_eq!(shown(&status, vec![]), "1 stale; 2 lost; 3 open errors; flapping");
        let tags = of(&status, &OperatorMarks::default());
        assert_eq!(tags.iter().filter(|tag| tag.is_doubt).count(), 2);
        assert_eq!(shown(&app(Active, |_| ()), vec![]), "");
    }

    #[test]
    fn open_errors_announce_their_next_attempt_unless_it_is_late() {
        let html = |after: i64| {
            let app = app(Active, |status| {
                let seconds = now() + after;
                status.fault_count = 1;
                status.next_retry_time = Some(prost_types::Timestamp { seconds, nanos: 0 });
            });
            let mut html = Html::default();
            add(&mut html, &of(&app, &OperatorMarks::default()));
            html.as_str().to_string()
        };
        let text = html(7_200);
        assert!(text.contains("1 open error, next attempt <time class=\"next\""), "{text}");
        assert!(text.contains(">in 2h</time></span> ") || text.contains(">in 1h"), "{text}");
        assert_eq!(html(-1), "<span class=\"mark\">1 open error</span> ");
    }

    #[test]
    fn a_mark_names_its_author_its_end_and_the_level_without_it() {
        let planned = app(Maintenance, |status| {
            status.planned = true;
            status.level_without_marks = Blocked.into();
        });
        assert_eq!(shown(&planned, vec![]), "planned, else blocked", "the marks are not there");
        let kind = v1::MarkKind::Planned;
        let mut later = mark(kind, "carol", 9_000);
        later.in_force = false;
        let marks = vec![mark(kind, "alice", 5_000), mark(kind, "bob", 4_000), later];
        let expected = "planned by alice until 1 Jan 01:23, else blocked";
        assert_eq!(shown(&planned, marks), expected);
        let known = app(Blocked, |status| status.acknowledged = true);
        let marks = vec![mark(v1::MarkKind::Acknowledged, "", 5_000)];
        assert_eq!(shown(&known, marks), "acknowledged until 1 Jan 01:23");
    }
}
