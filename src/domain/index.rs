//! The index of an application's contributions by strength: a report costs O(log n).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::iter::Peekable;

use crate::domain::name::UnitName;
use crate::domain::rank::Rank;
use crate::domain::sorted::{self, Place, Sorted};

/// Contributions by unit, and the strongest of each unit in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Index {
    units: Sorted<UnitRanks>,
    strongest: Sorted<Rank>,
}

/// The contributions of one unit, the strongest first. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnitRanks {
    unit: UnitName,
    ranks: Sorted<Rank>,
}

impl Index {
    /// Adds a contribution.
    pub fn insert(&mut self, rank: Rank) {
        let unit = &rank.key.unit;
        let place = self.place_of(unit).unwrap_or_else(|place| {
            let ranks = Sorted::default();
            self.units.insert(place, UnitRanks { unit: unit.clone(), ranks })
        });
        let Some(UnitRanks { ranks, .. }) = self.units.get_mut(place) else { return };
        match ranks.first() {
            Some(first) if *first < rank => {}
            Some(first) => {
                remove(&mut self.strongest, first);
                insert(&mut self.strongest, rank.clone());
            }
            None => insert(&mut self.strongest, rank.clone()),
        }
        insert(ranks, rank);
    }

    /// Removes a contribution.
    pub fn remove(&mut self, rank: &Rank) {
        let Ok(place) = self.place_of(&rank.key.unit) else { return };
        let Some(UnitRanks { ranks, .. }) = self.units.get_mut(place) else { return };
        remove(ranks, rank);
        if remove(&mut self.strongest, rank)
            && let Some(next) = ranks.first()
        {
            insert(&mut self.strongest, next.clone());
        }
        if ranks.is_empty() {
            self.units.remove(place);
        }
    }

    fn place_of(&self, unit: &UnitName) -> Result<Place, Place> {
        self.units.search(|known| known.unit.cmp(unit))
    }

    fn ranks_of(&self, unit: &UnitName) -> Option<&Sorted<Rank>> {
        let place = self.place_of(unit).ok()?;
        self.units.from(place).next().map(|known| &known.ranks)
    }

    /// Returns the contributions of one unit, the strongest first.
    pub fn of_unit(&self, unit: &UnitName) -> impl Iterator<Item = &Rank> {
        self.ranks_of(unit).into_iter().flat_map(Sorted::iter)
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

fn insert(ranks: &mut Sorted<Rank>, rank: Rank) {
    if let Err(place) = ranks.search(|known| known.cmp(&rank)) {
        ranks.insert(place, rank);
    }
}

/// Returns whether the contribution was there.
fn remove(ranks: &mut Sorted<Rank>, rank: &Rank) -> bool {
    let place = ranks.search(|known| known.cmp(rank));
    place.map(|place| ranks.remove(place)).is_ok()
}

/// Returns the next weaker contribution.
fn after<'a>(ranks: &'a Sorted<Rank>, rank: &Rank) -> Option<&'a Rank> {
    match ranks.search(|known| known.cmp(rank)) {
        Ok(place) => ranks.from(place).nth(1),
        Err(place) => ranks.from(place).next(),
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
        let ranks = self.index.ranks_of(&next.key.unit)?;
        if let Some(other) = after(ranks, next) {
            self.further.push(Reverse(other));
        }
        Some(next)
    }
}
