//! The index of an application's contributions by strength: a report costs O(log n).

// The hash map is only for lookups of one unit.
#![allow(clippy::disallowed_types)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::iter::Peekable;

use crate::domain::name::UnitName;
use crate::domain::rank::Rank;
use crate::domain::sorted::{self, Sorted};

/// Contributions by unit, and the strongest of each unit in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    /// No set is empty.
    units: HashMap<UnitName, Sorted<Rank>, foldhash::fast::RandomState>,
    strongest: Sorted<Rank>,
}

impl Index {
    /// Adds a contribution.
    pub fn insert(&mut self, rank: Rank) {
        let unit = &rank.key.unit;
        let ranks = match self.units.get_mut(unit) {
            Some(ranks) => ranks,
            None => self.units.entry(unit.clone()).or_default(),
        };
        let first = ranks.first();
        if first.is_none_or(|first| rank < *first) {
            if let Some(first) = first {
                self.strongest.remove(first);
            }
            self.strongest.insert(rank.clone());
        }
        ranks.insert(rank);
    }

    /// Removes a contribution.
    pub fn remove(&mut self, rank: &Rank) {
        let Some(ranks) = self.units.get_mut(&rank.key.unit) else { return };
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
        self.units.get(unit).into_iter().flat_map(Sorted::iter)
    }

    /// Returns the strongest contribution of each unit, in order.
    pub fn strongest(&self) -> impl Iterator<Item = &Rank> {
        self.strongest.iter()
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
