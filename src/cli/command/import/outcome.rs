//! The result of an import, and what is printed of it.

use std::collections::BTreeSet;

use crate::cli::context::say;
use crate::cli::render::counted;

/// Names in one line: those of a model of usual size.
const NAMES_MAX: usize = 100;

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOutcome {
    /// Namespaces in the document.
    pub namespace_count: usize,
    /// Applications in the document.
    pub application_count: usize,
    /// Units in the document.
    pub unit_count: usize,
    /// Applications and units that changed.
    pub changed: BTreeSet<String>,
    /// Applications and units that were removed.
    pub removed: BTreeSet<String>,
    /// Facts of the document that concern no unit and no application.
    pub notes: Vec<String>,
    /// Number of facts that no status shows, in words.
    pub unshown: Option<String>,
    /// What the document lacks and the import did not remove, as it is more than half.
    pub kept: Vec<String>,
}

impl ImportOutcome {
    /// Returns whether the import had an effect.
    pub fn is_news(&self) -> bool {
        !self.changed.is_empty() || !self.removed.is_empty()
    }

    /// Fails if the document lacks more than half of what was imported.
    ///
    /// # Errors
    /// The names, and what to do.
    pub fn check_kept(&self, whole: &str) -> anyhow::Result<()> {
        if self.kept.is_empty() {
            return Ok(());
        }
        anyhow::bail!(
            "the document lacks more than half of what was imported, which stays: {}; \
             import {whole}, or remove them with --prune",
            names(&self.kept)
        )
    }
}

/// Prints the notes.
pub fn say_notes(outcome: &ImportOutcome) {
    let notes = outcome.notes.iter().chain(&outcome.unshown);
    notes.for_each(|note| say(&format!("note: {note}")));
}

/// Prints what the import did.
pub fn say_result(outcome: &ImportOutcome, namespace: Option<&str>) {
    if !outcome.removed.is_empty() {
        say(&format!("removed: {}", names(&outcome.removed)));
    }
    say(&summary(outcome, namespace));
}

/// Formats `db, web/0 and 3 more`.
pub fn names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    match names.len().checked_sub(NAMES_MAX).filter(|more| 0 < *more) {
        Some(more) => format!("{} and {more} more", names[..NAMES_MAX].join(", ")),
        None => names.join(", "),
    }
}

/// Formats `imported 3 applications, 4 units into namespace tt (2 changed, 1 removed); ...`. There
/// are several namespaces if none is given.
pub fn summary(outcome: &ImportOutcome, namespace: Option<&str>) -> String {
    let news = if outcome.is_news() {
        format!("{} changed, {} removed", outcome.changed.len(), outcome.removed.len())
    } else {
        "nothing changed".to_string()
    };
    let applications = counted(outcome.application_count, "application", "applications");
    let units = counted(outcome.unit_count, "unit", "units");
    let (place, option) = match namespace {
        Some(namespace) => (format!("namespace {namespace}"), format!("-n {namespace} status")),
        None => (
            counted(outcome.namespace_count, "namespace", "namespaces"),
            "status --all-namespaces".to_string(),
        ),
    };
    format!("imported {applications}, {units} into {place} ({news}); see: bellwether {option}")
}
