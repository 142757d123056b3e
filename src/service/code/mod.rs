//! The error table: maps every failure to its gRPC code, reason, message and details.

use std::time::Duration;

use tonic::Code;

use crate::aggregator;
use crate::domain::data::refused::{EtagMismatch, ValueTooLarge};
use crate::domain::leadership::refused::{LeaderIsExternal, LeaseHeld, NotLeader, UnitNotThere};
use crate::domain::name::AppName;
use crate::domain::quota::LimitExceeded;
use crate::domain::rejected::Rejected;
use crate::domain::request::IdReused;
use crate::domain::unit::refused::{IncarnationsUsedUp, UnitNotFound};
use crate::session;
use crate::store::ReadError;
use crate::watch::WatchError;

mod bound;
mod identity;
mod operation;
mod refused;

pub use bound::{
    ERROR_BYTES_MAX, MESSAGE_BYTES_MAX, QUOTED_BYTES_MAX, cut, foreign, quoted, wire_bytes,
};
pub use refused::by_limit as refused_by_limit;

/// Domain of every `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "bellwether";

/// Maximum bytes of a fact that the caller gave: enough to recognize it, and too few to make an
/// error larger than clients accept.
const FACT_BYTES_MAX: usize = 64;

/// How long a client waits before a retry after a drain or a lost race.
const RETRY_SOON: Duration = Duration::from_millis(200);

/// How long a client waits for other clients to close their streams.
pub(super) const RETRY_LATER: Duration = Duration::from_secs(5);

/// Every reason on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A name that is invalid.
    InvalidName,
    /// A required field is missing.
    MissingField,
    /// A level that is not in the enum.
    UnknownLevel,
    /// A value outside its range.
    InvalidValue,
    /// A page token of another list.
    InvalidPageToken,
    /// A request id that another request has used.
    RequestIdReused,
    /// A text above its limit.
    MessageTooLong,
    /// Bytes above their limit.
    ValueTooLarge,
    /// The application does not exist.
    ApplicationNotFound,
    /// The unit does not exist.
    UnitNotFound,
    /// The request would exceed a limit.
    LimitExceeded,
    /// Too many requests at the same time.
    RateLimited,
    /// Too many streams are open.
    TooManyStreams,
    /// The calling unit does not lead.
    NotLeader,
    /// The operation does not exist.
    OperationNotFound,
    /// Another unit has acquired the operation.
    StaleFence,
    /// A unit holds an operation.
    OperationHeld,
    /// Another operation must be finished first.
    ResumeFirst,
    /// The state of the operation does not allow the call.
    OperationState,
    /// A newer incarnation of the unit has reported.
    StaleIncarnation,
    /// The token is too old, or of another store.
    ResumeTokenExpired,
    /// The store is unreachable.
    StoreUnavailable,
    /// The server is stopping.
    Draining,
    /// Concurrent commits won every attempt.
    Contention,
    /// A record cannot be read.
    RecordCorrupt,
    /// A bug of the server.
    Internal,
    /// Another unit leads.
    LeaseHeld,
    /// The data have changed since the caller read them.
    EtagMismatch,
    /// A worker was silent for too long.
    HeartbeatMissed,
    /// A request is not a message of its method.
    MalformedRequest,
    /// A call has another number of messages than its method.
    WrongMessageCount,
    /// A request exceeds its size limit.
    RequestTooLarge,
    /// A request has a compression that is not supported.
    UnsupportedEncoding,
    /// A message is compressed, and the request names no compression.
    UnannouncedCompression,
    /// The server has no such method.
    UnknownMethod,
    /// The rest of a request did not arrive in time.
    RequestIncomplete,
    /// An application did not reach a revision in time.
    RevisionNotReached,
    /// The health service does not know a name.
    ServiceNotFound,
    /// The caller presents nothing.
    CredentialsMissing,
    /// The caller is not known.
    CredentialsInvalid,
    /// The proof of a caller has ended while its call was open.
    CredentialsExpired,
    /// The caller has no grant for the call.
    ScopeDenied,
    /// The caller has lost a right while its call was open.
    RightsChanged,
}

