//! The index of an application's contributions by strength: a report costs O(log n).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, btree_set};
use std::iter::Peekable;
use std::slice;

use crate::domain::name::UnitName;
use crate::domain::rank::Rank;

/// Contributions by unit, and the strongest of each unit in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    units: BTreeMap<UnitName, Ranks>,
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
        self.units.get(unit).into_iter().flat_map(Ranks::iter)
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

/// The contributions of one unit, the strongest first. In a vector, because most units have a few:
/// the first element of a tree takes the memory of eleven. Quotas bound what an insertion moves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ranks(Vec<Rank>);

impl Ranks {
    fn insert(&mut self, rank: Rank) {
        let Err(place) = self.0.binary_search(&rank) else {
            return;
        };
        if self.0.len() == self.0.capacity() {
            // A vector grows to twice its size by itself, which is half empty for most of its life.
            self.0.reserve_exact(1 + self.0.len() / 8);
        }
        self.0.insert(place, rank);
    }

    fn remove(&mut self, rank: &Rank) {
        if let Ok(place) = self.0.binary_search(rank) {
            self.0.remove(place);
        }
    }

    fn first(&self) -> Option<&Rank> {
        self.0.first()
    }

    /// Returns the next weaker contribution.
    fn after(&self, rank: &Rank) -> Option<&Rank> {
        self.0.get(self.0.partition_point(|known| known <= rank))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn iter(&self) -> slice::Iter<'_, Rank> {
        self.0.iter()
    }
}

/// The iterator of [`Index::ranked`].
pub struct Ranked<'a> {
    firsts: Peekable<btree_set::Iter<'a, Rank>>,
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
        if let Some(other) = ranks.after(next) {
            self.further.push(Reverse(other));
        }
        Some(next)
    }
}
