//! Needs of statuses and errors, also as texts: `postgresql`, `infra/dns=active,waiting`.

use std::fmt;
use std::str::FromStr;

use crate::proto::v1::need::Object;
use crate::proto::v1::{ApplicationNeed, Level, Need};

/// The most bytes of a name.
const NAME_BYTES_MAX: usize = 253;

/// A text that is no need.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNeed {
    /// The namespace or the application is no name.
    #[error(
        "{text:?} names no application; write NAME, NAMESPACE/NAME or NAME=LEVEL,LEVEL; what is no \
         application is a need outside"
    )]
    Name {
        /// The text.
        text: String,
    },
    /// A unit, such as `postgresql/0`.
    #[error("{text:?} is a unit; an application is needed as a whole: {application}")]
    Unit {
        /// The text.
        text: String,
        /// The application.
        application: String,
    },
    /// A level that does not exist.
    #[error(
        "{text:?} has no level {level:?}; use active, waiting, maintenance, blocked, error, \
         terminated or unknown"
    )]
    Level {
        /// The text.
        text: String,
        /// The word in place of a level.
        level: String,
    },
}

impl Need {
    /// Returns the need of another application at level active. An empty namespace is that of the
    /// status.
    pub fn application(namespace: &str, application: &str) -> Need {
        let (namespace, application) = (namespace.to_string(), application.to_string());
        let needed = ApplicationNeed { namespace, application, levels: Vec::new() };
        Need { object: Some(Object::Application(needed)) }
    }

    /// Returns the need of something that is no application of Bellwether: 1 to 253 bytes of words
    /// without control characters, such as `quota cpu of prod`. Equal words are one thing.
    pub fn outside(words: &str) -> Need {
        Need { object: Some(Object::Outside(words.to_string())) }
    }
}

/// Reads the need of an application: `NAME`, `NAMESPACE/NAME`, or one of them with the levels that
/// meet it, as in `infra/dns=active,waiting`.
impl FromStr for Need {
    type Err = InvalidNeed;

    fn from_str(text: &str) -> Result<Need, InvalidNeed> {
        let (path, words) = match text.split_once('=') {
            Some((path, words)) => (path, Some(words)),
            None => (text, None),
        };
        let (namespace, application) = path.split_once('/').unwrap_or(("", path));
        let has_namespace = path.contains('/');
        let is_number = application.chars().all(|c| c.is_ascii_digit());
        if is_name(namespace) && is_name(application) && is_number {
            let (text, application) = (text.to_string(), namespace.to_string());
            return Err(InvalidNeed::Unit { text, application });
        }
        if !is_name(application) || has_namespace && !is_name(namespace) {
            return Err(InvalidNeed::Name { text: text.to_string() });
        }
        let levels = words.into_iter().flat_map(|words| words.split(','));
        let levels = levels.map(|word| {
            let level = level(word).ok_or_else(|| word.to_string());
            level.map_err(|level| InvalidNeed::Level { text: text.to_string(), level })
        });
        let needed = ApplicationNeed {
            namespace: namespace.to_string(),
            application: application.to_string(),
            levels: levels.collect::<Result<_, _>>()?,
        };
        Ok(Need { object: Some(Object::Application(needed)) })
    }
}

/// Shows the text that is read as this need, or the words for something outside.
impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let needed = match &self.object {
            Some(Object::Application(needed)) => needed,
            Some(Object::Outside(words)) => return f.write_str(words),
            None => return f.write_str("-"),
        };
        if !needed.namespace.is_empty() {
            write!(f, "{}/", needed.namespace)?;
        }
        f.write_str(&needed.application)?;
        for (place, level) in needed.levels().enumerate() {
            let name = level.as_str_name().trim_start_matches("LEVEL_").to_ascii_lowercase();
            write!(f, "{}{name}", if place == 0 { '=' } else { ',' })?;
        }
        Ok(())
    }
}

fn level(word: &str) -> Option<i32> {
    let level = Level::from_str_name(&format!("LEVEL_{}", word.trim().to_ascii_uppercase()))?;
    (level != Level::Unspecified).then_some(level.into())
}

fn is_name(text: &str) -> bool {
    let belongs = |(at, c): (usize, char)| {
        c.is_ascii_alphanumeric() || 0 < at && matches!(c, '.' | '_' | '-')
    };
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.char_indices().all(belongs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(namespace: &str, application: &str, levels: &[Level]) -> Need {
        let mut need = Need::application(namespace, application);
        if let Some(Object::Application(needed)) = &mut need.object {
            needed.levels = levels.iter().map(|level| i32::from(*level)).collect();
        }
        need
    }

    #[test]
    fn a_text_is_read_and_shown() {
        let cases = [
            ("postgresql", of("", "postgresql", &[])),
            ("infra/dns", of("infra", "dns", &[])),
            ("dns=active", of("", "dns", &[Level::Active])),
            ("infra/dns=active,waiting", of("infra", "dns", &[Level::Active, Level::Waiting])),
            ("a.b_c-0", of("", "a.b_c-0", &[])),
        ];
        for (text, need) in cases {
            assert_eq!(text.parse(), Ok(need.clone()), "{text}");
            assert_eq!(need.to_string(), text);
        }
        assert_eq!("dns=Active, waiting".parse(), "dns=active,waiting".parse::<Need>());
        assert_eq!(Need::outside("quota cpu of prod").to_string(), "quota cpu of prod");
        assert_eq!(Need::default().to_string(), "-");
    }

    #[test]
    fn a_wrong_text_is_refused_with_advice() {
        let long = "a".repeat(NAME_BYTES_MAX + 1);
        let texts = ["", "quota cpu", "/dns", "infra/", "a/b/c", "-dns", "größe", "=active", &long];
        for text in texts {
            let refused = text.parse::<Need>().expect_err("is no need").to_string();
            assert!(refused.contains("names no application; write NAME, NAMESPACE/NAME"), "{text}");
        }
        let unit = "postgresql/0".parse::<Need>().expect_err("is no need").to_string();
        assert!(unit.ends_with("is needed as a whole: postgresql"), "{unit}");
        for text in ["dns=", "dns=green", "dns=active,", "dns=unspecified"] {
            let refused = text.parse::<Need>().expect_err("is no need").to_string();
            assert!(refused.contains("has no level"), "{text}");
        }
    }
}
