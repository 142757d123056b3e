//! Names: validated once, valid by type afterwards.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;

use crate::domain::model::limits::NAME_BYTES_MAX;

/// The reason why a text is not a valid name. The message describes the valid form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty although a name is required.
    #[error("is empty; a name is required")]
    Empty,
    /// Longer than [`NAME_BYTES_MAX`].
    #[error("is {bytes} bytes long; a name has at most {NAME_BYTES_MAX}")]
    TooLong {
        /// The length in bytes.
        bytes: usize,
    },
    /// A character that is not allowed in names.
    #[error("has {found:?} at byte {at}; a name starts with a letter or digit, then {allowed}")]
    Character {
        /// The first invalid character.
        found: char,
        /// Its byte position.
        at: usize,
        /// The characters allowed at that position.
        allowed: &'static str,
    },
}

/// The name of an application, within its namespace.
///
/// Both parts are one text: every replica keeps the names of all applications, several times each.
/// `SEPARATOR` precedes every character of a name, so names are in the order of their parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AppName(Arc<str>);

/// Between the parts of an [`AppName`].
const SEPARATOR: char = '\0';

/// The stored form of a name.
#[derive(Serialize, Deserialize)]
#[serde(rename = "AppName")]
struct AppParts<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    application: Cow<'a, str>,
}

impl AppName {
    /// Validates both parts; an empty namespace is `default`. The error names the invalid part.
    pub fn new(namespace: &str, application: &str) -> Result<AppName, (&'static str, NameError)> {
        let namespace = checked_namespace(namespace).map_err(|e| ("namespace", e))?;
        let application: &str =
            check(application, Slash::Refused).map_err(|e| ("application", e))?;
        Ok(AppName(format!("{namespace}{SEPARATOR}{application}").into()))
    }

    /// Returns the namespace: the tenant, or the Juju model.
    pub fn namespace(&self) -> &str {
        self.parts().0
    }

    /// Returns the name within the namespace.
    pub fn application(&self) -> &str {
        self.parts().1
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once(SEPARATOR).unwrap_or_default()
    }
}

impl Serialize for AppName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (namespace, application) = self.parts();
        AppParts { namespace: namespace.into(), application: application.into() }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AppName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AppName, D::Error> {
        let AppParts { namespace, application } = AppParts::deserialize(deserializer)?;
        let name = AppName::new(&namespace, &application);
        name.map_err(|(part, error)| serde::de::Error::custom(format!("{part} {error}")))
    }
}

/// Validates the name of a namespace; empty is `default`.
pub fn namespace_name(text: &str) -> Result<Arc<str>, NameError> {
    checked_namespace(text).map(Arc::from)
}

fn checked_namespace(text: &str) -> Result<&str, NameError> {
    match text {
        "" => Ok("default"),
        text => check(text, Slash::Refused),
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, application) = self.parts();
        f.write_str(namespace)?;
        f.write_str("/")?;
        f.write_str(application)
    }
}

impl fmt::Debug for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The name of a unit within its application, in natural order: `web/2` before `web/10`, `""` (the
/// application itself) first.
///
/// Names are compared far more often than created, so each stores a sort key beside its text,
/// computed once: a comparison then only compares bytes.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct UnitName {
    /// The sort key, followed by the text. Without a number both are equal and stored once.
    both: Arc<str>,
    /// Start of the text; 0 if it equals the sort key.
    text_at: u16,
}

impl UnitName {
    /// Validates a name that must not be empty.
    pub fn new(text: &str) -> Result<UnitName, NameError> {
        check(text, Slash::Allowed).map(UnitName::of)
    }

    /// Returns the name of the application itself, for places that expect a unit.
    pub fn application() -> UnitName {
        UnitName::default()
    }

    fn of(text: &str) -> UnitName {
        let order = order_of(text);
        match u16::try_from(order.len()) {
            Ok(text_at) if order != text => UnitName { both: Arc::from(order + text), text_at },
            _ => UnitName { both: Arc::from(text), text_at: 0 },
        }
    }

    /// Returns whether this is the name of the application itself.
    pub fn is_application(&self) -> bool {
        self.both.is_empty()
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.both[usize::from(self.text_at)..]
    }

    fn order(&self) -> &[u8] {
        match usize::from(self.text_at) {
            0 => self.both.as_bytes(),
            text_at => &self.both.as_bytes()[..text_at],
        }
    }
}

impl Ord for UnitName {
    fn cmp(&self, other: &UnitName) -> Ordering {
        if Arc::ptr_eq(&self.both, &other.both) {
            return Ordering::Equal;
        }
        // `01` and `1` are the same number: the text decides, so that the order stays total.
        self.order().cmp(other.order()).then_with(|| self.as_str().cmp(other.as_str()))
    }
}

