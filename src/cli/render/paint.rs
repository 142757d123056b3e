//! The colours of levels, as Juju uses them.

use crate::proto::v1::{Freshness, Level};

/// One of the terminal's own sixteen colours, so that its theme decides the shade. The number is
/// the code of the escape sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Paint {
    /// The default of the terminal.
    #[default]
    None = 0,
    /// Active.
    Green = 32,
    /// Not known, or busy.
    Yellow = 33,
    /// A person must act.
    Red = 31,
    /// Waits for something else.
    Cyan = 36,
}

impl Paint {
    /// Returns the colour of a level.
    pub fn of_level(level: i32) -> Paint {
        match Level::try_from(level).unwrap_or(Level::Unknown) {
            Level::Active => Paint::Green,
            Level::Maintenance | Level::Unknown => Paint::Yellow,
            Level::Blocked | Level::Error => Paint::Red,
            Level::Waiting => Paint::Cyan,
            Level::Terminated | Level::Unspecified => Paint::None,
        }
    }

    /// Returns the colour of a freshness; `None` for fresh.
    pub fn of_freshness(freshness: i32) -> Paint {
        match Freshness::try_from(freshness) {
            Ok(Freshness::Fresh | Freshness::Unspecified) => Paint::None,
            _ => Paint::Yellow,
        }
    }

    /// Colours `text`, if `color` is true.
    pub fn apply(self, text: &str, color: bool) -> String {
        if !color || text.is_empty() || self == Paint::None {
            return text.to_string();
        }
        format!("\x1b[{}m{text}\x1b[0m", self as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_appear_only_on_request() {
        let red = Paint::of_level(Level::Blocked.into());
        assert_eq!(red.apply("blocked", true), "\x1b[31mblocked\x1b[0m");
        assert_eq!(red.apply("blocked", false), "blocked");
        assert_eq!(Paint::None.apply("x", true), "x");
    }
}
