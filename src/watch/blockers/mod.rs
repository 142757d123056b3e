//! Why, across applications: the needs that applications state, followed to their first causes.
//!
//! ```text
//!  heads of the hub --Graph--> objects and unmet needs, for one reader
//!                     circles: strongly connected components
//!                     roots:   first causes, and how many each application reaches
//!                        |-- Evaluation: what frees most, for lists
//!                        '-- chain: from one application to its first causes
//! ```
//!
//! Everything is a function of the heads and of the time: no level, commit or event depends on it.
//! An edge leads from an application that is neither active nor terminated to each object of an
//! unmet need. All needs of an application are needed, so a circle of them cannot end by itself.

mod chain;
mod circles;
mod evaluation;
mod graph;
mod roots;

#[cfg(test)]
mod tests;

pub use chain::{CauseLine, Chain};
pub use circles::{Components, Edges};
pub use evaluation::{Blocker, Evaluation, Listing};
pub use graph::{EDGES_MAX, Object, TooManyEdges};
pub use roots::CauseState;

use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::watch::hub::Hub;

/// The states of causes that a reader of everything may see, and that need help.
pub const BLOCKING: [CauseState; 6] = [
    CauseState::Person,
    CauseState::Deadlock,
    CauseState::Failed,
    CauseState::Silent,
    CauseState::NotKnown,
    CauseState::Outside,
];

/// Who may read what: the graph of a reader has only the applications that it may read.
pub type MayRead<'a> = &'a dyn Fn(&AppName) -> bool;

impl Hub {
    /// Evaluates the needs of all applications, for one reader.
    ///
    /// # Errors
    /// If the applications state more needs than [`EDGES_MAX`].
    pub fn evaluate(
        &self,
        now: Timestamp,
        may_read: MayRead<'_>,
    ) -> Result<Evaluation, TooManyEdges> {
        let entries = self.list(None, None, &std::collections::BTreeSet::new(), usize::MAX);
        Evaluation::of(&entries, now, may_read)
    }

    /// Counts the causes of each state that do not end without help, in the order of
    /// [`BLOCKING`]; `None` if the applications state too many needs.
    pub fn count_causes(&self, now: Timestamp) -> Option<[u64; BLOCKING.len()]> {
        let counts = self.evaluate(now, &|_| true).ok()?.count_by_state();
        Some(BLOCKING.map(|state| counts.get(&state).map_or(0, |count| *count as u64)))
    }

    /// Follows the needs of one application to their first causes, for one reader.
    pub fn causes(&self, app: &AppName, now: Timestamp, may_read: MayRead<'_>) -> Chain {
        Chain::of(app, &|app| self.get(app), now, may_read)
    }
}
