//! Errors in the settings of the telemetry, with what to do about them.

use std::io;

use opentelemetry_otlp::ExporterBuildError;
use opentelemetry_sdk::error::OTelSdkError;
use tracing_subscriber::util::TryInitError;

/// Why the telemetry could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// `BELLWETHER_LOG` or `RUST_LOG` is not a filter.
    #[error("read the log filter {0:?}: write it like `info` or `info,bellwether=debug`")]
    LogFilter(String, #[source] Box<dyn std::error::Error + Send + Sync>),
    /// A protocol other than gRPC is set for OTLP by this variable.
    #[error(
        "read {0}={1:?}: only OTLP over gRPC is built in, so set it to `grpc` and the \
         endpoint to the gRPC port of the collector (4317 by convention)"
    )]
    Protocol(String, String),
    /// The SDK refuses the endpoint, the headers or the compression in the environment.
    #[error("set up the OTLP export of {0} from the OTEL_EXPORTER_OTLP_* variables")]
    Exporter(&'static str, #[source] ExporterBuildError),
    /// The Prometheus reader cannot be registered.
    #[error("set up the Prometheus reader")]
    Prometheus(#[source] OTelSdkError),
    /// The threads of the exporters cannot be started.
    #[error("start the threads of the OTLP exporters")]
    Runtime(#[source] io::Error),
    /// `init` was called twice in one process.
    #[error("install the log subscriber: this process has one already")]
    Installed(#[source] TryInitError),
}

/// The telemetry that was not delivered before the end, with a sentence for each signal.
#[derive(Debug, thiserror::Error)]
#[error("deliver the last telemetry: {}", .0.join("; "))]
pub struct ShutdownError(pub Vec<String>);
