//! The table that closes a file of entries: `[end]` with their number. A file that was cut lacks
//! it, or has another number.

use serde::Deserialize;

/// The closing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closing {
    /// The number of entries before it.
    entries: usize,
}

impl Closing {
    /// Checks a file with this number of entries, which may have no closing table. Returns whether
    /// it has one.
    ///
    /// # Errors
    /// If the numbers differ.
    pub fn check(end: Option<Closing>, entries: usize) -> Result<bool, String> {
        match end {
            Some(Closing { entries: closed }) if closed != entries => Err(format!(
                "it has {entries} entries, and [end] says {closed}: a part of it is missing, or \
                 entries were added without a change of [end]"
            )),
            end => Ok(end.is_some()),
        }
    }

    /// Checks that a file whose contents before had the table, or had not, has it still.
    ///
    /// # Errors
    /// If it lacks the table now.
    pub fn check_kept(before: bool, now: bool) -> Result<(), String> {
        match before && !now {
            true => Err("it lacks the table [end] that it had, so its rest may be missing; write \
                         [end] with the number of entries at its end"
                .to_string()),
            false => Ok(()),
        }
    }

    /// Returns the table as text.
    pub fn text(entries: usize) -> String {
        format!("\n[end]\nentries = {entries}\n")
    }
}
