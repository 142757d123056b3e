//! Admits a call: its caller is known, and has a role for the method.

use std::sync::Arc;

use http::Request;
use tonic::body::Body;

use super::access::CallerState;
use super::refusal::{invalid, missing};
use super::{Access, Presented, Rules};
use crate::security::identity::Refusal;
use crate::security::role::right::{MethodRight, Right};
use crate::service::code::ApiError;
use crate::service::edge::Caller;

impl Rules {
    /// Identifies the caller of a request, and checks that it has a role for the method at all.
    pub(super) fn admit(
        self: &Arc<Rules>,
        request: &Request<Body>,
        row: &'static MethodRight,
    ) -> Result<Access, ApiError> {
        let unknown = Presented::default();
        let presented = request.extensions().get::<Presented>().unwrap_or(&unknown);
        let credentials = presented.credentials(request.headers());
        let version = self.protection.version();
        let identity = match presented.identify(&self.protection, &credentials) {
            Ok(identity) => identity,
            Err(Refusal::Nothing) if row.right == Right::Anyone => return Ok(Access::unknown()),
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
        let rules = self.clone();
        Ok(Access::known(CallerState { rules, version, credentials, identity, grants, row }))
    }
}
