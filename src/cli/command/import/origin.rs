//! Where imported statuses come from. Each has a label with it, by which a later import recognises
//! what it may change: statuses of another origin, and those of a worker, are never touched.

use std::time::Duration;

use crate::cli::render::origin::IMPORTED_FROM;
use crate::cli::span;
use crate::proto::v1::{StatusRecord, StatusReport};

/// A source, and the part of the world that its documents are about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the source: `juju`.
    pub source: &'static str,
    /// The host or cluster, if several may import into one namespace.
    pub scope: Option<String>,
    /// Whether the source decides the leaders of its applications. An import then configures each
    /// of them, so an application with a leader from outside was imported.
    pub decides_leaders: bool,
}

impl Origin {
    /// Returns the value of the label: `juju`, or `systemd/db-1`.
    pub fn label(&self) -> String {
        match &self.scope {
            Some(scope) => format!("{}/{scope}", self.source),
            None => self.source.to_string(),
        }
    }

    /// Returns the name of the application that shows a failing import: `import.juju`. No source
    /// has applications of this name.
    pub fn application(&self) -> String {
        format!("import.{}", self.source)
    }

    /// Returns the unit of that application.
    pub fn unit(&self) -> String {
        format!("{}/{}", self.application(), self.scope.as_deref().unwrap_or("0"))
    }

    /// Marks statuses as imported, and limits how long they are valid without another import.
    pub fn mark(&self, statuses: &mut [StatusReport], ttl: Option<Duration>) {
        for status in statuses {
            status.labels.insert(IMPORTED_FROM.to_string(), self.label());
            status.ttl = ttl.map(span::on_wire);
        }
    }

    /// Returns whether an earlier import from here reported a status.
    pub fn has_marked(&self, record: &StatusRecord) -> bool {
        let label = record.report.as_ref().and_then(|report| report.labels.get(IMPORTED_FROM));
        label.is_some_and(|value| *value == self.label())
    }
}
