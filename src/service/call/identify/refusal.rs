//! Refusals of callers: the same words for every stranger, the cause in the log alone.

use std::net::IpAddr;
use std::time::Duration;

use crate::security::identity::{Principal, Refusal};
use crate::security::role::Need;
use crate::service::code::{ApiError, Reason};
use crate::service::log_limit::Sparse;
use crate::service::method::Method;
use crate::telemetry::{Metrics, SecurityRefusal};

/// Shortest time between two log lines about refused callers.
const LOG_PERIOD: Duration = Duration::from_secs(1);

/// Counts refusals, and logs some of them.
pub(super) struct Refusals {
    metrics: Metrics,
    strangers: Sparse,
    denials: Sparse,
}

impl Refusals {
    pub(super) fn new(metrics: Metrics) -> Refusals {
        let sparse = || Sparse::new(LOG_PERIOD);
        Refusals { metrics, strangers: sparse(), denials: sparse() }
    }

    /// Counts a caller that is not known.
    pub(super) fn stranger(&self, peer: Option<IpAddr>, method: &str, why: Refusal) {
        self.metrics.security_refusal(SecurityRefusal::Credentials);
        if let Some(count) = self.strangers.note() {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(peer, method, %why, count, "callers were refused: they are not known");
        }
    }

    /// Counts a caller without the right, and returns the failure. It names what the caller asked
    /// for, and nothing that exists.
    pub(super) fn denied(&self, who: &Principal, row: &Method, need: Option<Need<'_>>) -> ApiError {
        self.metrics.security_refusal(SecurityRefusal::Rights);
        let method = row.name;
        if let Some(count) = self.denials.note() {
            tracing::warn!(principal = %who, method, ?need, count, "calls were refused: no grant");
        }
        let target = match need {
            None => String::new(),
            Some(Need::Act(namespace, application, "")) => {
                format!(" as every unit of {namespace}/{application}")
            }
            Some(Need::Act(namespace, application, unit)) => {
                format!(" as unit {unit} of {namespace}/{application}")
            }
            Some(Need::Read(namespace, application) | Need::Data(namespace, application)) => {
                format!(" on {namespace}/{application}")
            }
            Some(Need::Operate(namespace, application)) => {
                format!(" as an operator of {namespace}/{application}")
            }
            Some(Need::List(Some(namespace))) => {
                format!(" for all applications of namespace {namespace}")
            }
            Some(Need::List(None)) => " for all applications of all namespaces".to_string(),
        };
        let text = format!("{who} may not call {method}{target}; ask an operator for a grant");
        ApiError::new(Reason::ScopeDenied, text).with("principal", who).with("method", method)
    }
}

/// Returns the failure of a caller that presents nothing.
pub(super) fn missing() -> ApiError {
    let text = "this server requires credentials; present a token or a client certificate";
    ApiError::new(Reason::CredentialsMissing, text)
}

/// Returns the failure of a caller that is not known. It does not say which part was wrong.
pub(super) fn invalid() -> ApiError {
    let text = "the caller is not known; present a valid token or a client certificate that this \
                server accepts";
    ApiError::new(Reason::CredentialsInvalid, text)
}
