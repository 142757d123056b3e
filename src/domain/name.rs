//! Names: checked once, trusted after.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::limits::NAME_BYTES_MAX;

/// Why a text is no name. The message says what a name looks like.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing where a name is required.
    #[error("is empty; a name is required")]
    Empty,
    /// Longer than [`NAME_BYTES_MAX`].
    #[error("is {bytes} bytes long; a name has at most {NAME_BYTES_MAX}")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// A character that names do not have.
    #[error("has {found:?} at byte {at}; a name starts with a letter or digit, then {allowed}")]
    Character {
        /// The first character that does not belong.
        found: char,
        /// Where it stands.
        at: usize,
        /// What may stand there.
        allowed: &'static str,
    },
}

/// An application, within its namespace.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AppName {
    namespace: Arc<str>,
    application: Arc<str>,
}

impl AppName {
    /// Checks both parts; an empty namespace is `default`. The error says which part it is about.
    pub fn new(namespace: &str, application: &str) -> Result<AppName, (&'static str, NameError)> {
        Ok(AppName {
            namespace: namespace_name(namespace).map_err(|e| ("namespace", e))?,
            application: check(application, Slash::Refused).map_err(|e| ("application", e))?,
        })
    }

    /// The tenancy; Juju's model.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The name within the namespace.
    pub fn application(&self) -> &str {
        &self.application
    }
}

/// Checks the name of a namespace; empty is `default`.
pub fn namespace_name(text: &str) -> Result<Arc<str>, NameError> {
    match text {
        "" => Ok(Arc::from("default")),
        text => check(text, Slash::Refused),
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.application)
    }
}

