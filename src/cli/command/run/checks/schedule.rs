//! When a check runs: at its own offset within the interval, so that many spread evenly.

use std::hash::Hasher as _;
use std::time::Duration;

use fnv::FnvHasher;

use crate::cli::command::run::checks::definition::PluginCheck;

/// Returns how long after the start a check first runs, which is the same at each start.
pub fn offset(check: &PluginCheck, every: Duration) -> Duration {
    let mut hasher = FnvHasher::default();
    for part in [&check.unit.application, &check.unit.unit, &check.component] {
        hasher.write(part.as_bytes());
        hasher.write_u8(0);
    }
    // The high bits of the sum hardly depend on the last bytes.
    let mixed = hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    every.mul_f64(mixed as f64 / f64::from(u32::MAX))
}

/// Returns the time of the next run after one that was due at `due`, at a time that has not passed.
pub fn after(due: Duration, every: Duration, now: Duration) -> Duration {
    let next = due + every;
    match now.checked_sub(next) {
        None => next,
        // Runs that were missed are not made up for.
        Some(late) => next + every * (late.div_duration_f64(every).floor() as u32 + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command::run::checks::definition::Definition;
    use crate::cli::target::UnitTarget;
    use crate::proto::v1::Level;

    const EVERY: Duration = Duration::from_secs(30);

    fn check(unit: &str, component: &str) -> PluginCheck {
        let definition = Definition {
            every: Some(EVERY),
            timeout: EVERY,
            ttl: None,
            warning_as: Level::Waiting,
            critical_as: Level::Error,
            shows_command: false,
        };
        let unit = UnitTarget { application: "web".into(), unit: unit.into() };
        definition.check(unit, Some(component.into()), vec!["x".into()]).unwrap()
    }

    #[test]
    fn many_checks_spread_over_the_interval() {
        let mut counts = [0_usize; 30];
        for number in 0..1_000 {
            let check = check(&format!("web/{}", number % 50), &format!("c{number}"));
            let offset = offset(&check, EVERY);
            assert!(offset <= EVERY);
            counts[(offset.as_secs() as usize).min(29)] += 1;
        }
        let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(15 <= *least && *most <= 60, "33 a second are even: {counts:?}");
        let again = offset(&check("web/1", "a"), EVERY);
        assert_eq!(offset(&check("web/1", "a"), EVERY), again);
        assert_ne!(offset(&check("web/2", "a"), EVERY), again);
    }

    #[test]
    fn a_run_that_was_missed_is_left_out() {
        let seconds = Duration::from_secs;
        for (due, now, next) in [(5, 6, 35), (5, 34, 35), (5, 35, 65), (5, 100, 125)] {
            assert_eq!(after(seconds(due), EVERY, seconds(now)), seconds(next), "{due} {now}");
        }
    }
}
