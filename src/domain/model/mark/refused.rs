//! The reasons for which a mark is refused.

use crate::domain::model::limits::LimitExceeded;
use crate::domain::model::mark::MarkId;
use crate::domain::model::name::ApplicationNotFound;
use crate::domain::model::unit::refused::UnitNotFound;

/// A time of a mark is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct MarkTimeInvalid {
    /// The field of the request.
    pub field: &'static str,
    /// What is wrong with it, with the limit.
    pub problem: String,
}

/// A mark of this id has another kind, or covers something else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "mark {id:?} has another kind or covers something else: a mark that is set again may change \
     its reason, its end and, before it begins, its start; give the new mark an id of its own"
)]
pub struct MarkDiffers {
    /// The id.
    pub id: MarkId,
}

/// The application has no mark of this id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("mark {id:?} is not known; it may have ended: ListMarks has the marks of the application")]
pub struct MarkNotFound {
    /// The requested id.
    pub id: MarkId,
}

/// The reason for which a mark is not set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum MarkError {
    /// No such application.
    Application(#[from] ApplicationNotFound),
    /// No such unit.
    Unit(#[from] UnitNotFound),
    /// A time is not possible.
    Time(#[from] MarkTimeInvalid),
    /// Another mark has the id.
    Differs(#[from] MarkDiffers),
    /// Too many marks.
    Quota(#[from] LimitExceeded),
}

/// The reason for which a mark is not removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub enum UnmarkError {
    /// No such application.
    Application(#[from] ApplicationNotFound),
    /// No such mark.
    Mark(#[from] MarkNotFound),
}
