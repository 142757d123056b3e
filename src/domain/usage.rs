//! The resources that an application uses of a server and its store, and the limits on all
//! applications together.

use serde::{Deserialize, Serialize};

use super::app::{AppState, Head};
use super::draft::Draft;
use super::fault::{Fault, NewError};
use super::operation::Operation;
use super::status::{Report, Status};
use super::transition::StatusEvent;

/// The counts that a head stores only for the limits on all applications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
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
    /// Bytes of keys and values of the leaders' data.
    pub data_bytes: u64,
    /// Bytes of the texts of statuses, faults and operations, with checkpoints and payloads.
    pub record_bytes: u64,
    /// Estimated bytes of the history.
    pub history_bytes: u64,
}

/// Bytes of an event beside its texts.
const LINE_BYTES: u64 = 128;

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

    fn each(self, other: Usage, of: fn(u64, u64) -> u64) -> Usage {
        Usage {
            units: of(self.units, other.units),
            statuses: of(self.statuses, other.statuses),
            faults: of(self.faults, other.faults),
            operations: of(self.operations, other.operations),
            data_bytes: of(self.data_bytes, other.data_bytes),
            record_bytes: of(self.record_bytes, other.record_bytes),
            history_bytes: of(self.history_bytes, other.history_bytes),
        }
    }
}

impl Head {
    /// Returns the usage of the application. A head of an earlier version gives only the counts
    /// that it has; the next commit adds the others.
    pub fn usage(&self) -> Usage {
        let totals = &self.summary.totals;
        let contributions = totals.contributions.iter().copied().map(u64::from).sum();
        let uncounted = Kept { statuses: contributions, ..Kept::default() };
        let kept = self.kept.unwrap_or(uncounted);
        Usage {
            units: totals.units.into(),
            statuses: kept.statuses,
            faults: self.fault_count.into(),
            operations: kept.operations,
            data_bytes: self.data.bytes,
            record_bytes: kept.record_bytes,
            history_bytes: kept.history_bytes,
        }
    }
}

impl AppState {
    /// Computes the counts that a head of an earlier version does not have, from all records.
    pub fn recount(&self) -> Kept {
        let statuses = self.statuses.iter().map(|(_, status)| status.report.size());
        let faults = self.faults.iter().map(|(_, fault)| fault.size());
        let operations = self.operations.iter().map(|(_, operation)| operation.size());
        let payloads = self.operations.payloads().map(|(_, payload)| payload.len() as u64);
        Kept {
            statuses: self.statuses.len() as u64,
            operations: self.operations.iter().count() as u64,
            record_bytes: statuses.chain(faults).chain(operations).chain(payloads).sum(),
            history_bytes: self.head.kept.map_or(0, |kept| kept.history_bytes),
        }
    }

    /// Adds the counts to the head of an existing application that has none: an earlier version,
    /// which may share the store, writes heads without them.
    pub(super) fn count_what_is_kept(&mut self) {
        if self.head.kept.is_none() && !self.head.deleted {
            let kept = self.recount();
            std::sync::Arc::make_mut(&mut self.head).kept = Some(kept);
        }
    }
}

impl Draft<'_> {
    /// Sets the usage of all other applications. Call it before everything else.
    pub fn beside(&mut self, others: Usage) {
        self.beside = others;
    }

    /// Counts a record that replaces another one.
    pub(super) fn count_bytes(&mut self, old: u64, new: u64) {
        let bytes = &mut self.kept.record_bytes;
        *bytes = bytes.saturating_sub(old).saturating_add(new);
    }

    /// Counts an event, and clears its texts if all histories together are at their limit: the
    /// event is kept, and no command is rejected because of the history.
    pub(super) fn count_line(&mut self, event: &mut StatusEvent) {
        let all = self.beside.history_bytes.saturating_add(self.kept.history_bytes);
        if self.limits.total.history_bytes <= all {
            event.message = "".into();
            event.reason = "".into();
        }
        let lines = self.head.next_event + self.events.len() as u64;
        let max = self.limits.events_max.max(1);
        // A new event over the limit drops an old one, of average size.
        let old = if lines < max { 0 } else { self.kept.history_bytes / max };
        self.kept.history_bytes = self.kept.history_bytes - old + event.size();
    }
}

impl Report {
    /// Returns the bytes of the texts.
    pub(super) fn size(&self) -> u64 {
        let texts = [&self.message, &self.short_message, &self.reason, &self.check, &self.action];
        let labels = self.labels.iter().map(|(key, value)| key.len() + value.len());
        texts.into_iter().map(|text| text.len()).chain(labels).sum::<usize>() as u64
    }
}

impl NewError {
    /// Returns the bytes of the texts.
    pub(super) fn size(&self) -> u64 {
        let said = &self.evidence;
        let found = &self.finding;
        let texts = [
            &said.system,
            &said.code,
            &said.domain,
            &said.reason,
            &said.message,
            &self.internal_detail.0,
            &self.action,
            &self.operation_id,
            &self.generation,
            &found.rule,
            &found.explanation,
            &found.remedy,
        ];
        texts.into_iter().map(|text| text.len()).sum::<usize>() as u64
    }
}

impl Fault {
    /// Returns the bytes of the texts.
    pub(super) fn size(&self) -> u64 {
        self.error.size() + self.shown.len() as u64
    }
}

impl Operation {
    /// Returns the bytes of the texts and of the checkpoint; the payload is counted separately.
    pub(super) fn size(&self) -> u64 {
        let texts = [
            &self.from_version,
            &self.target_version,
            &self.payload.uri,
            &self.payload.digest,
            &self.progress,
            &self.next_target,
            &self.note,
        ];
        let texts = texts.into_iter().map(|text| text.len()).sum::<usize>();
        (texts + self.checkpoint.len()) as u64
    }
}

impl StatusEvent {
    /// Returns the estimated bytes of the event.
    fn size(&self) -> u64 {
        LINE_BYTES + (self.message.len() + self.reason.len()) as u64
    }
}

/// Returns the size of a status, 0 if there is none.
pub(super) fn size_of(status: Option<&std::sync::Arc<Status>>) -> u64 {
    status.map_or(0, |status| status.report.size())
}
