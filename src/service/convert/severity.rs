//! The severity of applications on the wire, the worst first. The order of the command line, of the
//! status page and of the exit codes is this one.

use std::cmp::{Ordering, Reverse};

use crate::domain::level;
use crate::domain::severity::{Severity, is_doubtful};
use crate::proto::v1::{AggregatedStatus, Application, Freshness, Level, LostUnits, Unit};
use crate::service::convert::from_level;

/// The number of silent units, by freshness: those that did not report in time, or whose last
/// report the store may have lost. A good level does not count while units are silent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Silence {
    /// Units with a status past its ttl.
    pub stale: i32,
    /// Units lost, unless the application is configured to ignore these.
    pub lost: i32,
    /// Units whose last report the store may have lost.
    pub uncertain: i32,
}

impl Silence {
    /// Counts the silent units of an application.
    pub fn of(application: &Application) -> Silence {
        let silence = application.status.as_ref().map(Silence::in_status).unwrap_or_default();
        let config = application.config.as_ref();
        let ignored = config.is_some_and(|config| config.lost_units() == LostUnits::Ignore);
        Silence { lost: if ignored { 0 } else { silence.lost }, ..silence }
    }

    /// Counts the silent units of an application with any configuration.
    pub fn in_status(status: &AggregatedStatus) -> Silence {
        let AggregatedStatus { stale_units, lost_units, uncertain_units, .. } = *status;
        Silence { stale: stale_units, lost: lost_units, uncertain: uncertain_units }
    }

    /// Returns the counts above 0, each with its word.
    pub fn counts(self) -> impl Iterator<Item = (i32, &'static str)> {
        let counts = [(self.stale, "stale"), (self.lost, "lost"), (self.uncertain, "uncertain")];
        counts.into_iter().filter(|(count, _)| 0 < *count)
    }

    /// Whether any unit is silent.
    pub fn is_any(self) -> bool {
        self != Silence::default()
    }

    /// Formats `1 unit stale, 2 units lost`; empty if no unit is silent.
    pub fn words(self) -> String {
        let units = |count| if count == 1 { "unit" } else { "units" };
        let words = self.counts().map(|(count, word)| format!("{count} {} {word}", units(count)));
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the level of an application; `Unknown` for a level of a newer server.
pub fn level_of(application: &Application) -> Level {
    let level = application.status.as_ref().map_or(0, |s| s.level);
    Level::try_from(level).unwrap_or(Level::Unknown)
}

/// Returns the level of an application in the words of the domain.
fn known_level(application: &Application) -> level::Level {
    from_level(level_of(application))
}

/// Returns the severity of an application.
pub fn of(application: &Application) -> Severity {
    let marked = |status: &AggregatedStatus| {
        status.flapping || 0 < status.flapping_count || 0 < status.fault_count
    };
    let is_marked = application.status.as_ref().is_some_and(marked);
    Severity::of(known_level(application), Silence::of(application).is_any(), is_marked)
}

/// Returns the severity of a unit by itself.
pub fn of_unit(unit: &Unit) -> Severity {
    Severity::of(from_level(unit.level()), is_silent(unit), false)
}

/// Compares two applications, the worse first. Of equal severity, what is acknowledged comes after
/// what is not, and the one that changed its level last comes first; those that need nothing are in
/// the order of their names.
pub fn compare(one: &Application, other: &Application) -> Ordering {
    place(one).cmp(&place(other))
}

/// A place in the order of severity.
type Place<'a> = (Severity, bool, Reverse<Option<(i64, i32)>>, &'a str, &'a str);

fn place(application: &Application) -> Place<'_> {
    let severity = of(application);
    let since = application.status.as_ref().and_then(|status| status.since_time.as_ref());
    let since = since.filter(|_| !severity.is_fine()).map(|time| (time.seconds, time.nanos));
    let is_acknowledged = application.status.as_ref().is_some_and(|status| status.acknowledged);
    (severity, is_acknowledged, Reverse(since), &application.namespace, &application.name)
}

/// Whether a unit is silent: not fresh.
pub fn is_silent(unit: &Unit) -> bool {
    !matches!(unit.freshness(), Freshness::Fresh | Freshness::Unspecified)
}

/// Whether silent units make the level of an application unreliable.
pub fn hides(application: &Application) -> bool {
    is_doubtful(known_level(application), Silence::of(application).is_any())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::ApplicationConfig;

    fn mk(level: Level, stale: i32, lost: i32, lost_units: LostUnits) -> Application {
        Application {
            status: Some(AggregatedStatus {
                level: level.into(),
                stale_units: stale,
                lost_units: lost,
                ..AggregatedStatus::default()
            }),
            config: Some(ApplicationConfig {
                lost_units: lost_units.into(),
                ..ApplicationConfig::default()
            }),
            ..Application::default()
        }
    }

    #[test]
    fn silence_hides_healthy_levels() {
        for (application, expected) in [
            (mk(Level::Active, 0, 0, LostUnits::Waiting), false),
            (mk(Level::Active, 1, 0, LostUnits::Waiting), true),
            (mk(Level::Waiting, 0, 1, LostUnits::Waiting), true),
            (mk(Level::Active, 0, 1, LostUnits::Ignore), false),
            (mk(Level::Blocked, 1, 1, LostUnits::Waiting), false),
        ] {
            assert_eq!(hides(&application), expected, "{application:?}");
        }
        let silence = Silence::of(&mk(Level::Active, 1, 2, LostUnits::Waiting));
        assert_eq!(silence.words(), "1 unit stale, 2 units lost");
        let newer = mk(Level::Active, 0, 0, LostUnits::Waiting);
        let status = newer.status.map(|status| AggregatedStatus { level: 99, ..status });
        assert_eq!(of(&Application { status, ..Application::default() }), Severity::Silent);
    }

    /// Returns an application with a name, a level, the second of its last change, and marks.
    fn named(name: &str, level: Level, since: i64, stale: i32, faults: i32) -> Application {
        let mut application = mk(level, stale, 0, LostUnits::Waiting);
        application.name = name.to_string();
        let status = application.status.as_mut().expect("a status");
        status.since_time = Some(prost_types::Timestamp { seconds: since, nanos: 0 });
        status.fault_count = faults;
        application
    }

    #[test]
    fn the_worst_is_first_then_the_newest_and_the_fine_by_name() {
        use Level::*;
        let mut all = [
            named("a-done", Terminated, 9, 0, 0),
            named("z-fine", Active, 9, 0, 0),
            named("b-fine", Active, 1, 0, 0),
            named("marked", Active, 1, 0, 2),
            named("waits", Waiting, 9, 0, 0),
            named("works", Maintenance, 1, 0, 0),
            named("stale", Active, 1, 1, 0),
            named("unknown", Unknown, 2, 0, 0),
            named("old-block", Blocked, 1, 0, 0),
            named("known", Blocked, 9, 0, 0),
            named("new-block", Blocked, 2, 3, 0),
            named("error", Error, 0, 0, 0),
        ];
        for status in
            all.iter_mut().filter(|one| one.name == "known").flat_map(|one| &mut one.status)
        {
            status.acknowledged = true;
        }
        all.sort_by(compare);
        let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        let order =
            "error new-block old-block known unknown stale works waits marked b-fine z-fine a-done";
        assert_eq!(names.join(" "), order);
    }
}