impl Reason {
    /// Returns the code and the name of the reason.
    pub fn wire(self) -> (Code, &'static str) {
        use Code::{
            Aborted, DataLoss, DeadlineExceeded, FailedPrecondition, Internal, InvalidArgument,
            NotFound, OutOfRange, PermissionDenied, ResourceExhausted, Unauthenticated,
            Unavailable, Unimplemented,
        };
        match self {
            Reason::InvalidName => (InvalidArgument, "INVALID_NAME"),
            Reason::MissingField => (InvalidArgument, "MISSING_FIELD"),
            Reason::UnknownLevel => (InvalidArgument, "UNKNOWN_LEVEL"),
            Reason::InvalidValue => (InvalidArgument, "INVALID_VALUE"),
            Reason::InvalidPageToken => (InvalidArgument, "INVALID_PAGE_TOKEN"),
            Reason::RequestIdReused => (InvalidArgument, "REQUEST_ID_REUSED"),
            Reason::MessageTooLong => (InvalidArgument, "MESSAGE_TOO_LONG"),
            Reason::ValueTooLarge => (InvalidArgument, "VALUE_TOO_LARGE"),
            Reason::ApplicationNotFound => (NotFound, "APPLICATION_NOT_FOUND"),
            Reason::UnitNotFound => (NotFound, "UNIT_NOT_FOUND"),
            Reason::LimitExceeded => (ResourceExhausted, "LIMIT_EXCEEDED"),
            Reason::RateLimited => (ResourceExhausted, "RATE_LIMITED"),
            Reason::TooManyStreams => (ResourceExhausted, "TOO_MANY_STREAMS"),
            Reason::NotLeader => (FailedPrecondition, "NOT_LEADER"),
            Reason::OperationNotFound => (NotFound, "OPERATION_NOT_FOUND"),
            Reason::StaleFence => (Aborted, "STALE_FENCE"),
            Reason::OperationHeld => (Aborted, "OPERATION_HELD"),
            Reason::ResumeFirst => (FailedPrecondition, "RESUME_FIRST"),
            Reason::OperationState => (FailedPrecondition, "OPERATION_STATE"),
            Reason::LeaseHeld => (FailedPrecondition, "LEASE_HELD"),
            Reason::EtagMismatch => (Aborted, "ETAG_MISMATCH"),
            Reason::StaleIncarnation => (Aborted, "STALE_INCARNATION"),
            Reason::ResumeTokenExpired => (OutOfRange, "RESUME_TOKEN_EXPIRED"),
            Reason::StoreUnavailable => (Unavailable, "STORE_UNAVAILABLE"),
            Reason::Draining => (Unavailable, "DRAINING"),
            Reason::Contention => (Unavailable, "CONTENTION"),
            Reason::Internal => (Internal, "INTERNAL"),
            Reason::RecordCorrupt => (DataLoss, "RECORD_CORRUPT"),
            Reason::HeartbeatMissed => (DeadlineExceeded, "HEARTBEAT_MISSED"),
            Reason::MalformedRequest => (InvalidArgument, "MALFORMED_REQUEST"),
            Reason::WrongMessageCount => (Unimplemented, "WRONG_MESSAGE_COUNT"),
            Reason::RequestTooLarge => (ResourceExhausted, "REQUEST_TOO_LARGE"),
            Reason::UnsupportedEncoding => (Unimplemented, "UNSUPPORTED_ENCODING"),
            Reason::UnannouncedCompression => (Internal, "UNANNOUNCED_COMPRESSION"),
            Reason::UnknownMethod => (Unimplemented, "UNKNOWN_METHOD"),
            Reason::RequestIncomplete => (DeadlineExceeded, "REQUEST_INCOMPLETE"),
            Reason::RevisionNotReached => (DeadlineExceeded, "REVISION_NOT_REACHED"),
            Reason::ServiceNotFound => (NotFound, "SERVICE_NOT_FOUND"),
            Reason::CredentialsMissing => (Unauthenticated, "CREDENTIALS_MISSING"),
            Reason::CredentialsInvalid => (Unauthenticated, "CREDENTIALS_INVALID"),
            Reason::CredentialsExpired => (Unauthenticated, "CREDENTIALS_EXPIRED"),
            Reason::ScopeDenied => (PermissionDenied, "SCOPE_DENIED"),
            Reason::RightsChanged => (Unavailable, "RIGHTS_CHANGED"),
        }
    }
}

/// What is wrong with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field: `statuses[3].component`.
    pub field: String,
    /// Reason of the violation.
    pub reason: Reason,
    /// Rest of a sentence that begins with the field.
    pub description: String,
    /// Facts of the sentence, for programs: `value`, `max`.
    pub facts: Vec<(&'static str, String)>,
}

impl Violation {
    /// A violation without facts.
    pub fn new(field: impl Into<String>, reason: Reason, text: impl Into<String>) -> Violation {
        Violation { field: field.into(), reason, description: text.into(), facts: Vec::new() }
    }

    /// Adds a fact of the sentence, at most 64 bytes of it.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Violation {
        self.add(key, &value.to_string());
        self
    }

    /// Adds a fact in place.
    pub fn add(&mut self, key: &'static str, value: &str) {
        self.facts.push((key, value[..value.floor_char_boundary(FACT_BYTES_MAX)].to_string()));
    }
}

