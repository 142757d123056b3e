//! Whether a unit is about to go, or has gone.

use serde::{Deserialize, Serialize};

use crate::domain::model::time::Timestamp;

/// Whether a unit is about to go, or has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub enum Departure {
    /// It stays.
    #[default]
    None,
    /// Its worker announced at this time that it stops.
    Stopping(Timestamp),
    /// It departed for good while its pushed statuses wait for a successor.
    Departed,
}

/// The stored form: records from before units could announce their stop have a flag.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Departed(bool),
    Stopping(Timestamp),
}

impl From<Stored> for Departure {
    fn from(stored: Stored) -> Departure {
        match stored {
            Stored::Departed(false) => Departure::None,
            Stored::Departed(true) => Departure::Departed,
            Stored::Stopping(since) => Departure::Stopping(since),
        }
    }
}

impl From<Departure> for Stored {
    fn from(departure: Departure) -> Stored {
        match departure {
            Departure::None => Stored::Departed(false),
            Departure::Departed => Stored::Departed(true),
            Departure::Stopping(since) => Stored::Stopping(since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_of_a_unit_that_stays_or_has_left_is_that_of_earlier_versions() {
        let bytes = |departure: Departure| rmp_serde::to_vec(&departure).unwrap();
        assert_eq!(bytes(Departure::None), rmp_serde::to_vec(&false).unwrap());
        assert_eq!(bytes(Departure::Departed), rmp_serde::to_vec(&true).unwrap());
        for one in [Departure::None, Departure::Departed, Departure::Stopping(Timestamp::new(7))] {
            assert_eq!(rmp_serde::from_slice::<Departure>(&bytes(one)).unwrap(), one);
        }
    }
}