/// Returns a sort key whose byte order is the natural order of the text: before each number it has
/// the count of its digits, without leading zeros, in two characters, after a `0` that keeps the
/// number in the place of a digit among other characters.
fn order_of(text: &str) -> String {
    let mut order = String::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        let digits = number[..end].trim_start_matches('0');
        order.push_str(before);
        order.push('0');
        // At most 253 digits: both characters are ASCII.
        order.extend([digits.len() / 64, digits.len() % 64].map(|n| char::from(b'0' + n as u8)));
        order.push_str(digits);
        rest = &number[end..];
    }
    order.push_str(rest);
    order
}

impl Serialize for UnitName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for UnitName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<UnitName, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        match text.len() {
            ..=NAME_BYTES_MAX => Ok(UnitName::of(&text)),
            bytes => Err(serde::de::Error::custom(NameError::TooLong { bytes })),
        }
    }
}

impl PartialOrd for UnitName {
    fn partial_cmp(&self, other: &UnitName) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The name of a component of a unit, or of a key of a component, in byte order. May be empty. A
/// short name is stored inline: keys are compared far more often than created.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct PartName(SmolStr);

impl PartName {
    /// Validates a name that may be empty.
    pub fn new(text: &str) -> Result<PartName, NameError> {
        match text {
            "" => Ok(PartName::default()),
            text => check(text, Slash::Allowed).map(PartName),
        }
    }

    /// Returns the component of the application under which its operations are shown.
    pub fn operation() -> PartName {
        PartName(SmolStr::new_static("operation"))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of an operation, given by the client that begins it; in byte order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OperationId(Arc<str>);

impl OperationId {
    /// Validates a name that must not be empty.
    pub fn new(text: &str) -> Result<OperationId, NameError> {
        check(text, Slash::Allowed).map(OperationId)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name as a key of a component.
    pub fn as_key(&self) -> PartName {
        PartName(SmolStr::new(&*self.0))
    }
}

/// Shows names as their text, which `Debug` quotes.
macro_rules! show_text {
    ($($name:ident)+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }
    )+};
}

show_text!(UnitName PartName OperationId);

#[derive(Clone, Copy, PartialEq)]
enum Slash {
    Allowed,
    Refused,
}

/// Validates a text and returns it in the type that the caller stores.
fn check<'t, T: From<&'t str>>(text: &'t str, slash: Slash) -> Result<T, NameError> {
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
        None => Ok(T::from(text)),
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

/// No application of this name was reported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("application is not known")]
pub struct ApplicationNotFound;

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference order: compares runs of digits as numbers, and the rest by bytes.
    fn natural_order(a: &str, b: &str) -> Ordering {
        natural_order_of_rest(a.as_bytes(), b.as_bytes()).then_with(|| a.cmp(b))
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

    /// Returns the digits at the start without leading zeros, and the rest.
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
            assert_eq!(UnitName::of(a).cmp(&UnitName::of(b)), expected, "{a} {b}");
            assert_eq!(UnitName::of(b).cmp(&UnitName::of(a)), expected.reverse(), "{b} {a}");
        }
    }

    proptest::proptest! {
        #[test]
        fn bytes_decide_as_numbers_would(
            a in "[a-b0-2./_-]{0,9}",
            b in "[a-b0-2./_-]{0,9}",
            digits in 0..=NAME_BYTES_MAX,
        ) {
            let (one, other) = (UnitName::of(&a), UnitName::of(&b));
            proptest::prop_assert_eq!(one.cmp(&other), natural_order(&a, &b));
            proptest::prop_assert_eq!(one.as_str(), &a);
            let (long, longer) = ("9".repeat(digits), format!("1{}", "0".repeat(digits)));
            proptest::prop_assert!(UnitName::of(&long) < UnitName::of(&longer));
        }
    }

    proptest::proptest! {
        #[test]
        fn applications_are_in_the_order_of_their_parts(
            a in ("[a-b0_.-]{1,3}", "[a-b0_.-]{1,3}"),
            b in ("[a-b0_.-]{1,3}", "[a-b0_.-]{1,3}"),
        ) {
            let of = |(namespace, name): &(String, String)| AppName::new(namespace, name).ok();
            if let (Some(one), Some(other)) = (of(&a), of(&b)) {
                proptest::prop_assert_eq!(one.cmp(&other), a.cmp(&b));
                proptest::prop_assert_eq!((one.namespace(), one.application()), (&*a.0, &*a.1));
                let stored = rmp_serde::to_vec(&one).unwrap();
                proptest::prop_assert_eq!(&stored, &rmp_serde::to_vec(&a).unwrap());
                proptest::prop_assert_eq!(rmp_serde::from_slice::<AppName>(&stored).unwrap(), one);
            }
        }
    }

    #[test]
    fn a_stored_name_with_a_slash_is_refused() {
        let stored = rmp_serde::to_vec(&("prod", "web/0")).unwrap();
        assert!(rmp_serde::from_slice::<AppName>(&stored).is_err());
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
