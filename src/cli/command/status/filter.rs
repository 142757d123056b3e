//! Selects the applications, units and levels to show.

use crate::cli::exit::UsageError;
use crate::cli::level;
use crate::cli::render::status::{ApplicationView, View};
use crate::cli::target::Target;
use crate::proto::v1::{Application, Freshness, Level, Unit};
use crate::service::severity;
use crate::service::severity::level_of;

/// Selects everything that one of its words names; without words, everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    levels: Vec<Level>,
    targets: Vec<Target>,
    /// Whether the filter selects problems only.
    pub problems: bool,
}

impl Filter {
    /// Parses `web`, `web/0` and `blocked`. A word that is a level is never an application. With
    /// `problems` the filter selects only what is silent, has open errors, or is neither active nor
    /// terminated.
    ///
    /// # Errors
    /// If a word is not one of the three.
    pub fn parse(words: &[String], problems: bool) -> Result<Filter, UsageError> {
        let mut filter = Filter { problems, ..Filter::default() };
        for word in words {
            match level::parse(word) {
                Some(level) => filter.levels.push(level),
                None => filter.targets.push(Target::parse(word)?),
            }
        }
        Ok(filter)
    }

    /// Whether the filter selects everything.
    pub fn is_empty(&self) -> bool {
        !self.has_words() && !self.problems
    }

    fn has_words(&self) -> bool {
        !self.levels.is_empty() || !self.targets.is_empty()
    }

    /// Returns the only applications that can match, if the words alone determine them.
    pub fn names(&self) -> Option<Vec<String>> {
        if self.targets.is_empty() || !self.levels.is_empty() {
            return None;
        }
        let mut names: Vec<String> = self.targets.iter().map(|t| t.application.clone()).collect();
        names.sort();
        names.dedup();
        Some(names)
    }

    /// Reduces an application to what matches: all of it if it is named, else the matching units.
    pub fn apply(&self, mut view: ApplicationView) -> Option<ApplicationView> {
        if self.problems {
            view = problems(view)?;
        }
        let name = &view.application.name;
        let named = |t: &Target| t.unit.is_none() && t.application == *name;
        if !self.has_words() || self.targets.iter().any(named) {
            return Some(view);
        }
        let (levels, targets) = (&self.levels, &self.targets);
        view.units.retain(|unit| {
            let at_level = |level: &Level| unit.level == i32::from(*level);
            let is_target = |t: &Target| t.application == *name && is_unit(t, unit);
            levels.iter().any(at_level) || targets.iter().any(is_target)
        });
        let level = level_of(&view.application);
        (self.levels.contains(&level) || !view.units.is_empty()).then_some(view)
    }

    /// Returns the names that match nothing.
    pub fn missing(&self, view: &View) -> Vec<&Target> {
        let is_there = |target: &Target| {
            view.applications.iter().any(|shown| {
                shown.application.name == target.application
                    && (target.unit.is_none() || shown.units.iter().any(|u| is_unit(target, u)))
            })
        };
        self.targets.iter().filter(|target| !is_there(target)).collect()
    }
}

/// Reduces an application to its problems, its own and those of its units; `None` without any.
fn problems(mut view: ApplicationView) -> Option<ApplicationView> {
    let is_well = |level: Level| matches!(level, Level::Active | Level::Terminated);
    view.units.retain(|unit| {
        let level = Level::try_from(unit.level).unwrap_or(Level::Unknown);
        !is_well(level) || unit.freshness != i32::from(Freshness::Fresh)
    });
    let application = &view.application;
    let is_doubtful = severity::hides(application) || has_open_errors(application);
    (!is_well(level_of(application)) || is_doubtful || !view.units.is_empty()).then_some(view)
}

/// Whether errors are open, which may not be shown yet.
fn has_open_errors(application: &Application) -> bool {
    application.status.as_ref().is_some_and(|status| 0 < status.fault_count)
}

