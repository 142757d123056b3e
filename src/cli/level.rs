//! Levels as words of the command line, with their meaning.

use clap::ValueEnum;

use crate::proto::v1::Level;

/// A level as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LevelWord {
    /// Failed, and does not recover without help.
    Error,
    /// A person must act.
    Blocked,
    /// Busy with its own work.
    Maintenance,
    /// Waits for something else.
    Waiting,
    /// Works.
    Active,
    /// Ended on purpose.
    Terminated,
    /// Not known.
    Unknown,
}

impl From<LevelWord> for Level {
    fn from(word: LevelWord) -> Level {
        match word {
            LevelWord::Error => Level::Error,
            LevelWord::Blocked => Level::Blocked,
            LevelWord::Maintenance => Level::Maintenance,
            LevelWord::Waiting => Level::Waiting,
            LevelWord::Active => Level::Active,
            LevelWord::Terminated => Level::Terminated,
            LevelWord::Unknown => Level::Unknown,
        }
    }
}

/// Returns the level that a word names, in lower case.
pub fn parse(text: &str) -> Option<Level> {
    LevelWord::from_str(text, false).ok().map(Level::from)
}

/// Returns the word for a level; `unknown` for a level of a newer server.
pub fn word(level: i32) -> &'static str {
    match Level::try_from(level).unwrap_or(Level::Unknown) {
        Level::Unspecified => "-",
        Level::Unknown => "unknown",
        Level::Terminated => "terminated",
        Level::Active => "active",
        Level::Waiting => "waiting",
        Level::Maintenance => "maintenance",
        Level::Blocked => "blocked",
        Level::Error => "error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_levels_go_both_ways() {
        for typed in LevelWord::value_variants() {
            let level = Level::from(*typed);
            assert_eq!(parse(word(level.into())), Some(level));
        }
        assert_eq!(parse("Active"), None);
        assert_eq!(word(99), "unknown");
    }
}
