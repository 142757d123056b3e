//! The error rules in force: custom rules and the built-in tables, replaceable as a whole at run
//! time.

use std::sync::{Arc, RwLock};

use crate::domain::classify::finding::{Evidence, Finding};
use crate::domain::classify::{Rules, classify};
use crate::sync::{read, write};
use crate::telemetry::Metrics;

/// The rules in force. Cheap to clone; all clones share the same rules.
#[derive(Clone)]
pub struct ErrorRules {
    rules: Arc<RwLock<Arc<Rules>>>,
    metrics: Metrics,
}

impl ErrorRules {
    /// Creates the rules in force.
    pub fn new(rules: Rules, metrics: Metrics) -> ErrorRules {
        ErrorRules { rules: Arc::new(RwLock::new(Arc::new(rules))), metrics }
    }

    /// Replaces the rules. Errors that are already classified keep their class.
    pub fn replace(&self, rules: Rules) {
        *write(&self.rules) = Arc::new(rules);
    }

    /// Classifies an error, and counts it.
    pub(super) fn classify(&self, evidence: &Evidence) -> Finding {
        let rules = read(&self.rules).clone();
        let finding = classify(&rules, evidence);
        self.metrics.error(finding.class);
        finding
    }
}
