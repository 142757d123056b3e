//! The one order of severity of applications, for lists, headlines and exit codes. It ranks
//! applications across policies; the policy of an application decides its level alone.

use crate::domain::level::Level;
use crate::domain::word::worded;

worded! {
    /// How much an application needs attention, the worst first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Severity {
        /// Level error.
        Error = "error",
        /// Level blocked.
        Blocked = "blocked",
        /// Level unknown, or a better one with silent units.
        Silent = "silent",
        /// Level maintenance.
        Maintenance = "maintenance",
        /// Level waiting.
        Waiting = "waiting",
        /// Level active, with open errors, or flapping.
        Marked = "marked",
        /// Level active.
        Active = "active",
        /// Level terminated.
        Terminated = "terminated",
    }
}

impl Severity {
    /// Returns the severity of a level with what is known beside it.
    pub fn of(level: Level, has_silent_units: bool, is_marked: bool) -> Severity {
        match level {
            Level::Error => Severity::Error,
            Level::Blocked => Severity::Blocked,
            Level::Unknown => Severity::Silent,
            _ if has_silent_units => Severity::Silent,
            Level::Maintenance => Severity::Maintenance,
            Level::Waiting => Severity::Waiting,
            Level::Active if is_marked => Severity::Marked,
            Level::Active => Severity::Active,
            Level::Terminated => Severity::Terminated,
        }
    }

    /// Returns whether the application needs nothing: active without a mark, or terminated.
    pub fn is_fine(self) -> bool {
        Severity::Active <= self
    }
}

/// Returns whether silent units make a level unreliable. Error, blocked and unknown stay as they
/// are: silence makes none of them better.
pub fn is_doubtful(level: Level, has_silent_units: bool) -> bool {
    Severity::of(level, has_silent_units, false) != Severity::of(level, false, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_comes_before_work_and_hides_no_bad_level() {
        use Level::*;
        for (level, silent, marked, expected) in [
            (Error, true, true, Severity::Error),
            (Blocked, true, false, Severity::Blocked),
            (Unknown, false, false, Severity::Silent),
            (Maintenance, true, false, Severity::Silent),
            (Active, true, true, Severity::Silent),
            (Terminated, true, false, Severity::Silent),
            (Maintenance, false, true, Severity::Maintenance),
            (Waiting, false, true, Severity::Waiting),
            (Active, false, true, Severity::Marked),
            (Active, false, false, Severity::Active),
            (Terminated, false, true, Severity::Terminated),
        ] {
            assert_eq!(
                Severity::of(level, silent, marked),
                expected,
                "{level:?} {silent} {marked}"
            );
        }
        let words: Vec<&str> = Severity::ALL.iter().map(|severity| severity.word()).collect();
        let order = "error blocked silent maintenance waiting marked active terminated";
        assert_eq!(words.join(" "), order);
        assert!(Severity::ALL.is_sorted() && Severity::Error < Severity::Terminated);
        assert_eq!(Severity::ALL.map(Severity::is_fine).iter().filter(|fine| **fine).count(), 2);
        assert!(is_doubtful(Waiting, true) && !is_doubtful(Waiting, false));
        assert!(!is_doubtful(Unknown, true) && !is_doubtful(Error, true));
    }
}
