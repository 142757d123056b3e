//! A kind of document that can be imported.

use crate::cli::command::import::facts::ImportFacts;
use crate::cli::command::import::origin::Origin;

/// Reads the facts of a document.
pub type ReadFacts = Box<dyn Fn(&str) -> anyhow::Result<ImportFacts>>;

/// A kind of document: where its facts come from, and how they are read.
pub struct Format {
    /// Where the statuses come from.
    pub origin: Origin,
    /// The command line that prints a document and imports it.
    pub example: &'static str,
    /// What a document must contain: `the whole model`.
    pub whole: &'static str,
    /// Limit of a document in bytes.
    pub bytes_max: u64,
    /// The namespace of the application that shows a failing import, if the documents have several
    /// namespaces.
    pub own_namespace: Option<String>,
    /// Reads a document. It is read to its end before the first call, so a document with a mistake
    /// changes nothing.
    pub read: ReadFacts,
}
