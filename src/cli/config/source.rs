//! Where the value of a setting comes from: a flag, a variable, the file, or nowhere.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use clap::ArgMatches;
use clap::parser::ValueSource;
use serde_json::Value;

/// What was given, and where.
pub struct Sources<'a> {
    matches: &'a ArgMatches,
    file: toml::Table,
    path: String,
}

impl Sources<'_> {
    /// Of these flags, and of the file that they name.
    ///
    /// # Errors
    /// If the file cannot be read any more.
    pub fn of<'a>(matches: &'a ArgMatches, file: Option<&Path>) -> anyhow::Result<Sources<'a>> {
        let text = match file {
            Some(path) => {
                fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?
            }
            None => String::new(),
        };
        let path = file.map_or_else(String::new, |path| path.display().to_string());
        // What does not parse was refused before, and its message shows lines of the file.
        let file = text.parse().map_err(|_| anyhow::anyhow!("{path} is no TOML any more"))?;
        Ok(Sources { matches, file, path })
    }

    /// `flag --data-dir`, `variable BELLWETHER_DATA_DIR`, `file bellwether.toml`, `default`.
    pub fn of_key(&self, section: &str, key: &str) -> String {
        let flag = format!("--{}", key.replace('_', "-"));
        match self.value_source(section, key) {
            Some(ValueSource::CommandLine) => return format!("flag {flag}"),
            Some(ValueSource::EnvVariable) => {
                return format!("variable BELLWETHER_{}", key.to_uppercase());
            }
            _ => {}
        }
        let table = match section {
            "" => Some(&self.file),
            section => self.file.get(section).and_then(toml::Value::as_table),
        };
        match table.is_some_and(|table| table.contains_key(key)) {
            true => format!("file {}", self.path),
            false => "default".to_string(),
        }
    }

    /// What was given for a setting that is a flag too.
    pub fn given(&self, key: &str) -> Option<Value> {
        let source = self.value_source("", key);
        if matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            let raw = self.matches.get_raw(key)?.next()?.to_string_lossy().into_owned();
            return Some(match raw.as_str() {
                "true" => Value::Bool(true),
                "false" => Value::Bool(false),
                _ => Value::String(raw),
            });
        }
        Some(match self.file.get(key)? {
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
