//! The telemetry settings of the caller; all others come from the standard `OTEL_*` variables.

use std::env;
use std::fmt;
use std::io::{self, IsTerminal};
use std::str::FromStr;

use super::error::Error;

/// The exporters log each step at `info` and each attempt at `warn`; lost data is an `error`.
/// HTTP/2 logs each fault of a peer at `warn`, and a peer could flood the log.
const LOG_FILTER: &str = "info,opentelemetry=error,h2=error";

/// The settings of the telemetry of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The version of the program, for `service.version` and `bellwether_build_info`.
    pub service_version: String,
    /// The filter of the logs: `level` and `target=level`, separated by commas.
    pub log_filter: String,
    /// The format of the logs.
    pub log_format: LogFormat,
}

impl Options {
    /// Returns the options with the filter of `BELLWETHER_LOG`, else of `RUST_LOG`, else `info`.
    pub fn from_env(service_version: impl Into<String>) -> Self {
        Self::from_variables(service_version.into(), |name| env::var(name).ok())
    }

    fn from_variables(service_version: String, variable: impl Fn(&str) -> Option<String>) -> Self {
        let filter = ["BELLWETHER_LOG", "RUST_LOG"]
            .into_iter()
            .find_map(|name| variable(name).filter(|value| !value.trim().is_empty()));
        Self {
            service_version,
            log_filter: filter.unwrap_or_else(|| LOG_FILTER.to_owned()),
            log_format: LogFormat::Auto,
        }
    }
}

/// The format of logs on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// Text when stderr is a terminal, else JSON.
    #[default]
    Auto,
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// Whether logs are JSON; `auto` depends on whether stderr is a terminal.
    pub(super) fn is_json(self) -> bool {
        match self {
            Self::Auto => !io::stderr().is_terminal(),
            Self::Text => false,
            Self::Json => true,
        }
    }
}

impl FromStr for LogFormat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "auto" => Ok(Self::Auto),
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(Error::LogFormat(text.to_owned())),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter_of(variables: &[(&str, &str)]) -> String {
        let variable = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Options::from_variables("0".into(), variable).log_filter
    }

    #[test]
    fn our_own_variable_comes_before_the_general_one() {
        assert_eq!(filter_of(&[]), LOG_FILTER);
        assert_eq!(filter_of(&[("RUST_LOG", "debug")]), "debug");
        assert_eq!(filter_of(&[("RUST_LOG", "debug"), ("BELLWETHER_LOG", "warn")]), "warn");
        assert_eq!(filter_of(&[("RUST_LOG", "debug"), ("BELLWETHER_LOG", " ")]), "debug");
    }

    #[test]
    fn formats_are_read_as_they_are_written() {
        for format in [LogFormat::Auto, LogFormat::Text, LogFormat::Json] {
            assert_eq!(format.to_string().parse::<LogFormat>().unwrap(), format);
        }
        let error = "xml".parse::<LogFormat>().unwrap_err();
        assert!(error.to_string().contains("auto, text and json"), "{error}");
    }
}
