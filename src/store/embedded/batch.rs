//! A transition as operations on the tables. The committing task encodes it, so that the writer
//! thread only adds what depends on the commits before.

use std::sync::Arc;

use crate::domain::transition::Transition;
use crate::store::Retention;
use crate::store::codec::{self, HeadRecord};
use crate::store::heads::HeadStep;
use crate::store::key::{append_event, append_field, own_events, prefix_of};

use super::op::{self, Op, TableId, Trim};

/// An encoded transition.
pub(super) struct Batch {
    pub(super) transition: Arc<Transition>,
    head_record: HeadRecord,
    /// The operations on records and events.
    ops: Vec<u8>,
}

impl Batch {
    pub(super) fn encode(transition: Arc<Transition>) -> Batch {
        let Transition { app, writes, events, head, .. } = &*transition;
        let mut ops = Vec::with_capacity(2 * codec::RECORD_BYTES * (writes.len() + events.len()));
        let prefix = prefix_of(app);
        for write in writes {
            let key = |bytes: &mut Vec<u8>| append_field(bytes, write);
            let record = |bytes: &mut Vec<u8>| codec::append_write(bytes, write);
            op::append(&mut ops, TableId::Records, &prefix, key, record);
        }
        for (place, event) in transition.placed_events() {
            let key = |bytes: &mut Vec<u8>| append_event(bytes, place);
            let record = |bytes: &mut Vec<u8>| {
                codec::append(bytes, event);
                true
            };
            op::append(&mut ops, TableId::Events, &prefix, key, record);
        }
        let head_record = HeadRecord::encode(head);
        Batch { transition, head_record, ops }
    }

    /// Returns the number of bytes that [`write`](Batch::write) appends, about.
    pub(super) fn size(&self) -> usize {
        self.ops.len() + 2 * codec::RECORD_BYTES
    }

    /// Appends all operations, with those that remove the events and tombstones that exceed the
    /// retention.
    pub(super) fn write(self, step: &HeadStep, retention: &Retention, bytes: &mut Vec<u8>) {
        let Transition { app, head, events, time, .. } = &*self.transition;
        let prefix = prefix_of(app);
        let head_record = self.head_record.at(step.change.position);
        Op::Put(TableId::Heads, &prefix, &head_record).write(bytes);
        // A later commit of the tombstone keeps the records that outlive the application.
        if self.transition.is_deletion() {
            Op::Clear(TableId::Records, &prefix).write(bytes);
        }
        bytes.extend_from_slice(&self.ops);
        let others = head.next_event.saturating_sub(head.own_events);
        for (is_own, count) in [(false, others), (true, head.own_events)] {
            if events.iter().any(|event| event.is_own() == is_own) {
                let budget = retention.budget(is_own);
                let oldest = count.saturating_sub(budget.count_max);
                let cutoff = time.before(budget.age_max);
                let prefix = if is_own { own_events(&prefix) } else { prefix.clone() };
                Op::Trim(Trim { prefix: &prefix, oldest, cutoff }).write(bytes);
            }
        }
        for gone in &step.forgotten {
            let prefix = prefix_of(&gone.app);
            Op::Remove(TableId::Heads, &prefix).write(bytes);
            Op::Clear(TableId::Records, &prefix).write(bytes);
            Op::Clear(TableId::Events, &prefix).write(bytes);
        }
    }
}
