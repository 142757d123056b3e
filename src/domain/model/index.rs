//! The index of an application's contributions by strength: a report costs O(log n).

// The hash map is only for lookups of one unit.
#![allow(clippy::disallowed_types)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::iter::Peekable;

use crate::domain::model::mark::tally::Tally;
use crate::domain::model::name::UnitName;
use crate::domain::model::rank::Rank;
use crate::domain::model::sorted;
use crate::domain::model::sorted::Sorted;

/// Contributions by unit, and the strongest of each unit in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// No set is empty.
    units: HashMap<UnitName, Sorted<Rank>, foldhash::fast::RandomState>,
    strongest: Sorted<Rank>,
    /// Counts by level, while planned work covers something.
    tally: Option<Box<Tally>>,
}

impl Index {
    /// Returns an empty index that counts its contributions by level.
    pub fn tallied() -> Index {
        Index { tally: Some(Box::default()), ..Index::default() }
    }

    /// Returns the counts by level, if they are kept.
    pub fn tally(&self) -> Option<&Tally> {
        self.tally.as_deref()
    }

    /// Adds a contribution.
    pub fn insert(&mut self, rank: Rank) {
        let key = rank.key.clone();
        self.replace(&key.unit, None, Some(rank));
    }

    /// Removes a contribution.
    pub fn remove(&mut self, rank: &Rank) {
        self.replace(&rank.key.unit, Some(rank), None);
    }

    /// Replaces a contribution of a unit, with one lookup of the unit.
    pub fn replace(&mut self, unit: &UnitName, old: Option<&Rank>, new: Option<Rank>) {
        let ranks = match self.units.get_mut(unit) {
            Some(ranks) => ranks,
            None => self.units.entry(unit.clone()).or_default(),
        };
        let before = ranks.first().cloned();
        if let Some(tally) = &mut self.tally {
            old.into_iter().for_each(|old| tally.subtract(old));
            new.iter().for_each(|new| tally.add(new));
        }
        if let Some(old) = old {
            ranks.remove(old);
        }
        if let Some(new) = new {
            ranks.insert(new);
        }
        let (before, after) = (before.as_ref(), ranks.first());
        // An equal contribution may differ in fields that are not compared.
        if before == old || before != after {
            if let Some(before) = before {
                self.strongest.remove(before);
            }
            if let Some(after) = after {
                self.strongest.insert(after.clone());
            }
        }
        if ranks.is_empty() {
            self.units.remove(unit);
        }
    }

    /// Returns the contributions of one unit, the strongest first.
    pub fn of_unit(&self, unit: &UnitName) -> impl Iterator<Item = &Rank> {
        self.units.get(unit).into_iter().flat_map(Sorted::iter)
    }

    /// Returns the strongest contribution of each unit, in order.
    pub fn strongest(&self) -> impl Iterator<Item = &Rank> {
        self.strongest.iter()
    }

    /// Returns the strongest contribution of each unit, in order, from the first that is at most as
    /// strong as this precedence and severity.
    pub fn strongest_from(&self, precedence: i32, severity: u8) -> impl Iterator<Item = &Rank> {
        let place = (Reverse(precedence), severity);
        self.strongest.skip_before(move |rank| (Reverse(rank.precedence), rank.severity) < place)
    }

    /// Returns every contribution, the strongest first. The cost grows with the number of items
    /// taken: a unit's second contribution is read only after its first was taken.
    pub fn ranked(&self) -> Ranked<'_> {
        Ranked { firsts: self.strongest.iter().peekable(), further: BinaryHeap::new(), index: self }
    }
}

/// The iterator of [`Index::ranked`].
pub struct Ranked<'a> {
    firsts: Peekable<sorted::Iter<'a, Rank>>,
    /// The next contribution of each unit whose strongest was returned.
    further: BinaryHeap<Reverse<&'a Rank>>,
    index: &'a Index,
}

impl<'a> Iterator for Ranked<'a> {
    type Item = &'a Rank;

    fn next(&mut self) -> Option<&'a Rank> {
        let other = self.further.peek().map(|r| r.0);
        let next = match (self.firsts.peek(), other) {
            (Some(first), Some(other)) if other < *first => self.further.pop()?.0,
            (None, Some(_)) => self.further.pop()?.0,
            _ => self.firsts.next()?,
        };
        let ranks = self.index.units.get(&next.key.unit)?;
        if let Some(other) = ranks.from(next).find(|other| next < *other) {
            self.further.push(Reverse(other));
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::level::Level;
    use crate::domain::model::name::PartName;
    use crate::domain::model::rank::Origin;
    use crate::domain::model::status::place::PlaceInSet;
    use crate::domain::model::status::{Kind, StatusKey};
    use crate::domain::model::time::Timestamp;

    fn rank(unit: &str, severity: u8) -> Rank {
        let unit = UnitName::new(unit).unwrap();
        let key = StatusKey::new(unit, PartName::default(), PartName::default(), Kind::Push);
        Rank {
            precedence: 0,
            severity,
            own_severity: severity,
            priority: 0,
            leads: false,
            key: Arc::new(key),
            place: PlaceInSet::NONE,
            since: Timestamp::default(),
            origin: Origin::Reported(Kind::Push),
            level: Level::Active,
            asks: false,
            flaps: false,
            fault: None,
        }
    }

    /// The rank of a contribution has fields that are not compared, and readers see them.
    #[test]
    fn an_equal_contribution_replaces_the_strongest_one() {
        let mut index = Index::default();
        let (old, new) = (rank("web/0", 1), Rank { asks: true, ..rank("web/0", 1) });
        index.insert(old.clone());
        index.insert(rank("web/0", 2));
        index.replace(&old.key.unit, Some(&old), Some(new));
        assert!(index.strongest().all(|rank| rank.asks));
        assert!(index.of_unit(&old.key.unit).next().unwrap().asks);
    }

    #[test]
    fn the_strongest_contribution_follows_replacements() {
        let (mut index, unit) = (Index::default(), rank("web/0", 0).key.unit.clone());
        let severities = |index: &Index| -> (Vec<u8>, Vec<u8>) {
            let of_unit = index.of_unit(&unit).map(|rank| rank.severity);
            (index.strongest().map(|rank| rank.severity).collect(), of_unit.collect())
        };
        let steps = [
            (None, Some(3), vec![3], vec![3]),
            (None, Some(5), vec![3], vec![3, 5]),
            (Some(5), Some(1), vec![1], vec![1, 3]),
            (Some(1), Some(4), vec![3], vec![3, 4]),
            (Some(4), None, vec![3], vec![3]),
            (Some(3), None, vec![], vec![]),
        ];
        for (old, new, strongest, of_unit) in steps {
            let [old, new] = [old, new].map(|severity| severity.map(|s| rank("web/0", s)));
            index.replace(&unit, old.as_ref(), new);
            assert_eq!(severities(&index), (strongest, of_unit));
        }
        assert_eq!(index, Index::default());
    }
}
