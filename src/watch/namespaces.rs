//! Namespaces: how the applications of each one are, counted when a reader asks.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::entry::Entry;
use super::hub::{Hub, LIST_BATCH};
use super::serving::Serving;
use crate::domain::health::freshness;
use crate::domain::level::LEVELS;

/// How the applications of a namespace are.
#[derive(Debug, Clone)]
pub struct Summary {
    /// The namespace.
    pub name: Arc<str>,
    /// Number of applications, at least 1.
    pub applications: usize,
    /// Number of applications by level, in wire order.
    pub by_level: [usize; LEVELS],
    /// Number of applications by the worst freshness of their units, in the order of
    /// [`Freshness`](crate::domain::status::Freshness).
    pub by_freshness: [usize; 4],
    /// The application with the worst severity; of equal ones the one whose level changed last, or
    /// the first by name if it needs nothing.
    pub worst: Arc<Entry>,
}

impl Summary {
    /// Counts the applications of a namespace, given by name; `None` if there are none.
    fn of(name: Arc<str>, entries: &[Arc<Entry>]) -> Option<Summary> {
        let place = |entry: &&Arc<Entry>| {
            let severity = entry.kept().severity();
            let since = (!severity.is_fine()).then_some(entry.since());
            (severity, Reverse(since))
        };
        let worst = entries.iter().min_by_key(place)?.clone();
        let (mut by_level, mut by_freshness) = ([0; LEVELS], [0; 4]);
        for entry in entries {
            by_level[entry.level() as usize] += 1;
            by_freshness[freshness(&entry.head()) as usize] += 1;
        }
        Some(Summary { name, applications: entries.len(), by_level, by_freshness, worst })
    }
}

impl Hub {
    /// Returns up to `count_max` namespaces that have applications, by name after `after`: those
    /// that `may_list` accepts.
    pub fn namespaces(
        &self,
        after: Option<&str>,
        count_max: usize,
        may_list: &dyn Fn(&str) -> bool,
    ) -> Vec<Summary> {
        let mut found = Vec::new();
        let mut last: Option<Arc<str>> = after.map(Arc::from);
        loop {
            // The hub's lock is released between batches, as for a list.
            let names = self.names_after(last.as_deref(), LIST_BATCH);
            let Some(newest) = names.last() else { return found };
            last = Some(newest.clone());
            for name in names.into_iter().filter(|name| may_list(name)) {
                if found.len() == count_max {
                    return found;
                }
                let entries = self.list(Some(&name), None, &BTreeSet::new(), usize::MAX);
                found.extend(Summary::of(name, &entries));
            }
        }
    }

    fn names_after(&self, name: Option<&str>, count_max: usize) -> Vec<Arc<str>> {
        let state = self.locked();
        state.namespaces.after(name).take(count_max).cloned().collect()
    }

    /// Returns how many applications of a namespace serve; `None` if it has none.
    pub fn serving(&self, namespace: &str) -> Option<Serving> {
        self.locked().namespaces.of(namespace)
    }
}
