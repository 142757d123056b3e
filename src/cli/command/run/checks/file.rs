//! The file of checks:
//!
//! ```toml
//! [[check]]
//! unit = "web/0"
//! command = ["check_http", "-H", "www.example.org"]
//! every = "30s"            # else --every
//! component = "http"       # else the name of the plugin without check_
//! timeout = "10s"          # else --timeout
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use crate::cli::command::run::checks::definition::{Definition, PluginCheck};
use crate::cli::exit::UsageError;
use crate::cli::target::UnitTarget;
use crate::cli::{file, level, span};
use crate::proto::v1::Level;

/// A file of this many checks is read; more are an oversight.
const CHECKS_MAX: usize = 1_024;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckFile {
    #[serde(default)]
    check: Vec<Spanned<CheckEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckEntry {
    unit: String,
    application: Option<String>,
    component: Option<String>,
    command: Vec<String>,
    every: Option<String>,
    timeout: Option<String>,
    ttl: Option<String>,
    warning_as: Option<String>,
    critical_as: Option<String>,
    show_command: Option<bool>,
}

/// Reads a file; `given` has what an entry leaves out.
///
/// # Errors
/// If it cannot be read, or an entry is wrong: with its line.
pub fn read(path: &Path, given: &Definition) -> Result<Vec<PluginCheck>, UsageError> {
    let bytes = file::read(path)?;
    let text = String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_string());
    let checks = text.and_then(|text| parse(&text, given));
    checks.map_err(|error| UsageError(format!("{}: {}", path.display(), error.trim_end())))
}

fn parse(text: &str, given: &Definition) -> Result<Vec<PluginCheck>, String> {
    let file: CheckFile = toml::from_str(text).map_err(|error| error.to_string())?;
    if file.check.is_empty() {
        return Err("there is no table [[check]]".to_string());
    }
    if CHECKS_MAX < file.check.len() {
        let count = file.check.len();
        return Err(format!("{count} checks are more than {CHECKS_MAX}: divide the file"));
    }
    let mut lines: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut checks = Vec::with_capacity(file.check.len());
    for entry in file.check {
        let line = 1 + text[..entry.span().start].matches('\n').count();
        let check =
            entry.into_inner().check(given).map_err(|error| format!("line {line}: {error}"))?;
        let name = (check.unit.unit.clone(), check.component.clone());
        if let Some(first) = lines.insert(name, line) {
            let (unit, component) = (&check.unit.unit, &check.component);
            return Err(format!(
                "line {line}: component {component} of {unit} has a check in line {first} \
                 already: give this one another `component`"
            ));
        }
        checks.push(check);
    }
    Ok(checks)
}

impl CheckEntry {
    fn check(self, given: &Definition) -> Result<PluginCheck, String> {
        let unit = UnitTarget::parse(&self.unit, self.application.as_deref())
            .map_err(|error| error.to_string())?;
        let definition = Definition {
            every: span_of(self.every)?.or(given.every),
            timeout: span_of(self.timeout)?.unwrap_or(given.timeout),
            ttl: span_of(self.ttl)?.or(given.ttl),
            warning_as: level_of(self.warning_as)?.unwrap_or(given.warning_as),
            critical_as: level_of(self.critical_as)?.unwrap_or(given.critical_as),
            shows_command: self.show_command.unwrap_or(given.shows_command),
        };
        if definition.every.is_none() {
            return Err("the interval is missing: write every = \"30s\", or give --every".into());
        }
        definition.check(unit, self.component, self.command)
    }
}

fn span_of(text: Option<String>) -> Result<Option<Duration>, String> {
    text.as_deref().map(span::parse).transpose()
}

fn level_of(text: Option<String>) -> Result<Option<Level>, String> {
    let parsed = |text: String| {
        level::parse(&text).ok_or_else(|| format!("`{text}` is no level: write waiting or error"))
    };
    text.map(parsed).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: Definition = Definition {
        every: None,
        timeout: Duration::from_secs(10),
        ttl: None,
        warning_as: Level::Waiting,
        critical_as: Level::Error,
        shows_command: false,
    };

    #[test]
    fn an_entry_takes_what_it_leaves_out_from_the_command_line() {
        let text = "[[check]]\nunit = \"web/0\"\ncommand = [\"check_x\", \"-a\"]\n\
                    [[check]]\nunit = \"pod-7\"\napplication = \"web\"\ncommand = [\"check_y\"]\n\
                    component = \"z\"\nevery = \"5s\"\ntimeout = \"2s\"\nttl = \"1m\"\n\
                    warning_as = \"blocked\"\ncritical_as = \"Blocked\"\nshow_command = true\n";
        let every = Some(Duration::from_secs(30));
        let checks = parse(text, &Definition { every, ..GIVEN }).unwrap();
        let [first, second] = checks.as_slice() else { panic!("{checks:?}") };
        assert_eq!((first.component.as_str(), first.every), ("x", every));
        assert_eq!((first.timeout, first.shown.as_str()), (GIVEN.timeout, "check_x"));
        assert_eq!(first.command, ["check_x", "-a"]);
        assert_eq!((second.unit.unit.as_str(), second.component.as_str()), ("pod-7", "z"));
        assert_eq!(second.every, Some(Duration::from_secs(5)));
        assert_eq!(second.timeout, Duration::from_secs(2));
        assert_eq!(second.ttl, Some(Duration::from_secs(60)));
        assert_eq!((second.warning_as, second.critical_as), (Level::Blocked, Level::Blocked));
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        let entry = "[[check]]\nunit = \"web/0\"\nevery = \"9s\"\n";
        for (text, expected) in [
            (String::new(), "there is no table [[check]]"),
            (format!("{entry}comand = [\"x\"]\n"), "line 4"),
            (format!("{entry}comand = [\"x\"]\n"), "unknown field `comand`"),
            (format!("{entry}command = \"x -a\"\n"), "line 4"),
            (format!("{entry}command = []\n"), "line 1: the command is empty"),
            ("[[check]]\nunit = \"web\"\ncommand = [\"x\"]\n".into(), "line 1: `web` names no"),
            ("[[check]]\nunit = \"web/0\"\ncommand = [\"x\"]\n".into(), "interval is missing"),
            (format!("{entry}command = [\"x\"]\ntimeout = \"9\"\n"), "`9` is no span"),
            (format!("{entry}command = [\"x\"]\nwarning_as = \"no\"\n"), "`no` is no level"),
            (
                format!("{entry}command = [\"x\"]\n{entry}command = [\"x\"]\n"),
                "line 5: component x of web/0 has a check in line 1",
            ),
        ] {
            let error = parse(&text, &GIVEN).unwrap_err();
            assert!(error.contains(expected), "{expected:?} is not in: {error}");
        }
        let many: String = (0..=CHECKS_MAX)
            .map(|n| format!("{entry}command = [\"x\"]\ncomponent = \"c{n}\"\n"))
            .collect();
        assert!(parse(&many, &GIVEN).unwrap_err().contains("1025 checks are more than 1024"));
    }
}
