//! The error table: maps every failure to its gRPC code, reason, message and details.

use std::time::Duration;

use tonic::Code;

use crate::aggregator;
use crate::domain::data::refused::{EtagMismatch, ValueTooLarge};
use crate::domain::leadership::refused::{LeaderIsExternal, LeaseHeld, NotLeader, UnitNotThere};
use crate::domain::limits::LimitExceeded;
use crate::domain::mark::refused::{MarkDiffers, MarkNotFound, MarkTimeInvalid};
use crate::domain::name::AppName;
use crate::domain::rejected::Rejected;
use crate::domain::request::IdReused;
use crate::domain::unit::refused::{IncarnationsUsedUp, UnitNotFound};
use crate::session;
use crate::store::ReadError;
use crate::watch::{ResumeError, WaitError, WatchError};

mod bound;
mod identity;
mod operation;
mod refused;

pub use bound::{
    ERROR_BYTES_MAX, MESSAGE_BYTES_MAX, QUOTED_BYTES_MAX, foreign, quoted, wire_bytes,
};
pub use refused::by_limit as refused_by_limit;

/// Domain of every `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "bellwether";

/// How long a client waits before a retry after a drain or a lost race.
const RETRY_SOON: Duration = Duration::from_millis(200);

/// How long a client waits for other clients to close their streams.
const RETRY_LATER: Duration = Duration::from_secs(5);

