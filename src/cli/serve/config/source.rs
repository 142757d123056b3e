//! The source of the value of a setting: a flag, a variable, the file, or the default.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::ArgMatches;
use clap::parser::ValueSource;
use serde_json::Value;

/// The values given, by source.
pub struct Sources<'a> {
    matches: &'a ArgMatches,
    file: toml::Table,
    path: String,
}

impl Sources<'_> {
    /// Collects the values of these flags, and of the file that they name.
    ///
    /// # Errors
    /// If the file can no longer be read.
    pub fn of<'a>(matches: &'a ArgMatches, file: Option<&Path>) -> anyhow::Result<Sources<'a>> {
        let path = file.map_or_else(String::new, |path| path.display().to_string());
        let text = file.map_or_else(|| Ok(String::new()), fs::read_to_string);
        let text = text.with_context(|| format!("read {path}"))?;
        // A file that does not parse was refused before, with a message that shows no line of it.
        let file = text.parse().map_err(|_| anyhow::anyhow!("{path} is no longer valid TOML"))?;
        Ok(Sources { matches, file, path })
    }

    /// Names the source: `flag --data-dir`, `variable BELLWETHER_DATA_DIR`, `file bellwether.toml`,
    /// `default`.
    pub fn of_key(&self, section: &str, key: &str) -> String {
        let table = match section {
            "" => Some(&self.file),
            section => self.file.get(section).and_then(toml::Value::as_table),
        };
        match self.value_source(section, key) {
            Some(ValueSource::CommandLine) => format!("flag --{}", key.replace('_', "-")),
            Some(ValueSource::EnvVariable) => format!("variable BELLWETHER_{}", key.to_uppercase()),
            _ if table.is_some_and(|table| table.contains_key(key)) => {
                format!("file {}", self.path)
            }
            _ => "default".to_string(),
        }
    }

    /// Returns the value given for a setting that is also a flag.
    pub fn given(&self, key: &str) -> Option<Value> {
        let source = self.value_source("", key);
        if matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            let given = self.matches.get_raw(key)?;
            let given: Vec<_> = given.map(|one| one.to_string_lossy().into_owned()).collect();
            return Some(match given.as_slice() {
                [one] => one.parse().map_or_else(|_| one.as_str().into(), Value::Bool),
                several => several.into(),
            });
        }
        Some(match self.file.get(key)? {
            toml::Value::Array(given) => given.iter().filter_map(toml::Value::as_str).collect(),
            toml::Value::Boolean(given) => Value::Bool(*given),
            toml::Value::String(given) => Value::String(given.clone()),
            _ => return None,
        })
    }

    fn value_source(&self, section: &str, key: &str) -> Option<ValueSource> {
        let is_flag = section.is_empty() && self.matches.try_contains_id(key).is_ok();
        is_flag.then(|| self.matches.value_source(key)).flatten()
    }
}
