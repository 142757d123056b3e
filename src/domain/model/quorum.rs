//! The quorum of an application: while enough of its units are fresh and active, the others do not
//! decide its status.
//!
//! The quorum ranks after the override and the precedence, and before the level. While it is met,
//! contributions of units that do not count rank below those of units that count, and of the
//! application itself. While it is not met, the ordinary rules choose, and the application is at
//! least waiting.

use serde::{Deserialize, Serialize};

/// How many units are enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Quorum {
    /// A number of units, at least 1.
    Units(u32),
    /// A share of the known units, 1 to 100.
    Percent(u32),
}

/// Where a quorum stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turnout {
    /// Units that are fresh and active.
    pub active: u32,
    /// Known units, silent ones included.
    pub known: u32,
    /// Units that are needed.
    pub needed: u32,
}

impl Quorum {
    /// Returns how many of the known units are needed: a share is rounded up, and is at least one.
    pub fn needed(self, known: u32) -> u32 {
        match self {
            Quorum::Units(units) => units,
            Quorum::Percent(percent) => {
                let needed = (u64::from(known) * u64::from(percent)).div_ceil(100);
                u32::try_from(needed).unwrap_or(u32::MAX).max(1)
            }
        }
    }

    /// Returns the quorum as text: `5` units, or `60%` of them.
    pub fn words(self) -> String {
        match self {
            Quorum::Units(units) => units.to_string(),
            Quorum::Percent(percent) => format!("{percent}%"),
        }
    }
}

impl Turnout {
    /// Returns whether enough units count.
    pub fn is_met(&self) -> bool {
        self.needed <= self.active
    }

    /// Returns the turnout as text.
    pub fn words(&self) -> String {
        let verb = if self.needed == 1 { "is" } else { "are" };
        let Turnout { active, known, needed } = self;
        format!("{active} of {known} units are active, {needed} {verb} needed")
    }

    /// Returns the reason of an application that is waiting for its quorum.
    pub fn reason(&self) -> &'static str {
        match self.known < self.needed {
            true => "QuorumTooFew",
            false => "QuorumNotMet",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_rounded_up() {
        let needed = |percent, known| Quorum::Percent(percent).needed(known);
        let cases = [(50, 4, 2), (25, 4, 1), (26, 4, 2), (100, 3, 3), (1, 1000, 10), (50, 0, 1)];
        for (percent, known, expected) in cases {
            assert_eq!(needed(percent, known), expected, "{percent} % of {known}");
        }
        assert_eq!(needed(100, u32::MAX), u32::MAX);
        assert_eq!(Quorum::Units(5).needed(3), 5);
    }

    #[test]
    fn exactly_as_many_as_needed_are_enough() {
        let turnout = |active, known, needed| Turnout { active, known, needed };
        for (is_met, reason, words, turnout) in [
            (true, "QuorumNotMet", "7 of 9 units are active, 5 are needed", turnout(7, 9, 5)),
            (true, "QuorumNotMet", "5 of 9 units are active, 5 are needed", turnout(5, 9, 5)),
            (false, "QuorumNotMet", "4 of 9 units are active, 5 are needed", turnout(4, 9, 5)),
            (false, "QuorumTooFew", "2 of 2 units are active, 3 are needed", turnout(2, 2, 3)),
            (false, "QuorumTooFew", "0 of 0 units are active, 1 is needed", turnout(0, 0, 1)),
        ] {
            let found = (turnout.is_met(), turnout.reason(), turnout.words());
            assert_eq!(found, (is_met, reason, words.to_string()));
        }
    }
}