impl fmt::Debug for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A unit within its application, in natural order: `web/2` before `web/10`, `""` (the application
/// itself) first.
#[derive(Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct UnitName(Arc<str>);

impl UnitName {
    /// Checks a name that must not be empty.
    pub fn new(text: &str) -> Result<UnitName, NameError> {
        check(text, Slash::Allowed).map(UnitName)
    }

    /// The application itself, where a unit is expected.
    pub fn application() -> UnitName {
        UnitName::default()
    }

    /// Whether this stands for the application itself.
    pub fn is_application(&self) -> bool {
        self.0.is_empty()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Ord for UnitName {
    fn cmp(&self, other: &UnitName) -> Ordering {
        // Mostly they are the same name, and often the same text in memory.
        if Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0 {
            return Ordering::Equal;
        }
        natural_order(&self.0, &other.0)
    }
}

impl PartialOrd for UnitName {
    fn partial_cmp(&self, other: &UnitName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for UnitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// A component of a unit, or a key of a component, in order of bytes. May be empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PartName(Arc<str>);

impl PartName {
    /// Checks a name that may be empty.
    pub fn new(text: &str) -> Result<PartName, NameError> {
        match text {
            "" => Ok(PartName::default()),
            text => check(text, Slash::Allowed).map(PartName),
        }
    }

    /// The component of the application itself under which its operations are shown.
    pub fn operation() -> PartName {
        PartName(Arc::from("operation"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for PartName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

/// An operation of an application, named by who began it; in order of bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationId(Arc<str>);

impl OperationId {
    /// Checks a name that must not be empty.
    pub fn new(text: &str) -> Result<OperationId, NameError> {
        check(text, Slash::Allowed).map(OperationId)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Where it stands among the keys of a component.
    pub fn as_key(&self) -> PartName {
        PartName(self.0.clone())
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Slash {
    Allowed,
    Refused,
}

fn check(text: &str, slash: Slash) -> Result<Arc<str>, NameError> {
    if text.is_empty() {
        return Err(NameError::Empty);
    }
    if NAME_BYTES_MAX < text.len() {
        return Err(NameError::TooLong { bytes: text.len() });
    }
    let belongs = |at: usize, c: char| {
        c.is_ascii_alphanumeric()
            || 0 < at && (matches!(c, '.' | '_' | '-') || c == '/' && slash == Slash::Allowed)
    };
    match text.char_indices().find(|(at, c)| !belongs(*at, *c)) {
        None => Ok(Arc::from(text)),
        Some((at, found)) => Err(NameError::Character {
            found,
            at,
            allowed: match slash {
                Slash::Allowed => "letters, digits, and . _ / -",
                Slash::Refused => "letters, digits, and . _ -",
            },
        }),
    }
}

/// Compares runs of digits as numbers and the rest by bytes. Total: equal only if the texts are.
pub fn natural_order(a: &str, b: &str) -> Ordering {
    let (x, y) = (a.as_bytes(), b.as_bytes());
    // Names of one application differ in their last digits: what they share is skipped, back to
    // where a number begins.
    let shared = shared(x, y);
    if shared == x.len() || shared == y.len() {
        // One begins with the other, or they are the same.
        return x.len().cmp(&y.len());
    }
    let digits = x[..shared].iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let start = shared - digits;
    // `01` and `1` are the same number: the bytes decide, so that the order stays total.
    natural_order_of_rest(&x[start..], &y[start..]).then_with(|| a.cmp(b))
}

/// How many bytes both begin with.
fn shared(x: &[u8], y: &[u8]) -> usize {
    const WORD: usize = size_of::<u64>();
    let words = x.chunks_exact(WORD).zip(y.chunks_exact(WORD));
    let whole = WORD * words.take_while(|(x, y)| x == y).count();
    let rest = x[whole..].iter().zip(&y[whole..]);
    whole + rest.take_while(|(x, y)| x == y).count()
}

fn natural_order_of_rest(mut x: &[u8], mut y: &[u8]) -> Ordering {
    while let (Some(&first), Some(&second)) = (x.first(), y.first()) {
        let ordering = if first.is_ascii_digit() && second.is_ascii_digit() {
            let (number, rest) = split_number(x);
            let (other, other_rest) = split_number(y);
            (x, y) = (rest, other_rest);
            number.len().cmp(&other.len()).then(number.cmp(other))
        } else {
            (x, y) = (&x[1..], &y[1..]);
            first.cmp(&second)
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    x.len().cmp(&y.len())
}

/// The digits at the start without leading zeros, and what follows them.
fn split_number(text: &[u8]) -> (&[u8], &[u8]) {
    let (mut zeros, mut digits) = (0, 0);
    while digits < text.len() && text[digits].is_ascii_digit() {
        if zeros == digits && text[digits] == b'0' {
            zeros += 1;
        }
        digits += 1;
    }
    (&text[zeros..digits], &text[digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn natural_order_compares_numbers() {
        for (a, b) in [
            ("", "app/0"),
            ("app/2", "app/10"),
            ("web-2-9", "web-2-10"),
            ("web-2-10", "web-10-1"),
            ("a1", "a01"),
            ("a01b", "a1c"),
            ("web/19", "web/110"),
            ("web/109", "web/110"),
            ("a", "b"),
            ("a/1", "a/1/x"),
        ] {
            let expected = if (a, b) == ("a1", "a01") { Ordering::Greater } else { Ordering::Less };
            assert_eq!(natural_order(a, b), expected, "{a} {b}");
            assert_eq!(natural_order(b, a), expected.reverse(), "{b} {a}");
        }
    }

    #[test]
    fn names_are_checked() {
        assert!(UnitName::new("web/0").is_ok());
        assert_eq!(UnitName::new(""), Err(NameError::Empty));
        assert_eq!(UnitName::new(&"x".repeat(254)), Err(NameError::TooLong { bytes: 254 }));
        assert!(UnitName::new(&"x".repeat(253)).is_ok());
        assert!(matches!(UnitName::new("-web"), Err(NameError::Character { at: 0, .. })));
        assert!(matches!(
            AppName::new("a/b", "web"),
            Err(("namespace", NameError::Character { at: 1, .. }))
        ));
        assert!(matches!(AppName::new("", ""), Err(("application", NameError::Empty))));
        assert_eq!(AppName::new("", "web").unwrap().namespace(), "default");
        assert!(PartName::new("").is_ok());
        assert!(PartName::new("é").is_err());
    }
}
