//! The application of a request, its request id, and the fingerprint that distinguishes a repeat
//! from another request with the same id.

use std::collections::BTreeSet;
use std::sync::Arc;

use aws_lc_rs::digest;
use prost::Message;
use tonic::Request;

use super::fields::Fields;
use crate::domain::level::Level;
use crate::domain::name::AppName;
use crate::domain::request::{Fingerprint, RequestId};
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::code::{ApiError, Reason};

/// A request about one application.
pub trait Scoped {
    /// Returns what the request asks for, as given.
    fn asked(&self) -> Asked<'_>;
}

/// The application of a request, and what its caller needs a right for.
#[derive(Default)]
pub struct Asked<'a> {
    namespace: &'a str,
    application: &'a str,
    /// The unit that acts; empty: none.
    actor: &'a str,
    /// Whether the request asks for what only an operator may.
    operates: bool,
}

/// A request that is applied once for each id.
pub trait Repeatable: Scoped + Message {
    /// Its name: that of its method, and `Request`.
    const REQUEST: &'static str;

    /// Returns the given id; empty: none.
    fn request_id(&self) -> &str;
}

/// A command on one operation.
pub trait OnOperation: Repeatable {
    /// Returns the unit and the id of the operation, as given.
    fn target(&self) -> (&str, &str);
}

macro_rules! implement {
    (repeatable $request:ident) => {
        impl Repeatable for v1::$request {
            const REQUEST: &'static str = stringify!($request);

            fn request_id(&self) -> &str {
                &self.request_id
            }
        }
    };
    (operation $request:ident) => {
        impl OnOperation for v1::$request {
            fn target(&self) -> (&str, &str) {
                (&self.unit, &self.operation_id)
            }
        }
    };
}

macro_rules! requests {
    ($($request:ident $($actor:ident)? $(? $operates:ident)? $(: $($kind:ident)+)?;)*) => {
        $(impl Scoped for v1::$request {
            #[allow(clippy::needless_update)] // some requests have every field
            fn asked(&self) -> Asked<'_> {
                Asked {
                    namespace: &self.namespace,
                    application: &self.application,
                    $(actor: &self.$actor,)?
                    $(operates: self.$operates,)?
                    ..Asked::default()
                }
            }
        }
        $($(implement! { $kind $request })+)?)*
    };
}

// A request, the field of the unit that acts, the field that only an operator may set; whether it
// has a request id, and whether it is about one operation.
requests! {
    RenewLeadershipRequest            unit;
    GetApplicationRequest;
    ExplainApplicationRequest;
    CollectApplicationRequest;
    ListStatusesRequest;
    ListStatusEventsRequest;
    GetUptimeRequest;
    ListUnitsRequest;
    ListFaultsRequest                      ? include_internal_detail;
    GetLeaderRequest;
    GetAppDataRequest;
    WatchAppDataRequest;
    GetOperationRequest;
    ListOperationsRequest;
    ReportStatusRequest               unit                           : repeatable;
    ReplaceStatusesRequest            unit                           : repeatable;
    ClearStatusRequest                unit                           : repeatable;
    ReportErrorRequest                unit                           : repeatable;
    ResolveErrorRequest               unit                           : repeatable;
    RegisterUnitRequest               unit                           : repeatable;
    AnnounceStopRequest               unit                           : repeatable;
    RequestCallbackRequest            unit                           : repeatable;
    ConfigureApplicationRequest                                      : repeatable;
    SetApplicationStatusRequest       unit ? decided_outside         : repeatable;
    ReplaceApplicationStatusesRequest unit ? decided_outside         : repeatable;
    ClearApplicationStatusRequest     unit ? decided_outside         : repeatable;
    RemoveUnitRequest                                                : repeatable;
    DeleteApplicationRequest                                         : repeatable;
    ResolveHoldRequest                                               : repeatable;
    SetMarkRequest                                                   : repeatable;
    RemoveMarkRequest                                                : repeatable;
    ClaimLeadershipRequest            unit                           : repeatable;
    ReleaseLeadershipRequest          unit                           : repeatable;
    TransferLeadershipRequest                                        : repeatable;
    UpdateAppDataRequest              unit ? decided_outside         : repeatable;
    BeginOperationRequest             unit ? supersede               : repeatable operation;
    AcquireOperationRequest           unit                           : repeatable operation;
    HeartbeatOperationRequest         unit                           : repeatable operation;
    ReleaseOperationRequest           unit                           : repeatable operation;
    CompleteOperationRequest          unit                           : repeatable operation;
    FailOperationRequest              unit                           : repeatable operation;
    VerifyOperationRequest            unit                           : repeatable operation;
    CancelOperationRequest                                           : repeatable operation;
    RetryOperationRequest                                            : repeatable operation;
}

