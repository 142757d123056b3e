//! One table: its rows, found by code and by text.

use std::collections::BTreeMap;

use crate::domain::classify::format::read_table;
use crate::domain::classify::grams::{Grams, Needle};
use crate::domain::classify::rule::{Examined, Rule};
use crate::domain::classify::spelling::{plain, words};
use crate::domain::classify::written::Head;

/// A table: the rows of one system.
#[derive(Debug)]
pub struct CodeTable {
    /// What the table is about.
    pub head: Head,
    /// The rows; the first that matches decides.
    pub rows: Vec<Rule>,
    /// The rows of each code, without case and marks.
    by_code: BTreeMap<Box<str>, Vec<usize>>,
    /// The rows of ranges of numbers: `3000..3999`.
    ranges: Vec<(u32, u32, usize)>,
    /// The rows of codes with stars, `*NotFound*`: the parts between the stars, without marks.
    patterns: Vec<(Pattern, usize)>,
    /// The rows without a code.
    by_text: Vec<usize>,
}

/// A code with stars, each of which stands for any characters.
#[derive(Debug)]
struct Pattern {
    first: Box<str>,
    last: Box<str>,
    needle: Option<Needle>,
}

impl Pattern {
    fn of(code: &str) -> Option<Pattern> {
        let (first, last) = code.split_once('*')?;
        let (first, last) = (plain(first), plain_with_star(last));
        let needle = Needle::of(&format!("{first}*{last}"), '*');
        Some(Pattern { first: first.into(), last: last.into(), needle })
    }

    /// Returns whether a code without marks has the parts: `NAME*`, `*NAME` or `*NAME*`.
    fn fits(&self, code: &str) -> bool {
        code.strip_prefix(&*self.first).is_some_and(|rest| match self.last.strip_suffix('*') {
            Some(part) => rest.contains(part),
            None => rest.ends_with(&*self.last),
        })
    }
}

fn plain_with_star(last: &str) -> String {
    match last.strip_suffix('*') {
        Some(part) => format!("{}*", plain(part)),
        None => plain(last).into_owned(),
    }
}

impl CodeTable {
    /// Reads a table. The error has all mistakes.
    pub(in crate::domain) fn read(text: &str) -> Result<CodeTable, String> {
        let (head, rows) = read_table(text)?;
        let mut by_code: BTreeMap<Box<str>, Vec<usize>> = BTreeMap::new();
        let (mut ranges, mut patterns) = (Vec::new(), Vec::new());
        for (n, row) in rows.iter().enumerate() {
            for code in &row.codes {
                match (range(code), Pattern::of(code)) {
                    (Some((first, last)), _) => ranges.push((first, last, n)),
                    (None, Some(pattern)) => patterns.push((pattern, n)),
                    (None, None) => by_code.entry(plain(code).into()).or_default().push(n),
                }
            }
        }
        let by_text = (0..rows.len()).filter(|n| rows[*n].codes.is_empty()).collect();
        let table = CodeTable { head, rows, by_code, ranges, patterns, by_text };
        match table.unreached() {
            Some(name) => Err(format!("row {name} is never reached")),
            None => Ok(table),
        }
    }

    /// Returns the name of a row that an earlier row without conditions hides, or that has a code
    /// twice.
    fn unreached(&self) -> Option<&str> {
        let is_open = |row: &Rule| {
            row.when.is_none()
                && row.origin.is_none()
                && row.outcome.is_none()
                && row.domain.is_none()
                && row.reasons.is_empty()
                && row.messages.is_empty()
        };
        let hidden = self.by_code.values().find_map(|found| {
            let before = found.split_last()?.1;
            before.iter().position(|n| is_open(&self.rows[*n])).map(|at| found[at + 1])
        });
        hidden.map(|n| &*self.rows[n].name)
    }

    /// Returns whether this is the table of a system.
    pub(in crate::domain) fn is_of(&self, system: &str) -> bool {
        *self.head.system == *system || has(&self.head.aliases, system)
    }

