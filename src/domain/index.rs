//! The index of an application's contributions by strength: a report costs O(log n).

use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::domain::name::UnitName;
use crate::domain::rank::Rank;

/// Contributions by unit, and the strongest of each unit in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    units: BTreeMap<UnitName, BTreeSet<Rank>>,
    strongest: BTreeSet<Rank>,
}

impl Index {
    /// Adds a contribution.
    pub fn insert(&mut self, rank: Rank) {
        let ranks = self.units.entry(rank.key.unit.clone()).or_default();
        match ranks.first() {
            Some(first) if *first < rank => {}
            Some(first) => {
                self.strongest.remove(first);
                self.strongest.insert(rank.clone());
            }
            None => {
                self.strongest.insert(rank.clone());
            }
        }
        ranks.insert(rank);
    }

    /// Removes a contribution.
    pub fn remove(&mut self, rank: &Rank) {
        let Some(ranks) = self.units.get_mut(&rank.key.unit) else {
            return;
        };
        ranks.remove(rank);
        if self.strongest.remove(rank)
            && let Some(next) = ranks.first()
        {
            self.strongest.insert(next.clone());
        }
        if ranks.is_empty() {
            self.units.remove(&rank.key.unit);
        }
    }

    /// Returns the contributions of one unit, the strongest first.
    pub fn of_unit(&self, unit: &UnitName) -> impl Iterator<Item = &Rank> {
        self.units.get(unit).into_iter().flatten()
    }

    /// Returns the strongest contribution of each unit, in order.
    pub fn strongest(&self) -> impl Iterator<Item = &Rank> {
        self.strongest.iter()
    }

    /// Returns every contribution, the strongest first. The cost grows with the number of items
    /// taken: a unit's second contribution is read only after its first was taken.
    pub fn ranked(&self) -> Ranked<'_> {
        Ranked {
            firsts: self.strongest.iter().peekable(),
            observers: BinaryHeap::new(),
            index: self,
        }
    }
}

/// The iterator of [`Index::ranked`].
pub struct Ranked<'a> {
    firsts: std::iter::Peekable<std::collections::btree_set::Iter<'a, Rank>>,
    observers: BinaryHeap<std::cmp::Reverse<&'a Rank>>,
    index: &'a Index,
}

impl<'a> Iterator for Ranked<'a> {
    type Item = &'a Rank;

    fn next(&mut self) -> Option<&'a Rank> {
        let observer = self.observers.peek().map(|r| r.0);
        let next = match (self.firsts.peek(), observer) {
            (Some(first), Some(observer)) if observer < *first => self.observers.pop()?.0,
            (None, Some(_)) => self.observers.pop()?.0,
            _ => self.firsts.next()?,
        };
        let ranks = self.index.units.get(&next.key.unit)?;
        let after = (std::ops::Bound::Excluded(next), std::ops::Bound::Unbounded);
        if let Some(observer) = ranks.range::<Rank, _>(after).next() {
            self.observers.push(std::cmp::Reverse(observer));
        }
        Some(next)
    }
}
