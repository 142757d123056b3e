//! The needs that the fresh contributions of an application state, as its head has them: they
//! travel with the head to every replica and every watcher.

pub mod index;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::model::name::{PartName, UnitName};
use crate::domain::model::need::Need;
use crate::domain::model::rank::{Origin, Rank};
use crate::domain::model::status::Kind;
use crate::domain::model::time::Timestamp;

/// Needs of one application that are listed: a page shows them all.
pub const STATED_NEEDS_MAX: usize = 32;

/// Bytes of their texts: every list and watch carries them with the application.
pub const STATED_NEEDS_BYTES_MAX: usize = 4096;

/// What the contributions of an application need.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatedNeeds {
    /// Each need once, that of the strongest contribution first.
    pub needs: Vec<StatedNeed>,
    /// The number of needs beyond the limits.
    pub rest_count: u32,
}

/// A need, and who states it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedNeed {
    /// The need.
    pub need: Need,
    /// The strongest contribution that states it.
    pub stated_by: StatedBy,
    /// Since when it is stated without a pause.
    pub since: Timestamp,
}

/// The contribution that states a need.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatedBy {
    /// The unit; `""` for the application itself.
    pub unit: UnitName,
    /// The component.
    pub component: PartName,
    /// The key.
    pub key: PartName,
    /// The kind of the status; `None` for a fault.
    pub kind: Option<Kind>,
    /// The target of the fault.
    pub target: Arc<str>,
}

impl StatedBy {
    fn of(rank: &Rank) -> StatedBy {
        let kind = match rank.origin {
            Origin::Reported(kind) => Some(kind),
            _ => None,
        };
        StatedBy {
            unit: rank.key.unit.clone(),
            component: rank.key.component.clone(),
            key: rank.key.key.clone(),
            kind,
            target: rank.fault.as_ref().map_or_else(|| "".into(), |fault| fault.target.clone()),
        }
    }
}

impl StatedNeeds {
    /// Lists needs, each with the rank of the strongest contribution that states it. One that was
    /// stated `before` keeps its start. Returns `None` if there are none.
    pub(in crate::domain) fn list(
        stated: BTreeMap<&Need, &Rank>,
        before: Option<&StatedNeeds>,
        now: Timestamp,
    ) -> Option<Arc<StatedNeeds>> {
        if stated.is_empty() {
            return None;
        }
        let mut stated: Vec<(&Need, &Rank)> = stated.into_iter().collect();
        stated.sort_by(|(need, rank), (other, other_rank)| {
            rank.cmp(other_rank).then_with(|| need.cmp(other))
        });
        let count = stated.len();
        let mut bytes = 0;
        let fits = |(need, _): &(&Need, &Rank)| {
            bytes += need.size();
            bytes <= STATED_NEEDS_BYTES_MAX
        };
        let listed = stated.into_iter().take(STATED_NEEDS_MAX).take_while(fits);
        let needs: Vec<StatedNeed> = listed
            .map(|(need, rank)| StatedNeed {
                need: need.clone(),
                stated_by: StatedBy::of(rank),
                since: before.and_then(|before| before.since(need)).unwrap_or(now),
            })
            .collect();
        let rest_count = (count - needs.len()) as u32;
        Some(Arc::new(StatedNeeds { needs, rest_count }))
    }

    /// Returns since when a need is stated, if it is listed.
    fn since(&self, need: &Need) -> Option<Timestamp> {
        self.needs.iter().find(|stated| stated.need == *need).map(|stated| stated.since)
    }
}
