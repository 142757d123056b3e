//! The metrics as text, for whoever scrapes the ops port.

use opentelemetry_prometheus::PrometheusExporter;
use opentelemetry_sdk::error::OTelSdkError;
use prometheus::{Registry, TextEncoder};

/// The media type of [`Prometheus::text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Reads the metrics of this process; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Prometheus {
    registry: Registry,
}

impl Prometheus {
    /// The reader of a meter provider whose metrics are to be seen here.
    pub(super) fn reader(&self) -> Result<PrometheusExporter, OTelSdkError> {
        opentelemetry_prometheus::exporter()
            .with_registry(self.registry.clone())
            // One scope only: its name on every sample would tell nothing.
            .scope_info_enabled(false)
            .build()
    }

    /// Every metric now, in the Prometheus text format.
    pub fn text(&self) -> String {
        let mut families = self.registry.gather();
        // One without samples would make the encoder give up on all the others.
        families.retain(|family| !family.get_metric().is_empty());
        let encoded = TextEncoder::new().encode_to_string(&families);
        encoded.unwrap_or_else(|error| format!("# the metrics cannot be written: {error}\n"))
    }
}
