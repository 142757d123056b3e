//! Files whose content is the value of an argument.

use std::path::Path;

use crate::cli::exit::UsageError;

/// Returns the content of a file.
///
/// # Errors
/// If the file cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, UsageError> {
    std::fs::read(path)
        .map_err(|error| UsageError(format!("cannot read {}: {error}", path.display())))
}
