//! What a hub has received at a moment, for answers that are made once and sent several times.

use std::sync::Arc;

use super::cursors::Cursors;
use super::hub::Hub;
use crate::store::{Bucket, Epoch};

/// The changes that a hub has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coverage {
    epoch: Epoch,
    cursors: Arc<Cursors>,
}

impl Coverage {
    /// Returns whether an answer that began with these changes has all of `other`.
    pub fn covers(&self, other: &Coverage) -> bool {
        self.epoch == other.epoch && self.cursors.reach(&other.cursors, Bucket::default())
    }
}

impl Hub {
    /// Returns what the hub has received. Every change that was acknowledged before is part of it.
    pub fn seen(&self) -> Coverage {
        let reached = self.reached();
        Coverage { epoch: reached.epoch, cursors: reached.cursors.clone() }
    }
}
