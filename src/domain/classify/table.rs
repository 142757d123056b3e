//! The tables of this server, and the choice of a row for an error.
//!
//! ```text
//!  reason --> table of its domain --> else the table of the system --> else the status in the code
//!             (the service's code)    (rows in the order of the file)   (of an exception)
//! ```

use std::sync::LazyLock;

use crate::domain::classify::finding::{Class, DEFAULT, Evidence, Match};
use crate::domain::classify::index::CodeTable;
use crate::domain::classify::rule::{Examined, Rule};
use crate::domain::classify::spelling::{detail, ends_with_status, is_status, short_name};

/// The files of the tables, in the order in which a reason without a domain is looked up.
const FILES: [(&str, &str); 18] = [
    ("grpc", include_str!("tables/grpc.toml")),
    ("http", include_str!("tables/http.toml")),
    ("redis", include_str!("tables/redis.toml")),
    ("postgresql", include_str!("tables/postgresql.toml")),
    ("mysql", include_str!("tables/mysql.toml")),
    ("aws", include_str!("tables/aws.toml")),
    ("kubernetes", include_str!("tables/kubernetes.toml")),
    ("acme", include_str!("tables/acme.toml")),
    ("etcd", include_str!("tables/etcd.toml")),
    ("helm", include_str!("tables/helm.toml")),
    ("io", include_str!("tables/io.toml")),
    ("systemd", include_str!("tables/systemd.toml")),
    ("plugin", include_str!("tables/plugin.toml")),
    ("exit", include_str!("tables/exit.toml")),
    ("go", include_str!("tables/go.toml")),
    ("rust", include_str!("tables/rust.toml")),
    ("node", include_str!("tables/node.toml")),
    ("python", include_str!("tables/python.toml")),
];

/// The tables. They are part of the program: `build.rs` and a test check them.
static TABLES: LazyLock<Vec<CodeTable>> = LazyLock::new(|| {
    FILES.into_iter().filter_map(|(_, text)| CodeTable::read(text).ok()).collect()
});

/// Returns the mistakes of the tables.
pub fn mistakes() -> Vec<String> {
    let read = FILES.into_iter().map(|(name, text)| match CodeTable::read(text) {
        Ok(table) if *table.head.system == *name => Ok(()),
        Ok(_) => Err(format!("tables/{name}.toml: the head names another system")),
        Err(error) => Err(format!("tables/{name}.toml: {error}")),
    });
    read.filter_map(Result::err).collect()
}

/// Returns the tables.
pub fn tables() -> &'static [CodeTable] {
    &TABLES
}

/// Returns the table of a system.
pub fn table_of(system: &str) -> Option<&'static CodeTable> {
    TABLES.iter().find(|table| table.is_of(system))
}

/// Returns the match of an error whose code no rule and no table has. A text that cannot be a code
/// of its system is named.
pub(in crate::domain) fn in_no_table(asked: &Examined<'_>) -> Match<'static> {
    let why = match advice(asked.evidence) {
        Some(advice) => format!("{advice}; an error without a row is never final").into(),
        None => "no table has the code, so the error is never final".into(),
    };
    Match::own(Class::Unclassified, DEFAULT, why)
}

/// Returns what a code of the system looks like, if the given one cannot be one.
pub fn advice(evidence: &Evidence) -> Option<String> {
    let (system, code) = (&*evidence.system, &*evidence.code);
    let table = table_of(system)?;
    let can_be = table.head.codes.is_empty() || table.has(code);
    let is_known = system != "http" || !is_status(code);
    let shown: String = code.chars().take(40).collect();
    (!can_be && is_known)
        .then(|| format!("{shown:?} is no code of {system}: give {}", table.head.codes))
}

/// Returns the match from the tables, if there is one.
pub(in crate::domain) fn find(asked: &Examined<'_>) -> Option<Match<'static>> {
    let evidence = asked.evidence;
    let system = &*evidence.system;
    let own = by_reason(asked).or_else(|| match system {
        "python" => of_exception(asked),
        system => in_table(system, &evidence.code, asked),
    });
    let own = own.map(Rule::found);
    let is_http =
        system == "http" || own.as_ref().is_some_and(|found| found.rule.starts_with("http."));
    if is_http { Some(throttled(own.unwrap_or_else(|| in_no_table(asked)), asked)) } else { own }
}

/// The code of the service, if it is known, says more than the code of the protocol. A registered
/// pair says most. Without its domain, a reason is known by its whole name alone.
fn by_reason(asked: &Examined<'_>) -> Option<&'static Rule> {
    let (domain, reason) = (&*asked.evidence.domain, &*asked.evidence.reason);
    if reason.is_empty() || asked.is_gone {
        return None;
    }
    let mut tables = TABLES.iter().filter(|table| table.has_reasons_of(domain));
    tables.find_map(|table| match domain {
        "" => table.by_name(reason, asked),
        _ => table.by_code(reason, asked),
    })
}

/// Returns the row of a table for a text and a code.
fn in_table(system: &str, code: &str, asked: &Examined<'_>) -> Option<&'static Rule> {
    let own = table_of(system)?;
    let mut shared = TABLES.iter().filter(|table| table.explains_texts_of(system));
    let by_text = own.by_text(asked).or_else(|| shared.find_map(|table| table.by_text(asked)));
    by_text.or_else(|| own.find(code, asked))
}

/// Returns the row for an exception of Python: `package.Class`, or with a detail
/// `package.Class/DETAIL`, which is a status, a kind, or the code of a database.
fn of_exception(asked: &Examined<'_>) -> Option<&'static Rule> {
    let code = &*asked.evidence.code;
    let (name, given) = code.split_once('/').unwrap_or((code, ""));
    let name = short_name(name);
    let (package, class) = name.split_once('.').unwrap_or(("", &name));
    let python = table_of("python")?;
    let service = TABLES.iter().find(|table| table.is_of_package(package));
    let with_detail = || {
        let row = format!("{name}/{}", detail(&name, given));
        let own = python.by_code(&row, asked);
        let own = own.or_else(|| service?.by_code(given, asked));
        let is_http = is_status(given) && !ends_with_status(&name) && package != "pebble";
        own.or_else(|| in_table("http", given, asked).filter(|_| is_http))
    };
    let by_detail = if given.is_empty() { None } else { with_detail() };
    by_detail
        .or_else(|| service?.by_text(asked))
        .or_else(|| python.by_code(&name, asked))
        .or_else(|| service?.by_code(class, asked))
}

/// A peer that requests a delay is alive: an error that would be retried anyway is throttled.
fn throttled(found: Match<'static>, asked: &Examined<'_>) -> Match<'static> {
    if asked.evidence.retry_after.is_none() || !found.class.counts_as_attempt() {
        return found;
    }
    let why = "the target is alive and says when to retry";
    Match::own(Class::Throttled, "http.retry-after", why.into())
}
