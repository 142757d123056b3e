//! Which applications the page shows, by its URL.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::proto::v1;
use crate::service::convert::{from_level, level_word, severity};
use crate::service::web::query::Query;

/// The levels in the order of severity, with their shape. Only `active` may be green.
pub const LEVELS: [(v1::Level, &str); 7] = [
    (v1::Level::Error, "\u{2716}"),
    (v1::Level::Blocked, "\u{25a0}"),
    (v1::Level::Unknown, "?"),
    (v1::Level::Maintenance, "\u{25c6}"),
    (v1::Level::Waiting, "\u{25b2}"),
    (v1::Level::Active, "\u{25cf}"),
    (v1::Level::Terminated, "\u{25cb}"),
];

/// The filters of the URL.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PageView {
    /// Only this level, by its word.
    pub level: String,
    /// Only this namespace.
    pub namespace: String,
    /// Only names that contain this.
    pub search: String,
    /// The application whose reason is shown, as `NAMESPACE/APPLICATION`.
    pub why: String,
}

/// What is encoded in the value of a field.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The names of the fields in a URL.
const KEYS: [&str; 4] = ["level", "ns", "q", "why"];

impl PageView {
    /// Reads a query.
    pub fn of(query: &str) -> PageView {
        let text = |key| Query(query).text(key).unwrap_or_default();
        let [level, namespace, search, why] = KEYS.map(text);
        PageView { level, namespace, search, why }
    }

    /// Returns the URL of this view.
    pub fn url(&self) -> String {
        let values = [&self.level, &self.namespace, &self.search, &self.why];
        let given = KEYS.into_iter().zip(values).filter(|(_, value)| !value.is_empty());
        let pairs: Vec<_> = given
            .map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, ENCODED)))
            .collect();
        format!("/?{}", pairs.join("&"))
    }

    /// Returns whether the view shows an application, if the filter of levels is left out.
    pub fn has_name(&self, app: &v1::Application) -> bool {
        let is_there = self.namespace.is_empty() || self.namespace == app.namespace;
        let name = format!("{}/{}", app.namespace, app.name).to_lowercase();
        is_there && name.contains(&self.search.to_lowercase())
    }

    /// Returns whether the view shows an application.
    pub fn has(&self, app: &v1::Application) -> bool {
        let is_level = self.level.is_empty() || self.level == level_word(level(app));
        is_level && self.has_name(app)
    }
}

/// Returns the level of an application.
pub fn level(app: &v1::Application) -> v1::Level {
    app.status.as_ref().map_or(v1::Level::Unknown, v1::AggregatedStatus::level)
}

/// Returns the place of a level, worst first.
pub fn place(level: v1::Level) -> usize {
    let known = from_level(level);
    LEVELS.iter().position(|(one, _)| from_level(*one) == known).unwrap_or_default()
}

/// Returns the shape of a level.
pub fn shape(level: v1::Level) -> &'static str {
    LEVELS[place(level)].1
}

/// Returns what is doubtful about the status of an application. Such a status is never green.
pub fn marks(app: &v1::Application) -> Vec<String> {
    let Some(status) = &app.status else { return vec!["no status".into()] };
    let counted = [
        (status.stale_units, "stale"),
        (status.lost_units, "lost"),
        (status.uncertain_units, "uncertain"),
        (status.flapping_count, "flapping"),
        (status.fault_count, if status.fault_count == 1 { "open error" } else { "open errors" }),
    ];
    let counted = counted.into_iter().filter(|(count, _)| 0 < *count);
    let mut marks: Vec<String> = counted.map(|(count, word)| format!("{count} {word}")).collect();
    if status.flapping {
        marks.push("damped".into());
    }
    marks
}

/// Sorts in the order of severity, as the command line does.
pub fn sort(apps: &mut [v1::Application]) {
    apps.sort_by(severity::compare);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(name: &str, level: v1::Level, stale_units: i32) -> v1::Application {
        let status = v1::AggregatedStatus {
            level: level as i32,
            stale_units,
            ..v1::AggregatedStatus::default()
        };
        v1::Application {
            namespace: "default".into(),
            name: name.into(),
            status: Some(status),
            ..v1::Application::default()
        }
    }

    #[test]
    fn the_url_keeps_the_filters() {
        let view = PageView::of("level=blocked&ns=a%26b&q=w+x&why=default/web");
        assert_eq!((view.namespace.as_str(), view.search.as_str()), ("a&b", "w x"));
        assert_eq!(view.url(), "/?level=blocked&ns=a%26b&q=w%20x&why=default/web");
        assert_eq!(PageView::of(view.url().trim_start_matches("/?")), view);
    }

    #[test]
    fn the_levels_are_in_the_order_of_severity() {
        let severities = LEVELS.map(|(level, _)| severity::of(&app("web", level, 0)));
        assert!(severities.is_sorted(), "{severities:?}");
        assert_eq!(shape(v1::Level::Unspecified), "?");
    }

    #[test]
    fn the_worst_is_first_and_what_is_silent_before_what_works() {
        let mut apps = vec![
            app("sure", v1::Level::Active, 0),
            app("works", v1::Level::Maintenance, 0),
            app("stale", v1::Level::Active, 1),
            app("gone", v1::Level::Terminated, 0),
            app("bad", v1::Level::Error, 0),
        ];
        sort(&mut apps);
        let names: Vec<_> = apps.iter().map(|app| app.name.as_str()).collect();
        assert_eq!(names, ["bad", "stale", "works", "sure", "gone"]);
        assert_eq!(marks(&apps[1]), ["1 stale"]);
        let view = PageView::of("level=active&q=FAULT/s");
        let names: Vec<_> = apps.iter().filter(|app| view.has(app)).map(|a| &a.name).collect();
        assert_eq!(names, ["stale", "sure"]);
    }
}
