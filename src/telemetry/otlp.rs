//! The signals that are exported over OTLP, and their exporters.
//!
//! The SDK reads endpoints, headers, timeouts, batch sizes and samplers from the standard `OTEL_*`
//! variables. This module reads the variables that turn the export of each signal on or off.

use opentelemetry_otlp::{ExporterBuildError, LogExporter, MetricExporter, SpanExporter};

use super::error::Error;

/// The signals, in the words of the variables and of errors.
pub(super) const TRACES: &str = "traces";
pub(super) const METRICS: &str = "metrics";
pub(super) const LOGS: &str = "logs";

/// The signals that the environment asks to export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Exports {
    /// `OTEL_SDK_DISABLED`: also turns Prometheus off.
    pub(super) sdk_disabled: bool,
    pub(super) traces: bool,
    pub(super) metrics: bool,
    pub(super) logs: bool,
}

impl Exports {
    /// Reads the settings. A signal is exported only if its endpoint is set. The default of the
    /// specification is ignored: every test and every laptop would connect to localhost:4317.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        // By the specification an empty variable counts as unset.
        let variable = |name: &str| {
            let value = variable(name)?;
            let value = value.trim();
            (!value.is_empty()).then(|| value.to_owned())
        };
        let disabled = variable("OTEL_SDK_DISABLED");
        if disabled.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(Self { sdk_disabled: true, ..Self::default() });
        }
        Ok(Self {
            sdk_disabled: false,
            traces: exports(TRACES, &variable)?,
            metrics: exports(METRICS, &variable)?,
            logs: exports(LOGS, &variable)?,
        })
    }

    pub(super) fn any(self) -> bool {
        self.traces || self.metrics || self.logs
    }
}

fn exports(signal: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<bool, Error> {
    let part = signal.to_uppercase();
    let exporter = variable(&format!("OTEL_{part}_EXPORTER"));
    if exporter.is_some_and(|list| !list.split(',').any(|one| one.trim() == "otlp")) {
        return Ok(false);
    }
    let either = |last: &str| {
        let own = format!("OTEL_EXPORTER_OTLP_{part}_{last}");
        let of_all = format!("OTEL_EXPORTER_OTLP_{last}");
        [own, of_all].into_iter().find_map(|name| variable(&name).map(|value| (name, value)))
    };
    if either("ENDPOINT").is_none() {
        return Ok(false);
    }
    // The exporters always use gRPC. Any other protocol is an error at the start of the process,
    // because an HTTP port rejects gRPC.
    match either("PROTOCOL") {
        Some((variable, value)) if value != "grpc" => Err(Error::Protocol(variable, value)),
        _ => Ok(true),
    }
}

pub(super) fn span_exporter() -> Result<SpanExporter, Error> {
    SpanExporter::builder().with_tonic().build().map_err(because(TRACES))
}

pub(super) fn metric_exporter() -> Result<MetricExporter, Error> {
    MetricExporter::builder().with_tonic().build().map_err(because(METRICS))
}

pub(super) fn log_exporter() -> Result<LogExporter, Error> {
    LogExporter::builder().with_tonic().build().map_err(because(LOGS))
}

fn because(signal: &'static str) -> impl Fn(ExporterBuildError) -> Error {
    move |error| Error::Exporter(signal, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
    const NONE: Exports =
        Exports { sdk_disabled: false, traces: false, metrics: false, logs: false };
    const ALL: Exports = Exports { traces: true, metrics: true, logs: true, ..NONE };

    fn read(variables: &[(&str, &str)]) -> Result<Exports, Error> {
        Exports::read(|name| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_decides_what_is_exported() {
        let traces_endpoint = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4317");
        let off = Exports { sdk_disabled: true, ..NONE };
        let cases: &[(&[(&str, &str)], Exports)] = &[
            (&[], NONE),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")], NONE),
            (&[ENDPOINT], ALL),
            (&[traces_endpoint], Exports { traces: true, ..NONE }),
            (&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")], Exports { traces: false, ..ALL }),
            (
                &[ENDPOINT, ("OTEL_METRICS_EXPORTER", "prometheus")],
                Exports { metrics: false, ..ALL },
            ),
            (&[ENDPOINT, ("OTEL_METRICS_EXPORTER", "prometheus, otlp")], ALL),
            (&[ENDPOINT, ("OTEL_LOGS_EXPORTER", "")], ALL),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")], off),
            (&[ENDPOINT, ("OTEL_SDK_DISABLED", "1")], ALL),
            (&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], ALL),
        ];
        for (variables, expected) in cases {
            assert_eq!(read(variables).unwrap(), *expected, "{variables:?}");
        }
    }

    #[test]
    fn a_protocol_that_is_not_built_in_is_refused_by_name() {
        let http = ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf");
        let error = read(&[ENDPOINT, http]).unwrap_err().to_string();
        assert!(error.contains(http.0) && error.contains("4317"), "{error}");
        // The protocol does not matter for a signal that is not exported.
        assert_eq!(read(&[http]).unwrap(), NONE);
    }
}
