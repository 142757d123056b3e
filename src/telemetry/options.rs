//! The telemetry settings of the caller; all others come from the standard `OTEL_*` variables.

use std::env;

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
        Self { service_version, log_filter: filter.unwrap_or_else(|| LOG_FILTER.to_owned()) }
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
}
