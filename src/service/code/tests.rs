//! Every reason carries the facts of its message as metadata.

use tonic_types::StatusExt;

use super::*;
use crate::domain::name::{ApplicationNotFound, OperationId, UnitName};
use crate::domain::operation::refused::Refused;
use crate::domain::operation::{Reason as OperationReason, State};
use crate::domain::time::Timestamp;
use crate::domain::unit::refused::IdentityError;
use crate::watch::ResumeError;

/// Every reason, each once. A new reason is added here and to `sample`, where the compiler requires
/// it.
const ALL: [Reason; 30] = [
    Reason::InvalidName,
    Reason::MissingField,
    Reason::UnknownLevel,
    Reason::InvalidValue,
    Reason::InvalidPageToken,
    Reason::RequestIdReused,
    Reason::MessageTooLong,
    Reason::ValueTooLarge,
    Reason::ApplicationNotFound,
    Reason::UnitNotFound,
    Reason::MarkNotFound,
    Reason::LimitExceeded,
    Reason::RateLimited,
    Reason::TooManyStreams,
    Reason::NotLeader,
    Reason::OperationNotFound,
    Reason::StaleFence,
    Reason::OperationHeld,
    Reason::ResumeFirst,
    Reason::OperationState,
    Reason::StaleIncarnation,
    Reason::ResumeTokenExpired,
    Reason::StoreUnavailable,
    Reason::Draining,
    Reason::Contention,
    Reason::RecordCorrupt,
    Reason::LeaseHeld,
    Reason::EtagMismatch,
    Reason::HeartbeatMissed,
    Reason::Internal,
];

fn rejected(rejected: impl Into<Rejected>) -> ApiError {
    let app = AppName::new("prod", "web").unwrap();
    ApiError::of(&app, aggregator::Error::Rejected(rejected.into()))
}

/// Returns a failure with this reason, as the service makes it, and a fact that its metadata must
/// contain.
fn sample(reason: Reason) -> (ApiError, &'static str) {
    let app = AppName::new("prod", "web").unwrap();
    let unit = UnitName::new("web/0").unwrap();
    let of_field = |reason| (ApiError::of_fields(vec![Violation::new("f", reason, "x")]), "field");
    match reason {
        Reason::InvalidName
        | Reason::MissingField
        | Reason::UnknownLevel
        | Reason::InvalidValue
        | Reason::MessageTooLong => of_field(reason),
        Reason::InvalidPageToken => (ApiError::page_token("x"), "value"),
        Reason::RequestIdReused => {
            let (id, method) = ("r1".into(), "ReportStatus".into());
            (rejected(IdReused { id, method }), "request_id")
        }
        Reason::ValueTooLarge => {
            (rejected(ValueTooLarge { what: "all values".into(), bytes: 2, max: 1 }), "max")
        }
        Reason::ApplicationNotFound => (rejected(ApplicationNotFound), "application"),
        Reason::UnitNotFound => (rejected(UnitNotFound { unit }), "unit"),
        Reason::MarkNotFound => (rejected(MarkNotFound { id: "m".into() }), "mark_id"),
        Reason::LimitExceeded => {
            (rejected(LimitExceeded { limit: "units_max", max: 1, what: String::new() }), "limit")
        }
        Reason::RateLimited => {
            let retry_after = Duration::from_secs(1);
            let error = aggregator::Error::Overloaded { mailbox_max: 1, retry_after };
            (ApiError::of(&app, error), "limit")
        }
        Reason::TooManyStreams => (WatchError::TooManyWatchers(1).into(), "limit"),
        Reason::NotLeader => {
            (rejected(NotLeader { unit, leader: None, lease_epoch: 1 }), "lease_epoch")
        }
        Reason::LeaseHeld => (rejected(LeaderIsExternal { leader: unit }), "holder"),
        Reason::EtagMismatch => (rejected(EtagMismatch { current: "e".into() }), "etag"),
        Reason::StaleIncarnation => {
            (rejected(IdentityError::UnitRemoved { unit, given: 1 }), "given")
        }
        Reason::OperationNotFound
        | Reason::StaleFence
        | Reason::OperationHeld
        | Reason::ResumeFirst
        | Reason::OperationState => sample_of_operation(reason),
        Reason::ResumeTokenExpired => (WatchError::Refused(ResumeError::Pruned).into(), "cause"),
        Reason::Draining => (ApiError::draining(), "retry_after_ms"),
        Reason::Internal => (ApiError::of(&app, aggregator::Error::Failed), "application"),
        Reason::StoreUnavailable | Reason::RecordCorrupt | Reason::Contention => {
            sample_of_store(reason)
        }
        Reason::MalformedRequest
        | Reason::WrongMessageCount
        | Reason::RequestTooLarge
        | Reason::UnsupportedEncoding
        | Reason::UnannouncedCompression
        | Reason::UnknownMethod
        | Reason::ServiceNotFound
        | Reason::CredentialsMissing
        | Reason::CredentialsInvalid
        | Reason::CredentialsExpired
        | Reason::ScopeDenied
        | Reason::RightsChanged
        | Reason::RevisionNotReached
        | Reason::RelayReadOnly
        | Reason::UpstreamUnavailable
        | Reason::UpstreamUndetermined
        | Reason::NamespaceOverlap
        | Reason::RequestIncomplete => unreachable!("{reason:?} is made by a layer: not in ALL"),
        Reason::HeartbeatMissed => (ApiError::silent(Duration::from_secs(30)), "silent_seconds"),
    }
}

