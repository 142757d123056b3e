//! Identity of a request: the application that it is about, and the id, which detects a repeat, and
//! another request with the same id.

use aws_lc_rs::digest;
use prost::Message;

use super::fields::Fields;
use crate::domain::name::AppName;
use crate::domain::request::{Fingerprint, RequestId};
use crate::proto::v1;
use crate::service::code::ApiError;

/// A request about one application.
pub trait Scoped {
    /// Returns the namespace and the application, as given.
    fn scope(&self) -> (&str, &str);
}

impl<R: Scoped> Scoped for &R {
    fn scope(&self) -> (&str, &str) {
        (**self).scope()
    }
}

/// A request that is applied once for each id.
pub trait Repeatable: Scoped + Message {
    /// Name of its method.
    const METHOD: &'static str;

    /// Returns the given id; empty: none.
    fn request_id(&self) -> &str;
}

macro_rules! scoped {
    ($($request:ident)*) => {
        $(impl Scoped for v1::$request {
            fn scope(&self) -> (&str, &str) {
                (&self.namespace, &self.application)
            }
        })*
    };
}

scoped! {
    RenewLeadershipRequest
    GetApplicationRequest
    ExplainApplicationRequest
    CollectApplicationRequest
    ListStatusesRequest
    ListStatusEventsRequest
    ListUnitsRequest
    ListFaultsRequest
    GetLeaderRequest
    GetAppDataRequest
    WatchAppDataRequest
    GetOperationRequest
    ListOperationsRequest
}

macro_rules! repeatable {
    ($($method:literal $request:ident)*) => {
        scoped! { $($request)* }
        $(impl Repeatable for v1::$request {
            const METHOD: &'static str = $method;

            fn request_id(&self) -> &str {
                &self.request_id
            }
        })*
    };
}

repeatable! {
    "ReportStatus" ReportStatusRequest
    "ReplaceStatuses" ReplaceStatusesRequest
    "ClearStatus" ClearStatusRequest
    "ReportError" ReportErrorRequest
    "ResolveError" ResolveErrorRequest
    "RegisterUnit" RegisterUnitRequest
    "ConfigureApplication" ConfigureApplicationRequest
    "SetApplicationStatus" SetApplicationStatusRequest
    "ClearApplicationStatus" ClearApplicationStatusRequest
    "RemoveUnit" RemoveUnitRequest
    "DeleteApplication" DeleteApplicationRequest
    "ResolveHold" ResolveHoldRequest
    "ClaimLeadership" ClaimLeadershipRequest
    "ReleaseLeadership" ReleaseLeadershipRequest
    "TransferLeadership" TransferLeadershipRequest
    "UpdateAppData" UpdateAppDataRequest
    "BeginOperation" BeginOperationRequest
    "AcquireOperation" AcquireOperationRequest
    "HeartbeatOperation" HeartbeatOperationRequest
    "ReleaseOperation" ReleaseOperationRequest
    "CompleteOperation" CompleteOperationRequest
    "FailOperation" FailOperationRequest
    "VerifyOperation" VerifyOperationRequest
    "CancelOperation" CancelOperationRequest
    "RetryOperation" RetryOperationRequest
}

/// Reads a request: its application, then the rest by `rest`. An error names all violations.
pub fn read<R: Scoped, T>(
    wire: R,
    rest: impl FnOnce(&mut Fields, R) -> Option<T>,
) -> Result<(AppName, T), ApiError> {
    let mut fields = Fields::default();
    let (namespace, application) = wire.scope();
    let app = fields.app(namespace, application);
    let rest = rest(&mut fields, wire);
    fields.finish(app.zip(rest))
}

/// Reads the application of a request that has nothing else to check.
pub fn app(wire: &impl Scoped) -> Result<AppName, ApiError> {
    read(wire, |_, _| Some(())).map(|(app, ())| app)
}

/// Returns the id of a request with its fingerprint, if it has an id. Must be called before any
/// field is taken out of the request.
#[allow(clippy::option_option)]
pub fn request_id<R: Repeatable>(fields: &mut Fields, request: &R) -> Option<Option<RequestId>> {
    let id = fields.request_id(request.request_id())?;
    Some(id.map(|id| RequestId { id, fingerprint: Some(fingerprint(request)) }))
}

/// Returns the fingerprint of the request as decoded and encoded again: fields in the order of
/// their numbers, maps in the order of their keys, so that every replica computes the same value.
/// An absent field adds nothing, so requests of older clients keep their fingerprint when messages
/// get new fields.
fn fingerprint<R: Repeatable>(request: &R) -> Fingerprint {
    let sum = digest::digest(&digest::SHA256, &request.encode_to_vec());
    let (halves, _) = sum.as_ref().as_chunks::<8>();
    let half = |n: usize| halves.get(n).copied().map_or(0, u64::from_be_bytes);
    Fingerprint { method: R::METHOD.into(), digest: [half(0), half(1)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records contain fingerprints, so the fingerprint of a request must not change.
    #[test]
    fn a_fingerprint_is_the_same_in_every_version() {
        let labels = |keys: &[&str]| keys.iter().map(|k| (k.to_string(), k.to_string())).collect();
        let request = |keys: &[&str]| v1::ReportStatusRequest {
            application: "web".into(),
            unit: "web/0".into(),
            status: Some(v1::StatusReport {
                level: v1::Level::Active.into(),
                labels: labels(keys),
                ..v1::StatusReport::default()
            }),
            request_id: "r1".into(),
            ..v1::ReportStatusRequest::default()
        };
        let first = fingerprint(&request(&["b", "a", "c"]));
        assert_eq!(first, fingerprint(&request(&["c", "b", "a"])));
        assert_ne!(first, fingerprint(&request(&["a", "b"])));
        let digest = [18_137_078_555_321_799_169, 5_899_012_544_484_807_658];
        assert_eq!((&*first.method, first.digest), ("ReportStatus", digest));
    }
}
