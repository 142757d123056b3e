//! The reasons for the rejection of a command: the sum of what the topics refuse.

use crate::domain::model::data::refused::{EtagMismatch, UpdateError, ValueTooLarge};
use crate::domain::model::leadership::refused::{
    ClaimError, LeaderIsExternal, LeaseError, LeaseHeld, NotLeader, OwnSetError, TransferError,
    UnitNotThere,
};
use crate::domain::model::limits::LimitExceeded;
use crate::domain::model::mark::refused::{
    MarkDiffers, MarkError, MarkNotFound, MarkTimeInvalid, UnmarkError,
};
use crate::domain::model::name::ApplicationNotFound;
use crate::domain::model::operation::refused::{OperateError, Refused};
use crate::domain::model::request::IdReused;
use crate::domain::model::unit::refused::{
    BeginError, CallbackError, IdentityError, IncarnationsUsedUp, LookupError, ReporterError,
    UnitNotFound,
};
use crate::domain::rules::delete::Error as DeleteError;
use crate::domain::rules::status::ReportError;

/// The reason for the rejection of a command. A rejected command changes nothing, with two
/// exceptions. [`LeaseHeld`] writes the contact and the waiting position of the sender. A command
/// on an operation first applies what is due to all operations, and its operation may then store a
/// next target, or become blocked or abandoned because its payload is lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum Rejected {
    /// No application of this name was reported.
    ApplicationNotFound(#[from] ApplicationNotFound),
    /// The application has no such unit.
    UnitNotFound(#[from] UnitNotFound),
    /// The sender is not the valid incarnation and session of its unit.
    Identity(#[from] IdentityError),
    /// The unit has no more incarnations.
    IncarnationsUsedUp(#[from] IncarnationsUsedUp),
    /// The id of the request was used for a different request before.
    IdReused(#[from] IdReused),
    /// The command would exceed a limit.
    LimitExceeded(#[from] LimitExceeded),
    /// The operation refuses the command.
    Operation(#[from] Refused),
    /// Another unit leads.
    LeaseHeld(#[from] LeaseHeld),
    /// Leadership is decided outside.
    LeaderIsExternal(#[from] LeaderIsExternal),
    /// The unit that is to lead is lost or has left.
    UnitNotThere(#[from] UnitNotThere),
    /// The sender does not lead.
    NotLeader(#[from] NotLeader),
    /// The data have changed since they were read.
    EtagMismatch(#[from] EtagMismatch),
    /// A part of the data is too large.
    ValueTooLarge(#[from] ValueTooLarge),
    /// A time of a mark is not possible.
    MarkTimeInvalid(#[from] MarkTimeInvalid),
    /// Another mark has the id.
    MarkDiffers(#[from] MarkDiffers),
    /// The application has no such mark.
    MarkNotFound(#[from] MarkNotFound),
}

/// Converts the errors of the commands, so that each reason is one variant of [`Rejected`],
/// whichever command met it.
macro_rules! flatten {
    ($($error:ident: $($variant:ident)|+;)+) => {$(
        impl From<$error> for Rejected {
            fn from(error: $error) -> Rejected {
                match error {
                    $($error::$variant(reason) => reason.into(),)+
                }
            }
        }
    )+};
}

flatten! {
    BeginError: Identity | Incarnations | Quota;
    CallbackError: Lookup | Identity | Quota;
    ClaimError: Identity | Quota | External | Held;
    DeleteError: Application | IdReused;
    LeaseError: Application | NotLeader;
    LookupError: Application | Unit;
    MarkError: Application | Unit | Time | Differs | Quota;
    OperateError: Refused | Quota;
    OwnSetError: NotLeader | Quota;
    ReportError: Identity | Quota;
    ReporterError: Lookup | Identity;
    TransferError: Lookup | External | NotThere;
    UnmarkError: Application | Mark;
    UpdateError: NotLeader | Etag | Size | Quota;
}