/// Makes [`Reason`] of a table: the meaning of each reason, its code and its name on the wire.
macro_rules! reasons {
    ($($(#[$meaning:meta])+ $reason:ident = $code:ident $name:literal;)*) => {
        /// Every reason on the wire.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[$meaning])+ $reason,)*
        }

        impl Reason {
            /// The names of all reasons.
            #[cfg(test)]
            pub const NAMES: &[&str] = &[$($name,)*];

            /// Returns the code and the name of the reason.
            pub fn wire(self) -> (Code, &'static str) {
                match self {
                    $(Reason::$reason => (Code::$code, $name),)*
                }
            }
        }
    };
}

reasons! {
    /// A name that is invalid.
    InvalidName = InvalidArgument "INVALID_NAME";
    /// A required field is missing.
    MissingField = InvalidArgument "MISSING_FIELD";
    /// A level that is not in the enum.
    UnknownLevel = InvalidArgument "UNKNOWN_LEVEL";
    /// A value outside its range.
    InvalidValue = InvalidArgument "INVALID_VALUE";
    /// A page token of another list.
    InvalidPageToken = InvalidArgument "INVALID_PAGE_TOKEN";
    /// A request id that another request has used.
    RequestIdReused = InvalidArgument "REQUEST_ID_REUSED";
    /// A text above its limit.
    MessageTooLong = InvalidArgument "MESSAGE_TOO_LONG";
    /// Bytes above their limit.
    ValueTooLarge = InvalidArgument "VALUE_TOO_LARGE";
    /// The application does not exist.
    ApplicationNotFound = NotFound "APPLICATION_NOT_FOUND";
    /// The unit does not exist.
    UnitNotFound = NotFound "UNIT_NOT_FOUND";
    /// The mark does not exist.
    MarkNotFound = NotFound "MARK_NOT_FOUND";
    /// The request would exceed a limit.
    LimitExceeded = ResourceExhausted "LIMIT_EXCEEDED";
    /// A rate, a number of calls at the same time, or a budget of bytes is at its limit.
    RateLimited = ResourceExhausted "RATE_LIMITED";
    /// Too many streams are open.
    TooManyStreams = ResourceExhausted "TOO_MANY_STREAMS";
    /// The calling unit does not lead.
    NotLeader = FailedPrecondition "NOT_LEADER";
    /// The operation does not exist.
    OperationNotFound = NotFound "OPERATION_NOT_FOUND";
    /// Another unit has acquired the operation.
    StaleFence = Aborted "STALE_FENCE";
    /// A unit holds an operation.
    OperationHeld = Aborted "OPERATION_HELD";
    /// Another operation must be finished first.
    ResumeFirst = FailedPrecondition "RESUME_FIRST";
    /// The state of the operation does not allow the call.
    OperationState = FailedPrecondition "OPERATION_STATE";
    /// The caller is not the current incarnation or session of its unit, or the unit was removed.
    StaleIncarnation = Aborted "STALE_INCARNATION";
    /// A watch cannot continue from its token; `cause` has the reason.
    ResumeTokenExpired = OutOfRange "RESUME_TOKEN_EXPIRED";
    /// The store is unreachable.
    StoreUnavailable = Unavailable "STORE_UNAVAILABLE";
    /// A relay does not serve the call; `upstream` has the address that does.
    RelayReadOnly = FailedPrecondition "RELAY_READ_ONLY";
    /// The upstream of a relay does not answer.
    UpstreamUnavailable = Unavailable "UPSTREAM_UNAVAILABLE";
    /// None of the upstreams of a relay can answer a call alone.
    UpstreamUndetermined = FailedPrecondition "UPSTREAM_UNDETERMINED";
    /// Two upstreams of a relay have one namespace.
    NamespaceOverlap = Unavailable "NAMESPACE_OVERLAP";
    /// The server is stopping.
    Draining = Unavailable "DRAINING";
    /// Concurrent commits won every attempt.
    Contention = Unavailable "CONTENTION";
    /// A record cannot be read.
    RecordCorrupt = DataLoss "RECORD_CORRUPT";
    /// A bug of the server.
    Internal = Internal "INTERNAL";
    /// Another unit leads.
    LeaseHeld = FailedPrecondition "LEASE_HELD";
    /// The data have changed since the caller read them.
    EtagMismatch = Aborted "ETAG_MISMATCH";
    /// A worker was silent for too long.
    HeartbeatMissed = DeadlineExceeded "HEARTBEAT_MISSED";
    /// A request is not a message of its method.
    MalformedRequest = InvalidArgument "MALFORMED_REQUEST";
    /// A call has another number of messages than its method.
    WrongMessageCount = Unimplemented "WRONG_MESSAGE_COUNT";
    /// A request exceeds its size limit.
    RequestTooLarge = ResourceExhausted "REQUEST_TOO_LARGE";
    /// A request has a compression that is not supported.
    UnsupportedEncoding = Unimplemented "UNSUPPORTED_ENCODING";
    /// A message is compressed, and the request names no compression.
    UnannouncedCompression = Internal "UNANNOUNCED_COMPRESSION";
    /// The server has no such method.
    UnknownMethod = Unimplemented "UNKNOWN_METHOD";
    /// The rest of a request did not arrive in time.
    RequestIncomplete = DeadlineExceeded "REQUEST_INCOMPLETE";
    /// An application did not reach a revision in time.
    RevisionNotReached = DeadlineExceeded "REVISION_NOT_REACHED";
    /// The health service does not know a name.
    ServiceNotFound = NotFound "SERVICE_NOT_FOUND";
    /// The caller presents nothing.
    CredentialsMissing = Unauthenticated "CREDENTIALS_MISSING";
    /// The caller is not known.
    CredentialsInvalid = Unauthenticated "CREDENTIALS_INVALID";
    /// The proof of a caller has ended while its call was open.
    CredentialsExpired = Unauthenticated "CREDENTIALS_EXPIRED";
    /// The caller has no grant for the call.
    ScopeDenied = PermissionDenied "SCOPE_DENIED";
    /// The caller has lost a right while its call was open.
    RightsChanged = Unavailable "RIGHTS_CHANGED";
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

    /// Adds a fact of the sentence, at most [`QUOTED_BYTES_MAX`] of it.
    #[must_use]
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Violation {
        self.add(key, &value.to_string());
        self
    }

    /// Adds a fact in place.
    pub fn add(&mut self, key: &'static str, value: &str) {
        self.facts.push((key, value[..value.floor_char_boundary(QUOTED_BYTES_MAX)].to_string()));
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

    /// Returns the sentence.
    pub fn text(&self) -> &str {
        &self.message
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

    /// Returns the failure of a request with one wrong value.
    pub fn of_value(field: &str, text: impl Into<String>) -> ApiError {
        ApiError::of_fields(vec![Violation::new(field, Reason::InvalidValue, text)])
    }

    /// Adds a number of violations that are counted, but not listed.
    #[must_use]
    pub fn and_more(mut self, count: usize) -> ApiError {
        self.left_out = count;
        self
    }

    /// Returns the failure of a request beyond a limit.
    pub fn of_limit(
        reason: Reason,
        text: impl Into<String>,
        limit: &str,
        max: impl ToString,
    ) -> ApiError {
        ApiError::new(reason, text).with("limit", limit).with("max", max)
    }

    /// Returns the refusal of a stream beyond a limit.
    pub fn too_many(text: String, limit: &'static str, max: usize) -> ApiError {
        ApiError::of_limit(Reason::TooManyStreams, text, limit, max).retry_after(RETRY_LATER)
    }

    /// Converts a failure of the aggregator for this application.
    pub fn of(app: &AppName, error: aggregator::Error) -> ApiError {
        use aggregator::Error;
        let text = error.to_string();
        let problem = match error {
            Error::Rejected(rejected) => return ApiError::of_rejected(app, &rejected),
            Error::Overloaded { mailbox_max: max, retry_after } => {
                let problem = ApiError::of_limit(Reason::RateLimited, text, "mailbox_max", max);
                problem.retry_after(retry_after)
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
        let of_limit = |limit: &str, max: u64| {
            ApiError::of_limit(Reason::LimitExceeded, rejected.to_string(), limit, max)
        };
        let problem = match rejected {
            Rejected::ApplicationNotFound(_) => return ApiError::application_not_found(app),
            Rejected::UnitNotFound(UnitNotFound { unit }) => {
                let text = format!("{app} has no unit {unit}; ListUnits lists its units");
                ApiError::new(Reason::UnitNotFound, text).with("unit", unit)
            }
            Rejected::Identity(refused) => identity::problem(refused),
            Rejected::IncarnationsUsedUp(IncarnationsUsedUp { unit }) => {
                of_limit("incarnation", u64::MAX).with("unit", unit)
            }
            Rejected::IdReused(IdReused { id, method }) => {
                new(Reason::RequestIdReused).with("request_id", id).with("method", method)
            }
            Rejected::LimitExceeded(LimitExceeded { limit, max, .. }) => {
                of_limit(limit, *max as u64)
            }
            Rejected::Operation(refused) => operation::problem(refused),
            Rejected::NotLeader(NotLeader { unit, leader, lease_epoch }) => new(Reason::NotLeader)
                .with("unit", unit)
                .with("leader", leader.as_ref().map_or("", |l| l.as_str()))
                .with("lease_epoch", lease_epoch),
            Rejected::LeaseHeld(LeaseHeld { leader, lease_epoch, ends }) => {
                let expires =
                    ends.map_or_else(String::new, |at| super::protobuf::timestamp(at).to_string());
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
            Rejected::MarkNotFound(MarkNotFound { id }) => {
                new(Reason::MarkNotFound).with("mark_id", id)
            }
            Rejected::MarkTimeInvalid(MarkTimeInvalid { field, problem }) => {
                let violation = Violation::new(*field, Reason::InvalidValue, problem.as_str());
                return ApiError::of_fields(vec![violation]);
            }
            Rejected::MarkDiffers(MarkDiffers { id }) => {
                let text = "has another kind or covers something else; give the new mark an id of \
                            its own, or remove the old one first";
                let violation = Violation::new("mark.mark_id", Reason::InvalidValue, text);
                return ApiError::of_fields(vec![violation.with("value", id)]);
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
            session::OpenError::TooMany(max) => ApiError::too_many(text, "sessions_max", max),
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

impl From<WaitError> for ApiError {
    fn from(error: WaitError) -> ApiError {
        let WaitError::TooMany(max) = error else { return ApiError::draining() };
        ApiError::of_limit(Reason::RateLimited, error.to_string(), "waiting_reads_max", max)
            .retry_after(RETRY_LATER)
    }
}

impl From<WatchError> for ApiError {
    fn from(error: WatchError) -> ApiError {
        let text = error.to_string();
        let wrong = |cause| {
            let text = text.trim_start_matches("resume_token ");
            let violation = Violation::new("resume_token", Reason::InvalidValue, text);
            ApiError::of_fields(vec![violation.with("cause", cause)])
        };
        match error {
            WatchError::Malformed => wrong("malformed"),
            WatchError::OtherFilters => wrong("other filters"),
            WatchError::Refused(why) => {
                let refused = ApiError::new(Reason::ResumeTokenExpired, text);
                let refused = refused.with("cause", why.word());
                match why {
                    ResumeError::Behind => refused.retry_after(RETRY_SOON),
                    _ => refused,
                }
            }
            WatchError::TooManyWatchers(max) => ApiError::too_many(text, "watchers_max", max),
            WatchError::TooManyFiltersOfScope(max) => {
                ApiError::too_many(text, "filters_per_scope_max", max)
            }
            WatchError::TooManyFiltersOfPeer(max) => {
                ApiError::too_many(text, "filters_per_peer_max", max)
            }
            WatchError::TooManyFilters(max) => ApiError::too_many(text, "indexed_max", max),
        }
    }
}

#[cfg(test)]
mod tests;
