//! Custom rules as data, and the registered pairs that prove a target gone.

use std::collections::BTreeSet;

use crate::domain::classify::finding::{ErrorOrigin, Evidence};
use crate::domain::classify::rule::Rule;

/// A registered pair of domain and reason: from the owner of a target it proves that the target is
/// gone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GonePair {
    /// The domain, as in google.rpc.ErrorInfo.
    pub domain: Box<str>,
    /// The reason, as in google.rpc.ErrorInfo.
    pub reason: Box<str>,
}

/// Custom rules, tried before the tables, and the registered pairs that prove a target gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules, in the order in which they are tried.
    pub own: Vec<Rule>,
    /// The pairs of domain and reason that prove a target gone.
    pub gone: BTreeSet<GonePair>,
}

impl Rules {
    /// Returns whether the owner of the target reports, with a registered pair, that it is gone.
    pub(in crate::domain) fn is_gone(&self, evidence: &Evidence) -> bool {
        let is_given =
            |pair: &GonePair| pair.domain == evidence.domain && pair.reason == evidence.reason;
        evidence.origin == ErrorOrigin::Peer && self.gone.iter().any(is_given)
    }
}
