//! Silent units of an application: those that did not report in time, or whose last report the
//! store may have lost. A good level does not count while units are silent. `status`, its exit code
//! and `wait` share this rule.

use crate::cli::render::text::counted;
use crate::proto::v1::{AggregatedStatus, Application, Freshness, Level, LostUnits, Unit};

/// The number of silent units, by freshness.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Silence {
    /// Units with a status past its time to live.
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
        let words = self.counts().map(|(count, word)| counted(count, "unit", "units") + " " + word);
        words.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the level of an application; `Unknown` for a level of a newer server.
pub fn level_of(application: &Application) -> Level {
    let level = application.status.as_ref().map_or(0, |s| s.level);
    Level::try_from(level).unwrap_or(Level::Unknown)
}

/// Whether a unit is silent: not fresh.
pub fn is_silent(unit: &Unit) -> bool {
    !matches!(unit.freshness(), Freshness::Fresh | Freshness::Unspecified)
}

/// Whether silent units make the level of an application unreliable. Error, blocked and unknown
/// stay as they are: silence makes none of them better.
pub fn hides(application: &Application) -> bool {
    let bad = [Level::Error, Level::Blocked, Level::Unknown, Level::Unspecified];
    !bad.contains(&level_of(application)) && Silence::of(application).is_any()
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
    }
}
