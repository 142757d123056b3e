//! THE table: from every way to fail to what goes over the wire.

use std::time::Duration;

use tonic::Code;

use crate::aggregator;
use crate::domain::command::Rejected;
use crate::domain::name::AppName;
use crate::session;
use crate::store::ReadError;
use crate::watch::WatchError;

mod bound;
mod identity;
mod operation;

pub use bound::{
    ERROR_BYTES_MAX, MESSAGE_BYTES_MAX, QUOTED_BYTES_MAX, cut, foreign, quoted, wire_bytes,
};

/// Domain of every `google.rpc.ErrorInfo`.
pub const DOMAIN: &str = "bellwether";

/// Bytes of a fact that was given by the caller: enough to find it again, and no way to make an
/// error larger than clients take.
const FACT_BYTES_MAX: usize = 64;

/// How long a client that met a drain or lost a race waits before it tries again.
const RETRY_SOON: Duration = Duration::from_millis(200);

/// How long a client waits for others to close their streams.
pub(super) const RETRY_LATER: Duration = Duration::from_secs(5);

/// Every reason that goes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A name that is none.
    InvalidName,
    /// A required field is not there.
    MissingField,
    /// A level that is none of the enum.
    UnknownLevel,
    /// A value out of its range.
    InvalidValue,
    /// A page token from elsewhere.
    InvalidPageToken,
    /// The id of another request.
    RequestIdReused,
    /// A text over its limit.
    MessageTooLong,
    /// Bytes over their limit.
    ValueTooLarge,
    /// No such application.
    ApplicationNotFound,
    /// No such unit.
    UnitNotFound,
    /// A bound would be passed.
    LimitExceeded,
    /// Too much at once.
    RateLimited,
    /// Too many streams are open.
    TooManyStreams,
    /// The speaker does not lead.
    NotLeader,
    /// No such operation.
    OperationNotFound,
    /// Somebody else has taken the operation up.
    StaleFence,
    /// Somebody works on an operation.
    OperationHeld,
    /// Another operation comes first.
    ResumeFirst,
    /// The operation cannot be asked that where it stands.
    OperationState,
    /// A newer incarnation has spoken.
    StaleIncarnation,
    /// The token is too old, or of another store.
    ResumeTokenExpired,
    /// The store is away.
    StoreUnavailable,
    /// The server is stopping.
    Draining,
    /// Others were faster each time.
    Contention,
    /// A record cannot be read.
    RecordCorrupt,
    /// Somebody else leads.
    LeaseHeld,
    /// The data have changed since they were read.
    EtagMismatch,
    /// A worker was silent for too long.
    HeartbeatMissed,
    /// A request is no message of its method.
    MalformedRequest,
    /// A request is over its limit.
    RequestTooLarge,
    /// A request is compressed in a way that is not supported.
    UnsupportedEncoding,
    /// The server has no such method.
    UnknownMethod,
    /// The rest of a request did not arrive in time.
    RequestIncomplete,
    /// A revision was not reached in time.
    RevisionNotReached,
    /// No service of that name has a health.
    ServiceNotFound,
}

impl Reason {
    /// Code and name of each.
    pub fn wire(self) -> (Code, &'static str) {
        use Code::{
            Aborted, DataLoss, DeadlineExceeded, FailedPrecondition, InvalidArgument, NotFound,
            OutOfRange, ResourceExhausted, Unavailable, Unimplemented,
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
            Reason::RecordCorrupt => (DataLoss, "RECORD_CORRUPT"),
            Reason::HeartbeatMissed => (DeadlineExceeded, "HEARTBEAT_MISSED"),
            Reason::MalformedRequest => (InvalidArgument, "MALFORMED_REQUEST"),
            Reason::RequestTooLarge => (ResourceExhausted, "REQUEST_TOO_LARGE"),
            Reason::UnsupportedEncoding => (Unimplemented, "UNSUPPORTED_ENCODING"),
            Reason::UnknownMethod => (Unimplemented, "UNKNOWN_METHOD"),
            Reason::RequestIncomplete => (DeadlineExceeded, "REQUEST_INCOMPLETE"),
            Reason::RevisionNotReached => (DeadlineExceeded, "REVISION_NOT_REACHED"),
            Reason::ServiceNotFound => (NotFound, "SERVICE_NOT_FOUND"),
        }
    }
}

/// What is wrong with one field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field: `statuses[3].component`.
    pub field: String,
    /// What kind of wrong.
    pub reason: Reason,
    /// The rest of a sentence that begins with the field.
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

    /// The same in place.
    pub fn add(&mut self, key: &'static str, value: &str) {
        self.facts.push((key, value[..value.floor_char_boundary(FACT_BYTES_MAX)].to_string()));
    }
}

