//! Rules as they are written, before the check.

use serde::Deserialize;
use toml::Spanned;

/// A text or a list of texts.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(in crate::domain) enum Texts {
    /// One.
    One(String),
    /// Several, of which one has to match.
    Any(Vec<String>),
}

impl Texts {
    /// Returns the texts.
    pub(in crate::domain) fn all(&self) -> &[String] {
        match self {
            Texts::One(text) => std::slice::from_ref(text),
            Texts::Any(texts) => texts,
        }
    }
}

/// A rule as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::domain) struct Written {
    pub name: Spanned<String>,
    pub system: Option<Spanned<String>>,
    pub code: Option<Spanned<Texts>>,
    pub origin: Option<Spanned<String>>,
    pub outcome: Option<Spanned<String>>,
    pub domain: Option<String>,
    pub reason: Option<Spanned<Texts>>,
    pub message: Option<Spanned<Texts>>,
    pub when: Option<Spanned<String>>,
    pub class: Spanned<String>,
    pub holds: Option<Spanned<bool>>,
    #[serde(default)]
    pub explanation: String,
    pub remedy: Option<Spanned<String>>,
    pub source: Option<String>,
}

/// A registered pair as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::domain) struct WrittenGone {
    pub domain: Spanned<String>,
    pub reason: Spanned<String>,
}

/// The head of a table.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Head {
    /// The system.
    pub system: Box<str>,
    /// What the codes are, for people.
    pub about: Box<str>,
    /// What a code looks like, if the codes are a closed set; empty if any text can be one.
    pub codes: Box<str>,
    /// Other names of the system.
    pub aliases: Vec<Box<str>>,
    /// Domains whose reasons are codes of this table. A reason without a domain is one as well.
    pub domains: Vec<Box<str>>,
    /// Packages of Python whose exceptions have a code of this table.
    pub packages: Vec<Box<str>>,
    /// Systems whose messages the rows without a code examine as well.
    pub texts_of: Vec<Box<str>>,
    /// The source of the rows that name none.
    pub source: Box<str>,
}
