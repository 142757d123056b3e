//! The resources that an application uses of a server and its store, and the limits on all
//! applications together.

use serde::{Deserialize, Serialize};

/// The counts that a head stores only for the limits on all applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StoredCounts {
    /// Statuses.
    pub statuses: u64,
    /// Operations, including finished ones.
    pub operations: u64,
    /// Bytes of the texts of statuses, faults and operations, with checkpoints and payloads.
    pub record_bytes: u64,
    /// Estimated bytes of the history: dropped events count with the average size.
    pub history_bytes: u64,
}

/// Counts of an application, of all applications, or their limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Units.
    pub units: u64,
    /// Statuses.
    pub statuses: u64,
    /// Open faults.
    pub faults: u64,
    /// Operations, including finished ones.
    pub operations: u64,
    /// Marks.
    pub marks: u64,
    /// Bytes of keys and values of the leaders' data.
    pub data_bytes: u64,
    /// Bytes of the texts of statuses, faults and operations, with checkpoints and payloads.
    pub record_bytes: u64,
    /// Estimated bytes of the history.
    pub history_bytes: u64,
}

impl Usage {
    /// Returns the sum of every count.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        self.each(other, u64::saturating_add)
    }

    /// Returns the difference of every count, at least 0.
    #[must_use]
    pub fn minus(self, other: Usage) -> Usage {
        self.each(other, u64::saturating_sub)
    }

    /// Returns all counts, in the order of the fields.
    pub fn counts(self) -> [u64; 8] {
        let Usage { units, statuses, faults, operations, marks, .. } = self;
        let Usage { data_bytes, record_bytes, history_bytes, .. } = self;
        [units, statuses, faults, operations, marks, data_bytes, record_bytes, history_bytes]
    }

    /// Returns the usage with these counts, in the order of the fields.
    pub fn of_counts(counts: [u64; 8]) -> Usage {
        let [units, statuses, faults, operations, marks, ..] = counts;
        let [.., data_bytes, record_bytes, history_bytes] = counts;
        Usage {
            units,
            statuses,
            faults,
            operations,
            marks,
            data_bytes,
            record_bytes,
            history_bytes,
        }
    }

    fn each(self, other: Usage, of: fn(u64, u64) -> u64) -> Usage {
        let (own, others) = (self.counts(), other.counts());
        Usage::of_counts(std::array::from_fn(|at| of(own[at], others[at])))
    }
}