/// Whether a word names the unit; `web/web-7f9c` also names the pod `web-7f9c` of `web`.
fn is_unit(target: &Target, unit: &Unit) -> bool {
    let names = [unit.name.clone(), format!("{}/{}", target.application, unit.name)];
    target.unit.as_ref().is_some_and(|wanted| names.contains(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::AggregatedStatus;

    fn mk_application(name: &str, level: Level, units: &[(&str, Level)]) -> ApplicationView {
        ApplicationView {
            application: Application {
                name: name.into(),
                status: Some(AggregatedStatus {
                    level: level.into(),
                    ..AggregatedStatus::default()
                }),
                ..Application::default()
            },
            units: units
                .iter()
                .map(|(name, level)| Unit {
                    name: (*name).into(),
                    level: i32::from(*level),
                    freshness: Freshness::Fresh.into(),
                    ..Unit::default()
                })
                .collect(),
            ..ApplicationView::default()
        }
    }

    fn shown(words: &[&str]) -> (String, Vec<String>) {
        let words: Vec<String> = words.iter().map(|w| (*w).to_string()).collect();
        shown_by(&Filter::parse(&words, false).expect("a filter"))
    }

    /// Returns what the filter shows, as `app(unit,unit)`, and what is missing.
    fn shown_by(filter: &Filter) -> (String, Vec<String>) {
        use Level::*;
        let all = [
            mk_application("api", Blocked, &[("api/0", Active), ("api/1", Blocked)]),
            mk_application("pod", Active, &[("pod-x1", Active)]),
            mk_application("set", Waiting, &[("set/0", Active)]),
        ];
        let view = View {
            applications: all.into_iter().filter_map(|a| filter.apply(a)).collect(),
            ..View::default()
        };
        let names = view.applications.iter().map(|a| {
            let units: Vec<&str> = a.units.iter().map(|u| u.name.as_str()).collect();
            format!("{}({})", a.application.name, units.join(","))
        });
        let missing = filter.missing(&view).into_iter();
        let missing = missing.map(|it| it.unit.clone().unwrap_or(it.application.clone()));
        (names.collect::<Vec<_>>().join(" "), missing.collect())
    }

    #[test]
    fn names_levels_and_units_select() {
        for (words, expected) in [
            (&[][..], "api(api/0,api/1) pod(pod-x1) set(set/0)"),
            (&["api"], "api(api/0,api/1)"),
            (&["api/1"], "api(api/1)"),
            (&["pod/pod-x1"], "pod(pod-x1)"),
            (&["blocked"], "api(api/1)"),
            (&["waiting"], "set()"),
            (&["active", "api"], "api(api/0,api/1) pod(pod-x1) set(set/0)"),
        ] {
            assert_eq!(shown(words), (expected.to_string(), vec![]), "{words:?}");
        }
    }

    #[test]
    fn unknown_units_and_applications_are_listed_as_missing() {
        let (text, missing) = shown(&["api/7", "web", "pod"]);
        assert_eq!(text, "pod(pod-x1)");
        assert_eq!(missing, ["api/7", "web"]);
    }

    #[test]
    fn problems_are_what_is_not_active() {
        let all = Filter { problems: true, ..Filter::default() };
        assert_eq!(shown_by(&all).0, "api(api/1) set()");
        assert!(!all.is_empty());
        let words = ["api/0".to_string(), "set".to_string()];
        let named = Filter::parse(&words, true).expect("a filter");
        assert_eq!(shown_by(&named).0, "set()");
        assert_eq!(named.names(), Some(vec!["api".into(), "set".into()]));
    }

    #[test]
    fn open_errors_are_a_problem_of_an_active_application() {
        let all = Filter { problems: true, ..Filter::default() };
        let mut active = mk_application("web", Level::Active, &[("web/0", Level::Active)]);
        assert!(all.apply(active.clone()).is_none());
        active.application.status.as_mut().expect("a status").fault_count = 1;
        let shown = all.apply(active).expect("a problem");
        assert_eq!(shown.units, []);
    }

    #[test]
    fn only_names_can_be_asked_for_one_by_one() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_string()).collect();
            Filter::parse(&words, false).expect("a filter").names()
        };
        assert_eq!(names(&["web/0", "api", "web/1"]), Some(vec!["api".into(), "web".into()]));
        assert_eq!(names(&["web", "blocked"]), None);
        assert_eq!(names(&[]), None);
    }
}