/// Opens a request, and reads its application, then the rest by `rest`. An error names all
/// violations. The rights of the caller are checked first, before anything is looked up.
pub fn read<R: Scoped, T>(
    request: Request<R>,
    rest: impl FnOnce(&mut Fields, R) -> Option<T>,
) -> Result<(AppName, T), ApiError> {
    let (access, wire) = Access::open(request);
    let mut fields = Fields::default();
    let Asked { namespace, application, actor, operates } = wire.asked();
    let app = fields.app(namespace, application);
    if let Some(app) = &app {
        access.check(app, actor, operates)?;
    }
    fields.own.clone_from(&app);
    let rest = rest(&mut fields, wire);
    fields.finish(app.zip(rest))
}

/// Like [`read`], for a request that is used further. Returns the application, the request, and the
/// rest.
pub fn open<R: Scoped, T>(
    request: Request<R>,
    rest: impl FnOnce(&mut Fields, &R) -> Option<T>,
) -> Result<(AppName, R, T), ApiError> {
    let (app, (wire, rest)) =
        read(request, |fields, wire| rest(fields, &wire).map(|rest| (wire, rest)))?;
    Ok((app, wire, rest))
}

/// Opens a request that has nothing to check but its application.
pub fn app<R: Scoped>(request: Request<R>) -> Result<(AppName, R), ApiError> {
    open(request, |_, _| Some(())).map(|(app, wire, ())| (app, wire))
}

/// Reads the order of a list of units.
pub fn unit_order(fields: &mut Fields, wire: &v1::ListUnitsRequest) -> Option<v1::UnitOrder> {
    fields.choice("order", wire.order, "; give 1 (by name) or 2 (worst first), or nothing")
}

/// Reads a request about all applications of a namespace, or with `-` of all namespaces: the
/// namespace and the levels.
pub fn list_applications(
    access: &Access,
    wire: &v1::ListApplicationsRequest,
) -> Result<(Option<Arc<str>>, BTreeSet<Level>), ApiError> {
    let mut fields = Fields::default();
    let namespace = fields.namespace(&wire.namespace);
    if let Some(namespace) = &namespace {
        access.check_list(namespace.as_deref())?;
    }
    let levels = fields.levels(&wire.levels);
    fields.finish(namespace.map(|namespace| (namespace, levels)))
}

/// Reads a `ListBlockers`: the namespace, or `None` for all.
pub fn list_blockers(
    access: &Access,
    wire: &v1::ListBlockersRequest,
) -> Result<Option<Arc<str>>, ApiError> {
    let mut fields = Fields::default();
    let namespace = fields.namespace(&wire.namespace);
    if let Some(namespace) = &namespace {
        access.check_list(namespace.as_deref())?;
    }
    fields.finish(namespace)
}

/// Reads a `ListFaults` about several applications: the namespace, or `None` for all.
pub fn faults_of_many(wire: &v1::ListFaultsRequest) -> Result<Option<Arc<str>>, ApiError> {
    let mut fields = Fields::default();
    let namespace = fields.namespace(&wire.namespace);
    let given = [
        ("unit", !wire.unit.is_empty()),
        ("min_revision", wire.min_revision != 0),
        ("include_internal_detail", wire.include_internal_detail),
    ];
    of_one_only(&mut fields, given);
    fields.finish(namespace)
}

/// Reads a `ListStatuses` about several applications: the namespace, or `None` for all.
pub fn statuses_of_many(
    access: &Access,
    wire: &v1::ListStatusesRequest,
) -> Result<Option<Arc<str>>, ApiError> {
    let mut fields = Fields::default();
    let namespace = fields.namespace(&wire.namespace);
    if let Some(namespace) = &namespace {
        access.check_list(namespace.as_deref())?;
    }
    of_one_only(
        &mut fields,
        [("unit", !wire.unit.is_empty()), ("min_revision", wire.min_revision != 0)],
    );
    fields.finish(namespace)
}

/// Refuses the fields of a request about several applications that are about one.
fn of_one_only<const N: usize>(fields: &mut Fields, given: [(&str, bool); N]) {
    for (field, _) in given.into_iter().filter(|(_, is_given)| *is_given) {
        let text = "is about one application; name it in application, or leave this out";
        fields.note(field, Reason::InvalidValue, text);
    }
}

/// Returns the id of a request with its fingerprint, if it has an id. Must be called before any
/// field is taken out of the request.
pub fn request_id<R: Repeatable>(fields: &mut Fields, request: &R) -> Option<RequestId> {
    let id = fields.request_id(request.request_id())?;
    Some(RequestId { id, fingerprint: Some(fingerprint(request)) })
}

/// Returns the fingerprint of the request as decoded and encoded again: fields in the order of
/// their numbers, maps in the order of their keys, so that every replica computes the same value.
/// An absent field adds nothing, so requests of older clients keep their fingerprint when messages
/// get new fields.
fn fingerprint<R: Repeatable>(request: &R) -> Fingerprint {
    let sum = digest::digest(&digest::SHA256, &request.encode_to_vec());
    let (halves, _) = sum.as_ref().as_chunks::<8>();
    let half = |n: usize| halves.get(n).copied().map_or(0, u64::from_be_bytes);
    let method = R::REQUEST.trim_end_matches("Request");
    Fingerprint { method: method.into(), digest: [half(0), half(1)] }
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
