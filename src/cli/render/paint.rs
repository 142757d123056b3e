//! Colours, as Juju gives them.

use crate::proto::v1::Freshness;
use crate::proto::v1::Level;

/// A colour of the terminal's own sixteen, so that its theme decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    /// As the terminal writes.
    #[default]
    None,
    /// All is well.
    Green,
    /// Not known, or busy.
    Yellow,
    /// A person must look.
    Red,
    /// Waits for somebody else.
    Cyan,
}

impl Paint {
    /// The colour of a level.
    pub fn of_level(level: i32) -> Paint {
        match Level::try_from(level).unwrap_or(Level::Unknown) {
            Level::Active => Paint::Green,
            Level::Maintenance | Level::Unknown => Paint::Yellow,
            Level::Blocked | Level::Error => Paint::Red,
            Level::Waiting => Paint::Cyan,
            Level::Terminated | Level::Unspecified => Paint::None,
        }
    }

    /// The colour of a freshness; none for fresh.
    pub fn of_freshness(freshness: i32) -> Paint {
        match Freshness::try_from(freshness) {
            Ok(Freshness::Fresh | Freshness::Unspecified) => Paint::None,
            _ => Paint::Yellow,
        }
    }

    /// Colours `text`, if `color` says so.
    pub fn apply(self, text: &str, color: bool) -> String {
        let code = match self {
            Paint::Green => 32,
            Paint::Yellow => 33,
            Paint::Red => 31,
            Paint::Cyan => 36,
            Paint::None => return text.to_string(),
        };
        if !color || text.is_empty() {
            return text.to_string();
        }
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_only_when_told_to() {
        let red = Paint::of_level(Level::Blocked.into());
        assert_eq!(red.apply("blocked", true), "\x1b[31mblocked\x1b[0m");
        assert_eq!(red.apply("blocked", false), "blocked");
        assert_eq!(Paint::None.apply("x", true), "x");
    }
}
