//! Identifies callers. Those that are not known, and those without a role for the method, are
//! refused before the body of their request is read. The streams of a caller end when its
//! credentials expire or are revoked, and other answers are withheld from it.
//!
//! ```text
//!  Guard::admit --> Access in the extensions     Access::check, by the row of the method
//!  streams: request and response end when the proof ends, or is revoked
//!  other answers: checked again when they are ready, for a call may wait
//! ```

mod access;
mod body;
mod refusal;

use std::sync::Arc;

use http::Request;
use tonic::body::Body;

pub use access::{Access, Extent, Reader};
pub(in crate::service) use body::Guarded;

use crate::security::Protection;
use crate::security::identity::Refusal;
use crate::security::role::right::Right;
use crate::service::caller::{Caller, Presented};
use crate::service::code::ApiError;
use crate::service::method::Method;
use crate::telemetry::Metrics;
use access::{CallerState, State};
use refusal::{Refusals, invalid, missing};

/// Admits callers.
pub(super) struct Guard {
    protection: Arc<Protection>,
    extent: Option<Arc<dyn Extent>>,
    refusals: Refusals,
}

impl Guard {
    pub(super) fn new(
        protection: Arc<Protection>,
        extent: Option<Arc<dyn Extent>>,
        metrics: Metrics,
    ) -> Guard {
        Guard { protection, extent, refusals: Refusals::new(metrics) }
    }

    /// Identifies the caller of a request, and checks that it has a role for the method at all.
    pub(in crate::service) fn admit(
        self: &Arc<Guard>,
        request: &Request<Body>,
        row: &'static Method,
    ) -> Result<Access, ApiError> {
        if !self.protection.is_on() {
            return Ok(self.access(State::Unprotected));
        }
        let unknown = Presented::default();
        let presented = request.extensions().get::<Presented>().unwrap_or(&unknown);
        let credentials = presented.credentials(request.headers());
        let version = self.protection.version();
        let identity = match presented.identify(&self.protection, &credentials) {
            Ok(identity) => identity,
            Err(Refusal::Nothing) if row.right == Right::Anyone => {
                return Ok(self.access(State::Unknown));
            }
            Err(why) => {
                let peer = request.extensions().get::<Caller>().map(Caller::address);
                self.refusals.stranger(peer, request.uri().path(), why);
                return Err(match why {
                    Refusal::Nothing => missing(),
                    _ => invalid(),
                });
            }
        };
        let grants = self.protection.grants(&identity.principal);
        if row.right.roles().is_some_and(|roles| !grants.have(roles)) {
            return Err(self.refusals.denied(&identity.principal, row, None));
        }
        let guard = self.clone();
        let caller = CallerState { guard, version, credentials, identity, grants, row };
        Ok(self.access(State::Known(Arc::new(caller))))
    }

    fn access(&self, state: State) -> Access {
        Access { state, extent: self.extent.clone() }
    }
}