/// A failure on its way out: the text alone says what to do, the details say it to programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    reason: Reason,
    message: String,
    metadata: Vec<(&'static str, String)>,
    violations: Vec<Violation>,
    /// Violations that are counted, not listed.
    left_out: usize,
    retry_after: Option<Duration>,
}

impl Problem {
    /// A failure with nothing but its reason and a text.
    pub fn new(reason: Reason, message: impl Into<String>) -> Problem {
        Problem {
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
    pub fn with(mut self, key: &'static str, value: impl ToString) -> Problem {
        self.metadata.push((key, value.to_string()));
        self
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Problem {
        self.retry_after = Some(after);
        self
    }

    /// A request of which these fields are wrong. The first one names the reason and the facts.
    pub fn of_fields(violations: Vec<Violation>) -> Problem {
        let reason = violations.first().map_or(Reason::InvalidValue, |v| v.reason);
        let mut problem = Problem::new(reason, String::new());
        if let Some(first) = violations.first() {
            problem = problem.with("field", &first.field).with("violations", violations.len());
            problem.metadata.extend(first.facts.iter().cloned());
        }
        Problem { violations, ..problem }
    }

    /// Counts violations that are not listed.
    #[must_use]
    pub fn and_more(mut self, count: usize) -> Problem {
        self.left_out = count;
        self
    }

    /// A failure of the aggregator about this application.
    pub fn of(app: &AppName, error: aggregator::Error) -> Problem {
        use aggregator::Error;
        let text = error.to_string();
        let problem = match error {
            Error::Rejected(rejected) => return Problem::of_rejected(app, &rejected),
            Error::Overloaded { mailbox_max, retry_after } => {
                Problem::new(Reason::RateLimited, text)
                    .with("limit", "mailbox_max")
                    .with("max", mailbox_max)
                    .retry_after(retry_after)
            }
            Error::Contention { attempts } => {
                Problem::new(Reason::Contention, format!("{text}; nothing was applied, try again"))
                    .with("attempts", attempts)
                    .retry_after(RETRY_SOON)
            }
            Error::Unavailable { retry_after, .. } => Problem::new(
                Reason::StoreUnavailable,
                format!("{text}; try again: a repeated report does no harm"),
            )
            .retry_after(retry_after),
            Error::Corrupt { record, .. } => Problem::new(
                Reason::RecordCorrupt,
                format!("{text}; delete the application and let its workers report again"),
            )
            .with("record", record),
            Error::Draining => Problem::draining(),
        };
        problem.about(app)
    }

    fn of_rejected(app: &AppName, rejected: &Rejected) -> Problem {
        let text = rejected.to_string();
        match rejected {
            Rejected::ApplicationNotFound => Problem::application_not_found(app),
            Rejected::UnitNotFound { unit } => Problem::new(
                Reason::UnitNotFound,
                format!("{app} has no unit {unit}; ListUnits says which it has"),
            )
            .about(app)
            .with("unit", unit),
            Rejected::StaleIncarnation { .. }
            | Rejected::UnknownIncarnation { .. }
            | Rejected::IncarnationsUsedUp { .. }
            | Rejected::UnitRemoved { .. }
            | Rejected::SessionOver { .. }
            | Rejected::RequestIdReused { .. } => identity::problem(rejected).about(app),
            Rejected::LimitExceeded { limit, max, .. } => Problem::new(Reason::LimitExceeded, text)
                .about(app)
                .with("limit", limit)
                .with("max", max),
            Rejected::Operation(refused) => operation::problem(refused).about(app),
            Rejected::NotLeader { unit, leader, lease_epoch } => {
                let leader = leader.as_ref().map_or("", |l| l.as_str());
                Problem::new(Reason::NotLeader, text)
                    .about(app)
                    .with("unit", unit)
                    .with("leader", leader)
                    .with("lease_epoch", lease_epoch)
            }
            Rejected::LeaseHeld { leader, lease_epoch, ends } => {
                let expires =
                    ends.map_or_else(String::new, |at| super::convert::timestamp(at).to_string());
                Problem::new(Reason::LeaseHeld, text)
                    .about(app)
                    .with("holder", leader)
                    .with("lease_epoch", lease_epoch)
                    .with("expires", expires)
            }
            Rejected::LeaderIsExternal { leader } => Problem::new(Reason::LeaseHeld, text)
                .about(app)
                .with("holder", leader)
                .with("expires", ""),
            Rejected::UnitNotThere { unit } => {
                Problem::new(Reason::InvalidValue, text).about(app).with("unit", unit)
            }
            Rejected::EtagMismatch { current } => {
                Problem::new(Reason::EtagMismatch, text).about(app).with("etag", current)
            }
            Rejected::ValueTooLarge { bytes, max, .. } => Problem::new(Reason::ValueTooLarge, text)
                .about(app)
                .with("bytes", bytes)
                .with("max", max),
        }
    }

    /// There is no such application.
    pub fn application_not_found(app: &AppName) -> Problem {
        let text =
            format!("nothing has been reported about {app}; ListApplications says what there is");
        Problem::new(Reason::ApplicationNotFound, text).about(app)
    }

    /// The server is stopping.
    pub fn draining() -> Problem {
        Problem::new(Reason::Draining, aggregator::Error::Draining.to_string())
            .retry_after(RETRY_SOON)
    }

    /// What a session ended with, or why none was opened.
    pub fn of_open(app: &AppName, error: session::OpenError) -> Problem {
        let text = error.to_string();
        match error {
            session::OpenError::Refused(error) => Problem::of(app, error),
            session::OpenError::TooMany { max } => Problem::new(Reason::TooManyStreams, text)
                .with("limit", "sessions_max")
                .with("max", max)
                .retry_after(RETRY_LATER),
        }
    }

    /// A worker was not heard for this long.
    pub fn silent(ttl: Duration) -> Problem {
        let text = format!(
            "nothing was heard for {} s, or what was said was not read; connect again, and send \
             a heartbeat at every heartbeat_interval of welcome",
            ttl.as_secs()
        );
        Problem::new(Reason::HeartbeatMissed, text).with("silent_seconds", ttl.as_secs())
    }

    /// A page token that this call did not give.
    pub fn page_token(given: &str) -> Problem {
        let text = "is not from an answer to this request; start again without it";
        let violation = Violation::new("page_token", Reason::InvalidPageToken, text);
        Problem::of_fields(vec![violation.with("value", given)])
    }

    fn about(self, app: &AppName) -> Problem {
        self.with("namespace", app.namespace()).with("application", app.application())
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Problem {
        let text = error.to_string();
        match error {
            ReadError::Unavailable { .. } => {
                Problem::new(Reason::StoreUnavailable, text).retry_after(RETRY_SOON)
            }
            ReadError::Corrupt { record, .. } => {
                Problem::new(Reason::RecordCorrupt, text).with("record", record)
            }
        }
    }
}

impl From<WatchError> for Problem {
    fn from(error: WatchError) -> Problem {
        let text = error.to_string();
        match error {
            WatchError::Malformed | WatchError::OtherFilters => {
                let text = text.trim_start_matches("resume_token ");
                let cause = match error {
                    WatchError::Malformed => "malformed",
                    _ => "other filters",
                };
                let violation = Violation::new("resume_token", Reason::InvalidValue, text);
                Problem::of_fields(vec![violation.with("cause", cause)])
            }
            WatchError::OtherStore => {
                Problem::new(Reason::ResumeTokenExpired, text).with("cause", "other store")
            }
            WatchError::OtherEpoch => {
                Problem::new(Reason::ResumeTokenExpired, text).with("cause", "writes lost")
            }
            WatchError::Expired(_) => {
                Problem::new(Reason::ResumeTokenExpired, text).with("cause", "too old")
            }
            WatchError::TooManyWatchers { max } => Problem::new(Reason::TooManyStreams, text)
                .with("limit", "watchers_max")
                .with("max", max)
                .retry_after(RETRY_LATER),
            WatchError::TooManyFiltersOfScope { max } => Problem::new(Reason::TooManyStreams, text)
                .with("limit", "filters_per_scope_max")
                .with("max", max)
                .retry_after(RETRY_LATER),
            WatchError::TooManyFiltersOfPeer { max } => Problem::new(Reason::TooManyStreams, text)
                .with("limit", "filters_per_peer_max")
                .with("max", max)
                .retry_after(RETRY_LATER),
            WatchError::TooManyFilters { max } => Problem::new(Reason::TooManyStreams, text)
                .with("limit", "indexed_max")
                .with("max", max)
                .retry_after(RETRY_LATER),
        }
    }
}

impl From<Problem> for tonic::Status {
    fn from(problem: Problem) -> tonic::Status {
        bound::status(&problem)
    }
}

#[cfg(test)]
mod tests;
