//! What an application uses of a server and its store, and how much all applications may use
//! together.

use serde::{Deserialize, Serialize};

use super::app::{AppState, Head};
use super::draft::Draft;
use super::fault::{Fault, NewError};
use super::operation::Operation;
use super::status::{Report, Status};
use super::transition::StatusEvent;

/// What a head counts of its application beside what it has anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Kept {
    /// Statuses.
    pub statuses: u64,
    /// Operations, finished ones too.
    pub operations: u64,
    /// Bytes of the texts of statuses, faults and operations, with checkpoints and payloads.
    pub record_bytes: u64,
    /// Bytes of the history, about: older lines count as much as the last ones on average.
    pub history_bytes: u64,
}

/// Counts of an application, or of all together; or the bounds of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Units.
    pub units: u64,
    /// Statuses.
    pub statuses: u64,
    /// Open faults.
    pub faults: u64,
    /// Operations, finished ones too.
    pub operations: u64,
    /// Bytes of keys and values of leaders' data.
    pub data_bytes: u64,
    /// Bytes of the texts of statuses, faults and operations, with checkpoints and payloads.
    pub record_bytes: u64,
    /// Bytes of the history, about.
    pub history_bytes: u64,
}

/// Bytes of a line of history beside its texts.
const LINE_BYTES: u64 = 128;

impl Usage {
    /// Every count of both.
    #[must_use]
    pub fn plus(self, other: Usage) -> Usage {
        self.each(other, u64::saturating_add)
    }

    /// Every count without those of the other.
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
    /// What the application uses. Of a head that an earlier version wrote, as far as that counted:
    /// the next commit counts the rest.
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
    /// Counts what a head of an earlier version did not: all there is.
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

    /// Sees to it that the head of an application that exists has its counts: an earlier version,
    /// maybe one that shares the store, writes none.
    pub(super) fn count_what_is_kept(&mut self) {
        if self.head.kept.is_none() && !self.head.deleted {
            let kept = self.recount();
            std::sync::Arc::make_mut(&mut self.head).kept = Some(kept);
        }
    }
}

impl Draft<'_> {
    /// What all other applications use. Comes before all else.
    pub fn beside(&mut self, others: Usage) {
        self.beside = others;
    }

    /// Counts a record that takes the place of another one.
    pub(super) fn count_bytes(&mut self, old: u64, new: u64) {
        let bytes = &mut self.kept.record_bytes;
        *bytes = bytes.saturating_sub(old).saturating_add(new);
    }

    /// Counts a line of history, and leaves out its texts where all histories together are at their
    /// bound: that something moved is kept, and nothing is refused for the sake of history.
    pub(super) fn count_line(&mut self, event: &mut StatusEvent) {
        let all = self.beside.history_bytes.saturating_add(self.kept.history_bytes);
        if self.limits.total.history_bytes <= all {
            event.message = "".into();
            event.reason = "".into();
        }
        let lines = self.head.next_event + self.events.len() as u64;
        let max = self.limits.events_max.max(1);
        // One more line than is kept pushes out an old one, of average length.
        let old = if lines < max { 0 } else { self.kept.history_bytes / max };
        self.kept.history_bytes = self.kept.history_bytes - old + event.size();
    }
}

impl Report {
    /// Bytes of its texts.
    pub(super) fn size(&self) -> u64 {
        let texts = [&self.message, &self.short_message, &self.reason, &self.check, &self.action];
        let labels = self.labels.iter().map(|(key, value)| key.len() + value.len());
        texts.into_iter().map(|text| text.len()).chain(labels).sum::<usize>() as u64
    }
}

impl NewError {
    /// Bytes of its texts.
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
    /// Bytes of its texts.
    pub(super) fn size(&self) -> u64 {
        self.error.size() + self.shown.len() as u64
    }
}

impl Operation {
    /// Bytes of its texts and of its checkpoint; the payload is counted by itself.
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
    /// Bytes of the line, about.
    fn size(&self) -> u64 {
        LINE_BYTES + (self.message.len() + self.reason.len()) as u64
    }
}

/// The status that a size is counted of, if there is one.
pub(super) fn size_of(status: Option<&std::sync::Arc<Status>>) -> u64 {
    status.map_or(0, |status| status.report.size())
}
