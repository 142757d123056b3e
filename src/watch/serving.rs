//! How many applications of each namespace serve: updated with each change, never recounted, so
//! that the health of a namespace costs the same for any number of applications.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::store::KeptHead;

/// The applications of a namespace, and those that serve.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Serving {
    /// Number of applications.
    pub applications: u32,
    /// Number of applications that serve.
    pub serving: u32,
}

impl Serving {
    /// Returns whether every application serves.
    pub fn is_every(self) -> bool {
        self.serving == self.applications
    }
}

/// The namespaces that have applications.
#[derive(Debug, Default)]
pub(super) struct Namespaces(BTreeMap<Arc<str>, Serving>);

impl Namespaces {
    /// Takes over that an application of a namespace changed.
    pub(super) fn change(&mut self, namespace: &str, before: Option<&KeptHead>, head: &KeptHead) {
        let share = |head: &KeptHead| (!head.is_deleted()).then(|| head.serves());
        let (was, is) = (before.and_then(share), share(head));
        if was == is {
            return;
        }
        let mut counts = self.of(namespace).unwrap_or_default();
        if let Some(served) = was {
            counts.applications -= 1;
            counts.serving -= u32::from(served);
        }
        if let Some(serves) = is {
            counts.applications += 1;
            counts.serving += u32::from(serves);
        }
        if counts.applications == 0 {
            self.0.remove(namespace);
        } else if let Some(known) = self.0.get_mut(namespace) {
            *known = counts;
        } else {
            self.0.insert(Arc::from(namespace), counts);
        }
    }

    /// Returns the counts of a namespace; `None` if it has no application.
    pub(super) fn of(&self, namespace: &str) -> Option<Serving> {
        self.0.get(namespace).copied()
    }

    /// Returns the namespaces after a name, in order.
    pub(super) fn after(&self, name: Option<&str>) -> impl Iterator<Item = &Arc<str>> {
        let from = name.map_or(Unbounded, Excluded);
        self.0.range::<str, _>((from, Unbounded)).map(|(name, _)| name)
    }
}
