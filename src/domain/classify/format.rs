//! The format of rules: TOML, one for the tables of this server and for the file of an operator,
//! read and checked as a whole, with the line of every mistake.
//!
//! ```toml
//! [[gone]]                        # if the owner of a target sends this pair, the target is gone
//! domain = "compute.example"
//! reason = "NO_SUCH_INSTANCE"
//!
//! [[rule]]                        # tried in this order, before the tables
//! name = "vendor-is-busy"
//! system = "http"
//! code = "409"                    # or a list: one of them, in any spelling
//! message = "index is rebuilding" # a part of the message, in either case; or a list
//! class = "BLOCKED"
//! holds = false                   # shown, and tried again: the component is not held
//! remedy = "wait for the index"
//! source = "manual of the vendor, 7.2"
//! ```
//!
//! A table also has a head, which names its system and what else uses its rows, see [`Head`].

use serde::Deserialize;
use toml::Spanned;

use crate::domain::classify::check::Check;
use crate::domain::classify::own::Rules;
use crate::domain::classify::rule::Rule;
use crate::domain::classify::written::{Head, Written, WrittenGone};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct OwnFile {
    rule: Vec<Spanned<Written>>,
    gone: Vec<Spanned<WrittenGone>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableFile {
    table: Head,
    #[serde(default)]
    rule: Vec<Spanned<Written>>,
}

/// Reads the file of an operator. The error has all mistakes.
pub fn read_own(text: &str) -> Result<Rules, String> {
    let file: OwnFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut check = Check::new(text);
    let rules = check.own(&file.gone, &file.rule);
    check.finish().map(|()| rules)
}

/// Reads a table of this server. The error has all mistakes.
pub(in crate::domain) fn read_table(text: &str) -> Result<(Head, Vec<Rule>), String> {
    let TableFile { table, rule } = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut check = Check::new(text);
    let rules = check.table(&table, &rule);
    check.finish().map(|()| (table, rules))
}
