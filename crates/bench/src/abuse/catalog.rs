//! Every attack, in the order of the table.

use super::attack::Attack;
use super::{attack, large, shares, unread};

/// Returns every attack.
pub fn all() -> impl Iterator<Item = &'static Attack> {
    attack::ATTACKS.iter().chain(&unread::ATTACKS).chain(&large::ATTACKS).chain(&shares::ATTACKS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::abuse::attack::{Means, Turn};

    #[test]
    fn every_attack_has_a_name_and_sends_something() {
        let names: BTreeSet<_> = all().map(|attack| attack.name).collect();
        assert_eq!(names.len(), all().count());
        for attack in all() {
            let (bytes, units) = match attack.means {
                Means::Flood { chunk, .. } => {
                    let mut turn = Turn::begin();
                    turn.clear();
                    chunk(&mut turn);
                    (turn.out.len(), turn.units)
                }
                Means::Hold { opening, drip, .. } => {
                    let (bytes, units) = opening();
                    (bytes.len() + drip(0).len(), units)
                }
                Means::Calls { message, .. } => (message().len(), 1),
                Means::Silent { connections } => (connections, 1),
            };
            assert!(0 < bytes && 0 < units, "{}", attack.name);
        }
    }
}
