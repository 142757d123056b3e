//! Which applications the page shows, by its URL.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::group::ListGroup;
use crate::proto::v1;
use crate::service::convert::{from_level, level_word, severity};
use crate::service::web::query::Query;

/// The levels in the order of severity. Only `active` may be green.
pub const LEVELS: [v1::Level; 7] = [
    v1::Level::Error,
    v1::Level::Blocked,
    v1::Level::Unknown,
    v1::Level::Maintenance,
    v1::Level::Waiting,
    v1::Level::Active,
    v1::Level::Terminated,
];

/// The order of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Sort {
    /// The worst first, in groups.
    #[default]
    Severity,
    /// By namespace and name.
    Name,
    /// The newest level first.
    Since,
}

/// The filters of the URL. They combine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PageView {
    /// Only this group.
    pub show: Option<ListGroup>,
    /// Only these levels, the worst first; empty: all.
    pub levels: Vec<v1::Level>,
    /// A word given as a level that is no level; empty: none.
    pub wrong_level: String,
    /// Only this namespace.
    pub namespace: String,
    /// Only names that contain this.
    pub search: String,
    /// The order of the rows.
    pub sort: Sort,
    /// The application whose reason is shown, as `NAMESPACE/APPLICATION`.
    pub why: String,
    /// Whether the page shows what blocks, and no list.
    pub is_blockers: bool,
}

/// What is encoded in the value of a field.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b',');

/// The view of what blocks, in the URL.
const BLOCKERS: &str = "blockers";

impl PageView {
    /// Reads a query. A value that no view has is left out; a wrong level is kept, to say so.
    pub fn of(query: &str) -> PageView {
        let text = |key| Query(query).text(key).unwrap_or_default();
        let words = text("level");
        let mut view = PageView {
            show: ListGroup::ALL.into_iter().find(|group| group.word() == text("show")),
            namespace: text("ns"),
            search: text("q"),
            why: text("why"),
            is_blockers: text("view") == BLOCKERS,
            sort: match text("sort").as_str() {
                "name" => Sort::Name,
                "since" => Sort::Since,
                _ => Sort::Severity,
            },
            ..PageView::default()
        };
        let words: Vec<&str> =
            words.split(',').map(str::trim).filter(|word| !word.is_empty()).collect();
        let is_level = |word: &str| LEVELS.into_iter().any(|level| level_word(level) == word);
        view.levels = LEVELS.into_iter().filter(|l| words.contains(&level_word(*l))).collect();
        let wrong = words.iter().find(|word| !is_level(word));
        view.wrong_level = wrong.map(|word| (*word).to_string()).unwrap_or_default();
        view
    }

    /// Returns the URL of this view.
    pub fn url(&self) -> String {
        let levels = self.levels.iter().map(|level| level_word(*level));
        let wrong = Some(self.wrong_level.as_str()).filter(|word| !word.is_empty());
        let levels: Vec<&str> = levels.chain(wrong).collect();
        let sort = match self.sort {
            Sort::Severity => "",
            Sort::Name => "name",
            Sort::Since => "since",
        };
        let fields = [
            ("view", if self.is_blockers { BLOCKERS } else { "" }),
            ("show", self.show.map_or("", ListGroup::word)),
            ("level", &levels.join(",")),
            ("ns", &self.namespace),
            ("q", &self.search),
            ("sort", sort),
            ("why", &self.why),
        ];
        let given = fields.into_iter().filter(|(_, value)| !value.is_empty());
        let pairs: Vec<_> = given
            .map(|(key, value)| format!("{key}={}", utf8_percent_encode(value, ENCODED)))
            .collect();
        if pairs.is_empty() { "/".into() } else { format!("/?{}", pairs.join("&")) }
    }

    /// Returns this view with the reason of an application.
    pub fn with_why(&self, namespace: &str, application: &str) -> PageView {
        PageView { why: format!("{namespace}/{application}"), ..self.clone() }
    }

    /// Returns this view without the reason of an application.
    pub fn without_why(&self) -> PageView {
        PageView { why: String::new(), ..self.clone() }
    }

    /// Returns the view of this namespace without any other filter.
    pub fn without_filters(&self) -> PageView {
        PageView { namespace: self.namespace.clone(), ..PageView::default() }
    }

    /// Returns the view that a click on the switch of a level leads to: the level is added, or
    /// taken out if it is there.
    pub fn switched(&self, level: v1::Level) -> PageView {
        let is_on = |one: &v1::Level| self.levels.contains(one) != (*one == level);
        let levels = LEVELS.into_iter().filter(is_on).collect();
        let (show, wrong_level) = (None, String::new());
        PageView { show, levels, wrong_level, ..self.without_why() }
    }

