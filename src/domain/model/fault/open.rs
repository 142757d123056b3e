//! What the head of an application says of its open faults, so that lists and watchers need no
//! record of a fault.

use serde::{Deserialize, Serialize};

use crate::domain::model::time::Timestamp;

/// The open faults of an application in short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Stored", into = "Stored")]
pub struct OpenFaults {
    /// Their number.
    pub count: u32,
    /// The earliest planned retry; `None` if none is planned.
    pub next_retry: Option<Timestamp>,
}

/// The stored form: records from before the next retry have the number alone, and so have those of
/// applications that plan none, so that earlier versions read them.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Stored {
    Count(u32),
    Planned(u32, Timestamp),
}

impl From<Stored> for OpenFaults {
    fn from(stored: Stored) -> OpenFaults {
        match stored {
            Stored::Count(count) => OpenFaults { count, next_retry: None },
            Stored::Planned(count, at) => OpenFaults { count, next_retry: Some(at) },
        }
    }
}

impl From<OpenFaults> for Stored {
    fn from(open: OpenFaults) -> Stored {
        match open.next_retry {
            Some(at) => Stored::Planned(open.count, at),
            None => Stored::Count(open.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_without_a_planned_retry_is_that_of_earlier_versions() {
        let bytes = |open: OpenFaults| rmp_serde::to_vec(&open).unwrap();
        let unplanned = OpenFaults { count: 3, next_retry: None };
        assert_eq!(bytes(unplanned), rmp_serde::to_vec(&3u32).unwrap());
        for next_retry in [None, Some(Timestamp::new(7))] {
            let open = OpenFaults { count: 70_000, next_retry };
            assert_eq!(rmp_serde::from_slice::<OpenFaults>(&bytes(open)).unwrap(), open);
        }
    }
}
