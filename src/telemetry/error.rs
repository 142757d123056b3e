//! What can be wrong with the settings of the telemetry, and what to do about it.

use std::io;

use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::error::OTelSdkError;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::util::TryInitError;

use super::otlp::Signal;

/// Why the telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `BELLWETHER_LOG` or `RUST_LOG` is not a filter.
    #[error("read the log filter {filter:?}: write it like `info` or `info,bellwether=debug`")]
    LogFilter {
        /// As it was given.
        filter: String,
        /// Where it goes wrong.
        #[source]
        source: ParseError,
    },
    /// The name of a log format is unknown.
    #[error("read the log format {0:?}: it is one of auto, text and json")]
    LogFormat(String),
    /// OTLP was asked for over something else than gRPC.
    #[error(
        "read {variable}={value:?}: only OTLP over gRPC is built in, so set it to `grpc` and the \
         endpoint to the gRPC port of the collector (4317 by convention)"
    )]
    Protocol {
        /// The variable that says so.
        variable: String,
        /// What it says.
        value: String,
    },
    /// The SDK refuses the endpoint, the headers or the compression in the environment.
    #[error("set up the OTLP export of {signal} from the OTEL_EXPORTER_OTLP_* variables")]
    Exporter {
        /// What was to be exported.
        signal: Signal,
        /// What the SDK says.
        #[source]
        source: ExporterBuildError,
    },
    /// The Prometheus reader cannot be registered.
    #[error("set up the Prometheus reader")]
    Prometheus(#[source] OTelSdkError),
    /// The threads of the exporters cannot be started.
    #[error("start the threads of the OTLP exporters")]
    Runtime(#[source] io::Error),
    /// `init` is for once in a process.
    #[error("install the log subscriber: this process has one already")]
    Installed(#[source] TryInitError),
}

/// What was not delivered before the end.
#[derive(Debug, thiserror::Error)]
#[error("deliver the last telemetry: {}", .undelivered.join("; "))]
pub struct ShutdownError {
    /// A sentence for each signal that was not delivered.
    pub undelivered: Vec<String>,
}