/// Returns the sample of a reason of the store.
fn sample_of_store(reason: Reason) -> (ApiError, &'static str) {
    if reason == Reason::StoreUnavailable {
        let error = ReadError::Unavailable { reason: "away".into() };
        return (error.into(), "retry_after_ms");
    }
    if reason == Reason::Contention {
        let app = AppName::new("prod", "web").unwrap();
        return (ApiError::of(&app, aggregator::Error::Contention { attempts: 3 }), "attempts");
    }
    let (record, reason) = ("head".into(), "crc".into());
    (ReadError::Corrupt { record, reason }.into(), "record")
}

/// Returns the sample of a reason of operations.
fn sample_of_operation(reason: Reason) -> (ApiError, &'static str) {
    let (unit, id) = (UnitName::new("web/0").unwrap(), OperationId::new("up-v2").unwrap());
    let (target, state, now) = ("v2".into(), State::Failed, Timestamp::new(1));
    match reason {
        Reason::OperationNotFound => (rejected(Refused::NotFound { id }), "operation_id"),
        Reason::StaleFence => {
            (rejected(Refused::StaleFence { id, given: 1, current: 2 }), "current")
        }
        Reason::OperationHeld => {
            let held = Refused::Held { id, target, holder: unit, expire_time: now, now };
            (rejected(held), "holder")
        }
        Reason::ResumeFirst => {
            (rejected(Refused::ResumeFirst { id, target, state }), "target_version")
        }
        Reason::OperationState => {
            let reason = OperationReason::Begun;
            (rejected(Refused::PayloadLost { id, state, reason }), "state")
        }
        other => unreachable!("{other:?} is no reason of an operation"),
    }
}

#[test]
fn every_reason_carries_the_facts_of_its_message() {
    for reason in ALL {
        let (problem, fact) = sample(reason);
        let status = tonic::Status::from(problem);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!((status.code(), info.reason.as_str()), reason.wire());
        assert!(info.metadata.contains_key(fact), "{reason:?}: no {fact} in {:?}", info.metadata);
    }
}

#[test]
fn a_value_of_the_caller_is_cut() {
    let status = tonic::Status::from(ApiError::page_token(&"ä".repeat(1000)));
    let details = status.get_error_details();
    assert_eq!(details.error_info().unwrap().metadata["value"], "ä".repeat(32));
}
