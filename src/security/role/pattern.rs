//! Patterns of names: a name, `*` for every name, or `*` at the end for the rest of one segment.

use std::collections::BTreeMap;

/// A pattern of names. Upper and lower case differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    /// `*`: every name.
    Any,
    /// This name alone.
    Exact(String),
    /// Names with this start, and no `/` after it.
    Prefix(String),
}

impl Pattern {
    /// Returns whether a name fits.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Pattern::Any => true,
            Pattern::Exact(own) => own == name,
            Pattern::Prefix(start) => {
                name.strip_prefix(start.as_str()).is_some_and(|rest| !rest.contains('/'))
            }
        }
    }
}

/// A pattern as the file has it: it may name a fact of the principal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Template {
    /// The same for every principal.
    Fixed(Pattern),
    /// `${unit}`: the fact of the principal, exactly.
    Fact(&'static str),
}

/// The facts that a pattern may name.
const FACTS: [&str; 4] = ["namespace", "application", "unit", "pod"];

impl Template {
    /// Reads a pattern.
    pub(super) fn read(text: &str) -> Result<Template, String> {
        if let Some(name) = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
            let fact = FACTS.into_iter().find(|fact| *fact == name);
            let fact = fact.ok_or_else(|| format!("{text} is no fact; facts are {FACTS:?}"))?;
            return Ok(Template::Fact(fact));
        }
        let start = text.strip_suffix('*');
        if text.is_empty() {
            return Err("the empty pattern matches nothing; write * for every name".to_string());
        }
        let has_mark = start.unwrap_or(text).contains(['*', '$', '{', '}']);
        if has_mark || text.chars().any(|c| c.is_control() || c == ' ') {
            return Err(format!("{text:?} is no pattern; `*` stands alone or at the end"));
        }
        Ok(Template::Fixed(match start {
            Some("") => Pattern::Any,
            Some(start) => Pattern::Prefix(start.to_string()),
            None => Pattern::Exact(text.to_string()),
        }))
    }

    /// Fills in the fact of a principal. `None` if the principal has no such fact.
    pub(super) fn fill(&self, facts: &BTreeMap<&'static str, String>) -> Option<Pattern> {
        match self {
            Template::Fixed(pattern) => Some(pattern.clone()),
            Template::Fact(name) => facts.get(name).cloned().map(Pattern::Exact),
        }
    }
}