/// A failure on its way to the client. The text alone is enough to act on; the details have the
/// same facts for programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    reason: Reason,
    message: String,
    metadata: Vec<(&'static str, String)>,
    violations: Vec<Violation>,
    /// Violations that are counted, but not listed.
    left_out: usize,
    retry_after: Option<Duration>,
}

impl ApiError {
    /// Returns a failure that has only a reason and a text.
    pub fn new(reason: Reason, message: impl Into<String>) -> ApiError {
        ApiError {
            reason,
            message: message.into(),
            metadata: Vec::new(),
            violations: Vec::new(),
            left_out: 0,
            retry_after: None,
        }
    }

    /// Adds a fact of the text.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> ApiError {
        self.metadata.push((key, value.to_string()));
        self
    }

    /// Sets the time to wait before a retry.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> ApiError {
        self.retry_after = Some(after);
        self
    }

    /// Returns the failure of a request with wrong fields. The first violation determines the
    /// reason and the facts.
    pub fn of_fields(violations: Vec<Violation>) -> ApiError {
        let reason = violations.first().map_or(Reason::InvalidValue, |v| v.reason);
        let mut problem = ApiError::new(reason, String::new());
        if let Some(first) = violations.first() {
            problem = problem.with("field", &first.field).with("violations", violations.len());
            problem.metadata.extend(first.facts.iter().cloned());
        }
        ApiError { violations, ..problem }
    }

    /// Adds a number of violations that are counted, but not listed.
    #[must_use]
    pub fn and_more(mut self, count: usize) -> ApiError {
        self.left_out = count;
        self
    }

    /// Returns the refusal of a stream beyond a limit.
    pub fn too_many(text: String, limit: &'static str, max: usize) -> ApiError {
        ApiError::new(Reason::TooManyStreams, text)
            .with("limit", limit)
            .with("max", max)
            .retry_after(RETRY_LATER)
    }

    /// Converts a failure of the aggregator for this application.
    pub fn of(app: &AppName, error: aggregator::Error) -> ApiError {
        use aggregator::Error;
        let text = error.to_string();
        let problem = match error {
            Error::Rejected(rejected) => return ApiError::of_rejected(app, &rejected),
            Error::Overloaded { mailbox_max, retry_after } => {
                ApiError::new(Reason::RateLimited, text)
                    .with("limit", "mailbox_max")
                    .with("max", mailbox_max)
                    .retry_after(retry_after)
            }
            Error::Contention { attempts } => {
                ApiError::new(Reason::Contention, format!("{text}; nothing was applied, try again"))
                    .with("attempts", attempts)
                    .retry_after(RETRY_SOON)
            }
            Error::Unavailable { applied, retry_after, .. } => ApiError::new(
                Reason::StoreUnavailable,
                format!("{text}; try again: a repeated report does no harm"),
            )
            .with("applied", applied.word())
            .retry_after(retry_after),
            Error::Corrupt { record, .. } => ApiError::new(
                Reason::RecordCorrupt,
                format!(
                    "{text}; if a newer version of bellwether wrote it, use that version, \
                     else delete the application and let its workers report again"
                ),
            )
            .with("record", record),
            Error::Failed => ApiError::new(Reason::Internal, text),
            Error::Draining => ApiError::draining(),
        };
        problem.about(app)
    }

    fn of_rejected(app: &AppName, rejected: &Rejected) -> ApiError {
        let new = |reason| ApiError::new(reason, rejected.to_string());
        let problem = match rejected {
            Rejected::ApplicationNotFound(_) => return ApiError::application_not_found(app),
            Rejected::UnitNotFound(UnitNotFound { unit }) => {
                let text = format!("{app} has no unit {unit}; ListUnits lists its units");
                ApiError::new(Reason::UnitNotFound, text).with("unit", unit)
            }
            Rejected::Identity(refused) => identity::problem(refused),
            Rejected::IncarnationsUsedUp(IncarnationsUsedUp { unit }) => new(Reason::LimitExceeded)
                .with("limit", "incarnation")
                .with("max", u64::MAX)
                .with("unit", unit),
            Rejected::IdReused(IdReused { id, method }) => {
                new(Reason::RequestIdReused).with("request_id", id).with("method", method)
            }
            Rejected::LimitExceeded(LimitExceeded { limit, max, .. }) => {
                new(Reason::LimitExceeded).with("limit", limit).with("max", max)
            }
            Rejected::Operation(refused) => operation::problem(refused),
            Rejected::NotLeader(NotLeader { unit, leader, lease_epoch }) => new(Reason::NotLeader)
                .with("unit", unit)
                .with("leader", leader.as_ref().map_or("", |l| l.as_str()))
                .with("lease_epoch", lease_epoch),
            Rejected::LeaseHeld(LeaseHeld { leader, lease_epoch, ends }) => {
                let expires =
                    ends.map_or_else(String::new, |at| super::convert::timestamp(at).to_string());
                new(Reason::LeaseHeld)
                    .with("holder", leader)
                    .with("lease_epoch", lease_epoch)
                    .with("expires", expires)
            }
            Rejected::LeaderIsExternal(LeaderIsExternal { leader }) => {
                new(Reason::LeaseHeld).with("holder", leader).with("expires", "")
            }
            Rejected::UnitNotThere(UnitNotThere { unit }) => {
                new(Reason::InvalidValue).with("unit", unit)
            }
            Rejected::EtagMismatch(EtagMismatch { current }) => {
                new(Reason::EtagMismatch).with("etag", current)
            }
            Rejected::ValueTooLarge(ValueTooLarge { bytes, max, .. }) => {
                new(Reason::ValueTooLarge).with("bytes", bytes).with("max", max)
            }
        };
        problem.about(app)
    }

    /// Returns the failure for an application that does not exist.
    pub fn application_not_found(app: &AppName) -> ApiError {
        let text =
            format!("{app} has no reports; ListApplications lists the applications that exist");
        ApiError::new(Reason::ApplicationNotFound, text).about(app)
    }

    /// Returns the failure of a server that is shutting down.
    pub fn draining() -> ApiError {
        ApiError::new(Reason::Draining, aggregator::Error::Draining.to_string())
            .retry_after(RETRY_SOON)
    }

    /// Converts the reason why a session was not opened.
    pub fn of_open(app: &AppName, error: session::OpenError) -> ApiError {
        let text = error.to_string();
        match error {
            session::OpenError::Refused(error) => ApiError::of(app, error),
            session::OpenError::TooMany { max } => ApiError::too_many(text, "sessions_max", max),
        }
    }

    /// Returns the failure of a worker that was silent for `ttl`.
    pub fn silent(ttl: Duration) -> ApiError {
        let text = format!(
            "the server received nothing for {} s, or its messages were not read; connect again, \
             and send a heartbeat at every heartbeat_interval of welcome",
            ttl.as_secs()
        );
        ApiError::new(Reason::HeartbeatMissed, text).with("silent_seconds", ttl.as_secs())
    }

    /// Returns the failure for a page token that this call did not issue.
    pub fn page_token(given: &str) -> ApiError {
        let text = "is not from an answer to this request; start again without it";
        let violation = Violation::new("page_token", Reason::InvalidPageToken, text);
        ApiError::of_fields(vec![violation.with("value", given)])
    }

    /// Adds the names of the application.
    pub(super) fn about(self, app: &AppName) -> ApiError {
        self.with("namespace", app.namespace()).with("application", app.application())
    }
}

