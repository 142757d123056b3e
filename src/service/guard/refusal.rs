//! Refusals of callers: the same words for every stranger, the cause in the log alone.

use std::net::IpAddr;
use std::time::Duration;

use http::Request;
use tonic::body::Body;

use super::{Access, Presented, Rules};
use crate::security::identity::Refusal;
use crate::service::code::{ApiError, Reason};
use crate::service::edge::Caller;
use crate::service::observe::refusals;
use crate::service::sparse::Sparse;
use crate::telemetry::{Metrics, SecurityRefusal};

/// Shortest time between two log lines about refused callers.
const LOG_PERIOD: Duration = Duration::from_secs(1);

/// Counts refusals, and logs some of them.
pub(super) struct Refusals {
    metrics: Metrics,
    strangers: Sparse,
}

impl Refusals {
    pub(super) fn new(metrics: Metrics) -> Refusals {
        Refusals { metrics, strangers: Sparse::new(LOG_PERIOD) }
    }

    /// Counts a caller that is not known.
    fn stranger(&self, peer: Option<IpAddr>, method: &str, why: Refusal) {
        refusals::note();
        self.metrics.security_refusal(SecurityRefusal::Credentials);
        if let Some(count) = self.strangers.note() {
            let peer = peer.map(tracing::field::display);
            tracing::warn!(peer, method, %why, count, "callers were refused: they are not known");
        }
    }
}

impl Rules {
    /// Identifies the caller of a request.
    pub(super) fn admit(&self, request: &Request<Body>) -> Result<Access, ApiError> {
        let unknown = Presented::default();
        let presented = request.extensions().get::<Presented>().unwrap_or(&unknown);
        let credentials = presented.credentials(request.headers());
        match presented.identify(&self.protection, &credentials) {
            Ok(identity) => Ok(Access::known(self.protection.clone(), credentials, identity)),
            Err(why) => {
                let peer = request.extensions().get::<Caller>().map(Caller::address);
                self.refusals.stranger(peer, request.uri().path(), why);
                Err(unknown_caller(why))
            }
        }
    }
}

/// Returns the failure of a caller that is not known. It does not say which part was wrong.
fn unknown_caller(why: Refusal) -> ApiError {
    if why == Refusal::Nothing {
        let text = "this server wants to know its callers; present a token or a client certificate";
        return ApiError::new(Reason::CredentialsMissing, text);
    }
    let text = "the caller is not known; present a valid token or a client certificate that this \
                server accepts";
    ApiError::new(Reason::CredentialsInvalid, text)
}
