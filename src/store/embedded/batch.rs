//! A transition as operations on the tables. The committing task encodes it, so that the writer
//! thread only adds what depends on the commits before.

use std::sync::Arc;

use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::store::Retention;
use crate::store::codec::{self, HeadRecord};
use crate::store::heads::HeadStep;
use crate::store::key::{append_event, append_field, prefix_of};

use super::op::{self, Op, Place, Trim};

/// An encoded transition.
pub(super) struct Batch {
    pub(super) app: AppName,
    pub(super) base: Revision,
    pub(super) head: Arc<Head>,
    time: Timestamp,
    /// Whether the commit deletes the application. A later commit of the tombstone keeps the
    /// records that outlive the application.
    is_deletion: bool,
    head_record: HeadRecord,
    has_events: bool,
    /// The operations on records and events.
    ops: Vec<u8>,
}

impl Batch {
    pub(super) fn encode(transition: &Transition) -> Batch {
        let Transition { app, writes, events, .. } = transition;
        let mut ops = Vec::with_capacity(2 * codec::RECORD_BYTES * (writes.len() + events.len()));
        let prefix = prefix_of(app);
        for write in writes {
            let key = |bytes: &mut Vec<u8>| {
                bytes.extend_from_slice(&prefix);
                append_field(bytes, write);
            };
            let record = |bytes: &mut Vec<u8>| codec::append_write(bytes, write);
            op::append(&mut ops, Place::Records, key, record);
        }
        for (number, event) in (transition.first_event()..).zip(events) {
            let key = |bytes: &mut Vec<u8>| {
                bytes.extend_from_slice(&prefix);
                append_event(bytes, number);
            };
            let record = |bytes: &mut Vec<u8>| {
                codec::append(bytes, event);
                true
            };
            op::append(&mut ops, Place::Events, key, record);
        }
        Batch {
            app: app.clone(),
            base: transition.base,
            head: transition.head.clone(),
            time: transition.time,
            is_deletion: transition.is_deletion(),
            head_record: HeadRecord::encode(&transition.head),
            has_events: !events.is_empty(),
            ops,
        }
    }

    /// Returns the number of bytes that [`write`](Batch::write) appends, about.
    pub(super) fn size(&self) -> usize {
        self.ops.len() + 2 * codec::RECORD_BYTES
    }

    /// Appends all operations, with those that remove the events and tombstones that exceed the
    /// retention.
    pub(super) fn write(self, step: &HeadStep, retention: &Retention, bytes: &mut Vec<u8>) {
        let prefix = prefix_of(&self.app);
        let head = self.head_record.at(step.change.position);
        Op::Put(Place::Heads, &prefix, &head).write(bytes);
        if self.is_deletion {
            Op::Clear(Place::Records, &prefix).write(bytes);
        }
        bytes.extend_from_slice(&self.ops);
        if self.has_events {
            let oldest = self.head.next_event.saturating_sub(retention.events_max);
            let cutoff = self.time.before(retention.event_age_max);
            Op::Trim(Trim { prefix: &prefix, oldest, cutoff }).write(bytes);
        }
        for gone in &step.forgotten {
            let prefix = prefix_of(&gone.app);
            Op::Remove(Place::Heads, &prefix).write(bytes);
            Op::Clear(Place::Records, &prefix).write(bytes);
            Op::Clear(Place::Events, &prefix).write(bytes);
        }
    }
}