    /// Returns whether the view shows a part of its namespace alone.
    pub fn is_filtered(&self) -> bool {
        self.show.is_some()
            || !self.levels.is_empty()
            || !self.wrong_level.is_empty()
            || !self.search.is_empty()
    }

    /// Returns whether the view has an application, if groups and levels are left out.
    pub fn has_name(&self, app: &v1::Application) -> bool {
        let is_there = self.namespace.is_empty() || self.namespace == app.namespace;
        let name = format!("{}/{}", app.namespace, app.name).to_lowercase();
        is_there && name.contains(&self.search.to_lowercase())
    }

    /// Returns whether the view shows an application.
    pub fn has(&self, app: &v1::Application) -> bool {
        let is_level = self.levels.is_empty() || self.levels.contains(&level(app));
        let is_group = self.show.is_none_or(|group| group.has(severity::of(app)));
        is_level && is_group && self.wrong_level.is_empty() && self.has_name(app)
    }

    /// Sorts applications in the order of the view.
    pub fn sort(&self, apps: &mut [v1::Application]) {
        let name = |app: &v1::Application| (app.namespace.clone(), app.name.clone());
        match self.sort {
            Sort::Severity => apps.sort_by(severity::compare),
            Sort::Name => apps.sort_by_cached_key(name),
            Sort::Since => apps.sort_by_cached_key(|app| {
                let since = app.status.as_ref().and_then(|status| status.since_time.as_ref());
                (std::cmp::Reverse(since.map(|time| (time.seconds, time.nanos))), name(app))
            }),
        }
    }
}

/// Returns the level of an application.
pub fn level(app: &v1::Application) -> v1::Level {
    severity::level_of(app)
}

/// Returns the place of a level, worst first.
pub fn place(level: v1::Level) -> usize {
    let known = from_level(level);
    LEVELS.iter().position(|one| from_level(*one) == known).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(name: &str, level: v1::Level, stale_units: i32, since: i64) -> v1::Application {
        let status = v1::AggregatedStatus {
            level: level as i32,
            stale_units,
            since_time: Some(prost_types::Timestamp { seconds: since, nanos: 0 }),
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
        for query in [
            view.url().as_str(),
            "/?show=attention&level=error,blocked&sort=name",
            "/?view=blockers&ns=prod",
            "/?level=blocked,foo&sort=since",
        ] {
            assert_eq!(PageView::of(query.trim_start_matches("/?")).url(), query);
        }
        assert_eq!(PageView::of("show=none&sort=x&view=y").url(), "/", "no view has these values");
    }

    #[test]
    fn levels_are_switches() {
        let blocked = PageView::of("why=a/b&show=way").switched(v1::Level::Blocked);
        assert_eq!(blocked.url(), "/?level=blocked");
        let both = blocked.switched(v1::Level::Error);
        assert_eq!(both.url(), "/?level=error,blocked", "the worst first");
        assert_eq!(both.switched(v1::Level::Blocked).url(), "/?level=error");
        let wrong = PageView::of("level=error,foo");
        assert_eq!((wrong.wrong_level.as_str(), wrong.levels.len()), ("foo", 1));
        assert!(!wrong.has(&app("web", v1::Level::Error, 0, 0)));
    }

    #[test]
    fn the_levels_are_in_the_order_of_severity() {
        let severities = LEVELS.map(|level| severity::of(&app("web", level, 0, 0)));
        assert!(severities.is_sorted(), "{severities:?}");
        assert!(LEVELS.iter().enumerate().all(|(n, level)| place(*level) == n));
    }

    #[test]
    fn a_view_filters_and_sorts() {
        let mut apps = vec![
            app("sure", v1::Level::Active, 0, 9),
            app("works", v1::Level::Maintenance, 0, 8),
            app("stale", v1::Level::Active, 1, 7),
            app("gone", v1::Level::Terminated, 0, 6),
            app("bad", v1::Level::Error, 0, 5),
        ];
        for (query, expected) in [
            ("", "bad stale works sure gone"),
            ("sort=name", "bad gone stale sure works"),
            ("sort=since", "sure works stale gone bad"),
            ("level=active&q=FAULT/s", "stale sure"),
            ("level=active,error", "bad stale sure"),
            ("show=attention", "bad stale"),
            ("show=silent", "stale"),
            ("show=way", "works"),
            ("show=fine&level=active", "sure"),
        ] {
            let view = PageView::of(query);
            view.sort(&mut apps);
            let shown = apps.iter().filter(|app| view.has(app)).map(|app| app.name.as_str());
            assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{query}");
        }
    }
}