impl From<ReadError> for ApiError {
    fn from(error: ReadError) -> ApiError {
        let text = error.to_string();
        match error {
            ReadError::Unavailable { .. } => {
                ApiError::new(Reason::StoreUnavailable, text).retry_after(RETRY_SOON)
            }
            ReadError::Corrupt { record, .. } => {
                ApiError::new(Reason::RecordCorrupt, text).with("record", record)
            }
        }
    }
}

impl From<WatchError> for ApiError {
    fn from(error: WatchError) -> ApiError {
        let text = error.to_string();
        match error {
            WatchError::Malformed | WatchError::OtherFilters => {
                let text = text.trim_start_matches("resume_token ");
                let cause = match error {
                    WatchError::Malformed => "malformed",
                    _ => "other filters",
                };
                let violation = Violation::new("resume_token", Reason::InvalidValue, text);
                ApiError::of_fields(vec![violation.with("cause", cause)])
            }
            WatchError::OtherStore => {
                ApiError::new(Reason::ResumeTokenExpired, text).with("cause", "other store")
            }
            WatchError::OtherEpoch => {
                ApiError::new(Reason::ResumeTokenExpired, text).with("cause", "writes lost")
            }
            WatchError::Expired(_) => {
                ApiError::new(Reason::ResumeTokenExpired, text).with("cause", "too old")
            }
            WatchError::TooManyWatchers { max } => ApiError::too_many(text, "watchers_max", max),
            WatchError::TooManyFiltersOfScope { max } => {
                ApiError::too_many(text, "filters_per_scope_max", max)
            }
            WatchError::TooManyFiltersOfPeer { max } => {
                ApiError::too_many(text, "filters_per_peer_max", max)
            }
            WatchError::TooManyFilters { max } => ApiError::too_many(text, "indexed_max", max),
        }
    }
}

#[cfg(test)]
mod tests;
