//! Whether an application and a unit exist.

use crate::domain::draft::Draft;
use crate::domain::model::name::{ApplicationNotFound, UnitName};
use crate::domain::model::unit::refused::{LookupError, UnitNotFound};

/// Rejects a command for an application that does not exist.
pub fn exists(draft: &Draft<'_>) -> Result<(), ApplicationNotFound> {
    match draft.head.deleted && !draft.head.is_visible() {
        true => Err(ApplicationNotFound),
        false => Ok(()),
    }
}

/// Rejects a command for a unit that does not exist.
pub fn unit_exists(draft: &Draft<'_>, name: &UnitName) -> Result<(), LookupError> {
    exists(draft)?;
    match draft.unit(name) {
        Some(_) => Ok(()),
        None => Err(UnitNotFound { unit: name.clone() }.into()),
    }
}
