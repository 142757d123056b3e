//! `bellwether import juju`: the statuses of `juju status --format json`.
//!
//! ```text
//!  text --json--> node --document--> Document --facts--> ImportFacts
//!                                              (word: the table)
//! ```

mod account;
mod document;
mod facts;
mod node;
mod status;
mod surroundings;
mod word;

#[cfg(test)]
mod accounted;
#[cfg(test)]
mod tests;

use crate::cli::command::import::facts::ImportFacts;
use crate::cli::command::import::format::Format;
use crate::cli::command::import::origin::Origin;

/// Limit of a document in bytes. That of a model with 10,000 units has some 10 MB.
const DOCUMENT_BYTES_MAX: u64 = 64 << 20;

/// Returns the format of `juju status --format json`.
pub fn format() -> Format {
    Format {
        origin: origin(),
        example: "juju status --format json | bellwether import juju",
        whole: "the whole model",
        bytes_max: DOCUMENT_BYTES_MAX,
        own_namespace: None,
        read: Box::new(read),
    }
}

/// Returns the origin of what Juju says.
fn origin() -> Origin {
    Origin { source: "juju", scope: None, decides_leaders: true }
}

/// Reads a document.
///
/// # Errors
/// The place of a mistake, and what is expected there.
pub fn read(text: &str) -> anyhow::Result<ImportFacts> {
    Ok(facts::of(&document::read(text)?))
}
