//! Levels as words of the command line, with their meaning.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::Value;

use crate::domain::level;
use crate::proto::v1::Level;

/// A level as typed, with its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LevelWord(Level, &'static str);

impl ValueEnum for LevelWord {
    fn value_variants<'a>() -> &'a [LevelWord] {
        &[
            LevelWord(Level::Error, "Failed, and does not recover without help"),
            LevelWord(Level::Blocked, "A person must act"),
            LevelWord(Level::Maintenance, "Busy with its own work"),
            LevelWord(Level::Waiting, "Waits for something else"),
            LevelWord(Level::Active, "Works"),
            LevelWord(Level::Terminated, "Ended on purpose"),
            LevelWord(Level::Unknown, "Not known"),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let LevelWord(level, meaning) = *self;
        let shown = PossibleValue::new(word(level.into())).help(meaning);
        // Other programs and the protos spell them so; they are not listed.
        let [upper, title] = match level {
            Level::Error => ["ERROR", "Error"],
            Level::Blocked => ["BLOCKED", "Blocked"],
            Level::Maintenance => ["MAINTENANCE", "Maintenance"],
            Level::Waiting => ["WAITING", "Waiting"],
            Level::Active => ["ACTIVE", "Active"],
            Level::Terminated => ["TERMINATED", "Terminated"],
            Level::Unknown | Level::Unspecified => ["UNKNOWN", "Unknown"],
        };
        Some(shown.aliases([upper, title, level.as_str_name()]))
    }
}

impl From<LevelWord> for Level {
    fn from(word: LevelWord) -> Level {
        word.0
    }
}

/// Returns the level of a word: `active`, `ACTIVE`, `Active` or `LEVEL_ACTIVE`.
pub fn parse(text: &str) -> Option<Level> {
    LevelWord::from_str(text, false).ok().map(Level::from)
}

/// Writes a word in JSON as proto JSON names the level: `blocked` and `Blocked` as `LEVEL_BLOCKED`.
/// A value that is no text stays as it is.
///
/// # Errors
/// A sentence with the words that exist.
pub fn with_name(value: &mut Value) -> anyhow::Result<()> {
    match value {
        Value::String(word) if *word != Level::Unspecified.as_str_name() => {
            let Some(level) = parse(word) else {
                anyhow::bail!("`{word}` is no level: write one of {}", words().join(", "));
            };
            *word = level.as_str_name().to_string();
        }
        _ => {}
    }
    Ok(())
}

/// Whether a text can be a word rather than a name of proto JSON.
pub fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase())
}

/// Returns the words of all levels.
pub fn words() -> Vec<&'static str> {
    LevelWord::value_variants().iter().map(|typed| word(Level::from(*typed).into())).collect()
}

/// Returns the word of a wire number: `-` for 0, `unknown` for a number that this version lacks.
pub fn word(level: i32) -> &'static str {
    // `Level::ALL` is in wire order, and wire numbers begin at 1. 0 means that no level was given.
    let known = level::Level::ALL.into_iter().zip(1..).find(|(_, number)| *number == level);
    match known {
        Some((known, _)) => known.word(),
        None if level == 0 => "-",
        None => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_levels_convert_both_ways() {
        for typed in LevelWord::value_variants() {
            let level = Level::from(*typed);
            assert_eq!(parse(word(level.into())), Some(level));
            let name = format!("LEVEL_{}", word(level.into()).to_uppercase());
            assert_eq!(level.as_str_name(), name);
        }
        for text in ["active", "ACTIVE", "Active", "LEVEL_ACTIVE"] {
            assert_eq!(parse(text), Some(Level::Active), "{text}");
        }
        assert_eq!((parse("aCtive"), parse("fine")), (None, None));
        assert_eq!((word(99), word(-1), word(0)), ("unknown", "unknown", "-"));
    }
}
