//! The number of contributions by what decides first: the level that an application would have
//! without marks costs as much as the number of different levels.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::domain::level::Level;
use crate::domain::model::policy::Policy;
use crate::domain::model::rank::Rank;

/// Counts of contributions by precedence and by the severity of their own level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<(Reverse<i32>, u8), u32>);

impl Tally {
    /// Counts a contribution.
    pub fn add(&mut self, rank: &Rank) {
        *self.0.entry(place(rank)).or_default() += 1;
    }

    /// Counts a contribution no longer.
    pub fn subtract(&mut self, rank: &Rank) {
        let place = place(rank);
        if let Some(count) = self.0.get_mut(&place) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&place);
            }
        }
    }

    /// Returns precedence and level of the strongest contribution without planned work.
    pub fn strongest(&self, policy: &Policy) -> Option<(i32, Level)> {
        let ((Reverse(precedence), severity), _) = self.0.first_key_value()?;
        let level = policy.order().get(usize::from(*severity)).copied()?;
        Some((*precedence, level))
    }
}

fn place(rank: &Rank) -> (Reverse<i32>, u8) {
    (Reverse(rank.precedence), rank.own_severity)
}
