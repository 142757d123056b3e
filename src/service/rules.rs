//! The error rules in force: of one's own and the tables, replaced as a whole while serving.

use std::sync::{Arc, PoisonError, RwLock};

use crate::domain::classify::{Evidence, Finding, Rules, classify};
use crate::telemetry::Metrics;

/// The rules in force. Cheap to clone; all clones have the same.
#[derive(Clone)]
pub struct ErrorRules {
    rules: Arc<RwLock<Arc<Rules>>>,
    metrics: Metrics,
}

impl ErrorRules {
    /// Starts with these.
    pub fn new(rules: Rules, metrics: Metrics) -> ErrorRules {
        ErrorRules { rules: Arc::new(RwLock::new(Arc::new(rules))), metrics }
    }

    /// Puts others in force. What was classified before stays as it was.
    pub fn replace(&self, rules: Rules) {
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// Says what an error means, and counts it.
    pub(super) fn classify(&self, evidence: &Evidence) -> Finding {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner).clone();
        let finding = classify(&rules, evidence);
        self.metrics.error(finding.class as usize);
        finding
    }
}
