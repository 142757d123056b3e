//! The metrics as text, for scrapes of the ops port.

use opentelemetry_prometheus::PrometheusExporter;
use opentelemetry_sdk::error::OTelSdkError;
use prometheus::proto::MetricFamily;
use prometheus::{Registry, TextEncoder};

use super::applications::ApplicationStates;
use super::exemplar::Exemplars;
use super::instrument::Readout;
use super::openmetrics;

/// The media type of [`Prometheus::text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Reads the metrics of this process; cheap to clone.
#[derive(Clone, Default)]
pub struct Prometheus {
    registry: Registry,
    /// The source of the states, set once the server has its applications.
    applications: Readout<ApplicationStates>,
    /// The traced calls.
    pub(super) exemplars: Exemplars,
}

impl Prometheus {
    /// Returns the reader that a meter provider needs to show its metrics here.
    pub(super) fn reader(&self) -> Result<PrometheusExporter, OTelSdkError> {
        opentelemetry_prometheus::exporter()
            .with_registry(self.registry.clone())
            // There is one scope only, so its name on every sample would add nothing.
            .scope_info_enabled(false)
            .build()
    }

    /// Sets the source of the states of applications; only the first call has an effect.
    ///
    /// `read` runs at each scrape, and must not block.
    pub fn observe_applications(
        &self,
        read: impl Fn() -> ApplicationStates + Send + Sync + 'static,
    ) {
        let _first_stays = self.applications.set(Box::new(read));
    }

    /// Returns every metric now, in the Prometheus text format.
    pub fn text(&self) -> String {
        let encoded = TextEncoder::new().encode_to_string(&self.families());
        encoded.unwrap_or_else(|error| format!("# the metrics cannot be written: {error}\n"))
    }

    /// Returns every metric now, in the format OpenMetrics, with exemplars.
    pub fn open_metrics(&self) -> String {
        openmetrics::encode(&self.families(), &self.exemplars)
    }

    fn families(&self) -> Vec<MetricFamily> {
        let mut families = self.registry.gather();
        match self.applications.get().map(|read| read().families()) {
            Some(Ok(more)) => families.extend(more),
            Some(Err(error)) => {
                tracing::error!(%error, "the states of applications cannot be shown");
            }
            None => {}
        }
        // A family without samples would make the encoder fail for all of them.
        families.retain(|family| !family.get_metric().is_empty());
        families
    }
}