    /// Returns whether the reasons of a domain are codes of this table.
    pub(in crate::domain) fn has_reasons_of(&self, domain: &str) -> bool {
        let domains = &self.head.domains;
        !domains.is_empty() && (domain.is_empty() || has(domains, domain))
    }

    /// Returns whether the texts of another system are examined here.
    pub(in crate::domain) fn explains_texts_of(&self, system: &str) -> bool {
        has(&self.head.texts_of, system)
    }

    /// Returns whether the exceptions of a package have codes of this table.
    pub(in crate::domain) fn is_of_package(&self, package: &str) -> bool {
        has(&self.head.packages, package)
    }

    /// Returns whether a row has the code.
    pub(in crate::domain) fn has(&self, code: &str) -> bool {
        !self.rows_of(code).is_empty() || words(code).any(|word| !self.rows_of(word).is_empty())
    }

    /// Returns the row of a code in any spelling: alone, or as a word of a text.
    pub(in crate::domain) fn find(&self, code: &str, asked: &Examined<'_>) -> Option<&Rule> {
        let own = self.rows_of(code);
        if !own.is_empty() {
            return self.first(&own, asked);
        }
        let mut of_words = words(code).map(|word| self.rows_of(word));
        self.first(&of_words.find(|rows| !rows.is_empty())?, asked)
    }

    /// Returns the row of a code alone, in any case.
    pub(in crate::domain) fn by_code(&self, code: &str, asked: &Examined<'_>) -> Option<&Rule> {
        self.first(&self.rows_of(code), asked)
    }

    /// Returns the row that names a code, without ranges and patterns.
    pub(in crate::domain) fn by_name(&self, code: &str, asked: &Examined<'_>) -> Option<&Rule> {
        self.first(self.by_code.get(&*plain(code))?, asked)
    }

    /// Returns the row of a text.
    pub(in crate::domain) fn by_text(&self, asked: &Examined<'_>) -> Option<&Rule> {
        self.first(&self.by_text, asked)
    }

    fn first(&self, rows: &[usize], asked: &Examined<'_>) -> Option<&Rule> {
        rows.iter().map(|n| &self.rows[*n]).find(|row| row.applies(asked))
    }

    /// Returns the rows of a code: those that name it, else those of a range or of a pattern.
    fn rows_of(&self, code: &str) -> Vec<usize> {
        let plain = plain(code);
        match self.by_code.get(&*plain) {
            Some(rows) => rows.clone(),
            None if plain.is_empty() => Vec::new(),
            None => self.in_ranges(code).chain(self.by_pattern(&plain)).collect(),
        }
    }

    fn in_ranges(&self, code: &str) -> impl Iterator<Item = usize> {
        let number = if self.ranges.is_empty() { None } else { code.parse::<u32>().ok() };
        let has = move |(first, last, _): &&(u32, u32, usize)| {
            number.is_some_and(|number| (*first..=*last).contains(&number))
        };
        self.ranges.iter().filter(has).map(|(.., n)| *n)
    }

    fn by_pattern(&self, plain: &str) -> impl Iterator<Item = usize> {
        let grams = (!self.patterns.is_empty()).then(|| Grams::of(plain));
        let may_fit = move |pattern: &Pattern| {
            let needle = grams.as_ref().zip(pattern.needle.as_ref());
            needle.is_none_or(|(grams, needle)| grams.may_have(needle))
        };
        let fit = self.patterns.iter().filter(move |(one, _)| may_fit(one) && one.fits(plain));
        fit.map(|(_, n)| *n)
    }
}

fn has(names: &[Box<str>], name: &str) -> bool {
    names.iter().any(|known| **known == *name)
}

/// Returns the bounds of a code that is a range.
fn range(code: &str) -> Option<(u32, u32)> {
    let (first, last) = code.split_once("..")?;
    Some((first.parse().ok()?, last.parse().ok()?))
}
