//! `bellwether config`: checks or prints the configuration that `serve` would load. Starts nothing.

mod source;

use clap::Args as _;
use clap::Command;
use clap::{ArgAction, ArgMatches};
use serde_json::{Value, json};

use crate::cli::context::{Context, print_plain, say};
use crate::cli::exit::UsageError;
use crate::cli::serve::config::source::Sources;
use crate::config;
use crate::config::{Config, StoreChoice};
use crate::store::redis::Layout;

/// Check or print the configuration of the server
#[derive(clap::Subcommand)]
pub enum Action {
    /// Check whether `serve` would accept these flags, variables and this file
    Check(config::Flags),
    /// Print every setting with the source of its value; passwords are left out
    Print(config::Flags),
}

/// Loads the configuration as `serve` does. `matches` has the flags and variables given; `warnings`
/// are sentences about the environment.
pub fn run(
    action: Action,
    matches: &ArgMatches,
    warnings: &[String],
    context: &Context,
) -> anyhow::Result<()> {
    for warning in warnings {
        say(&format!("warning: {warning}"));
    }
    let (flags, prints) = match action {
        Action::Check(flags) => (flags, false),
        Action::Print(flags) => (flags, true),
    };
    let file = flags.store.config.clone();
    let wrong = |error: config::Error| UsageError(masked(&error.to_string()));
    let config = Config::load(flags).map_err(wrong)?;
    if !prints {
        let name = file.map_or_else(String::new, |file| format!(" ({})", file.display()));
        say(&format!("the configuration is valid{name}"));
        return Ok(());
    }
    let matches = matches.subcommand_matches("print").unwrap_or(matches);
    let sources = Sources::of(matches, file.as_deref())?;
    let rows = rows(&config, &sources);
    let value = |row: &Row| json!({ "value": row.value, "source": row.source });
    let all = rows.iter().map(|row| (row.path(), value(row)));
    context.print_value(&Value::Object(all.collect()), || print_plain(&text(&rows)))
}

/// Returns the settings that are also flags, then those of the file alone.
fn rows(config: &Config, sources: &Sources<'_>) -> Vec<Row> {
    let known = in_force(config);
    let command = config::Flags::augment_args(Command::new("serve"));
    let flags = command.get_arguments().filter(|arg| arg.get_id() != "config").map(|arg| {
        let key = arg.get_id().to_string();
        let known = known.iter().find(|(known, _)| *known == key).map(|(_, value)| value.clone());
        let given = || sources.given(&key).map(|given| hidden(&key, given));
        let nothing = match arg.get_action() {
            ArgAction::SetTrue => json!(false),
            ArgAction::Append => json!([]),
            _ => Value::Null,
        };
        let mut value = known.or_else(given).unwrap_or(nothing);
        if matches!(arg.get_action(), ArgAction::Append) && value.is_string() {
            value = json!([value]);
        }
        Row { source: sources.of_key("", &key), section: "", key, value }
    });
    let numbers = config.numbers().into_iter().map(|number| Row {
        source: sources.of_key(number.section, number.key),
        section: number.section,
        key: number.key.to_string(),
        value: json!(number.value),
    });
    flags.chain(numbers).collect()
}

/// Returns the flags that have a value even if none is given. The URL of a Redis is printed as it
/// was given.
pub(in crate::cli) fn in_force(config: &Config) -> Vec<(&'static str, Value)> {
    let mut all =
        vec![("grpc_listen", json!(config.grpc_listen)), ("ops_listen", json!(config.ops_listen))];
    match &config.store {
        StoreChoice::Memory => all.push(("store", json!("memory"))),
        StoreChoice::Embedded(dir) => {
            all.push(("store", json!("embedded")));
            all.push(("data_dir", json!(dir.display().to_string())));
        }
        // Without a number of buckets, that of the store counts, which only the store knows.
        StoreChoice::Redis(.., Layout { prefix, buckets }) => {
            all.push(("store_prefix", json!(prefix.to_string())));
            all.extend(buckets.map(|buckets| ("store_buckets", json!(buckets))));
        }
    }
    all
}

/// Returns the value of a setting without its secrets.
fn hidden(key: &str, given: Value) -> Value {
    match given {
        Value::String(_) if key.contains("password") && !key.ends_with("_file") => json!("***"),
        Value::String(text) => json!(masked(&text)),
        given => given,
    }
}

/// One setting.
struct Row {
    section: &'static str,
    key: String,
    value: Value,
    source: String,
}

impl Row {
    fn path(&self) -> String {
        match self.section {
            "" => self.key.clone(),
            section => format!("{section}.{}", self.key),
        }
    }
}

/// Formats the settings as a configuration file, with the source of each value behind it.
fn text(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut section = "";
    for row in rows {
        if row.section != section {
            section = row.section;
            text.push_str(&format!("\n[{section}]\n"));
        }
        // A file has no line for a setting without a value.
        let line = match &row.value {
            Value::Null => format!("# {} is not set", row.key),
            value => format!("{} = {value}", row.key),
        };
        text.push_str(&format!("{line:<48}  # {}\n", row.source));
    }
    text
}

/// Returns a text with the password of each URL masked: `redis://user:***@host`.
pub fn masked(text: &str) -> String {
    let mut safe = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        safe.push_str(before);
        let end = after.find([' ', '"', '\'', '`', ',', '\n']).unwrap_or(after.len());
        // A password may contain any of these unencoded, so the last `@` of the word counts.
        let (address, next) = after.split_at(end);
        match address.rsplit_once('@') {
            Some((credentials, host)) => {
                let user = credentials.split(':').next().unwrap_or_default();
                safe.push_str(&format!("{user}:***@{host}"));
            }
            None => safe.push_str(address),
        }
        rest = next;
    }
    safe + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_printed() {
        for (given, expected) in [
            ("redis://user:secret@h:1/0", "redis://user:***@h:1/0"),
            ("rediss://:se@cr/et@h", "rediss://:***@h"),
            ("redis://secret@h:1", "redis://secret:***@h:1"),
            ("redis://h:1,k:2", "redis://h:1,k:2"),
            (
                "store \"redis://a:b@h\" and redis://c:d@k",
                "store \"redis://a:***@h\" and redis://c:***@k",
            ),
            ("embedded", "embedded"),
        ] {
            assert_eq!(masked(given), expected);
        }
    }
}
