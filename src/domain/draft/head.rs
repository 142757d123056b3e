//! The head of a draft. Each setter marks the change that the field makes visible.

use std::sync::Arc;

use crate::domain::model::app::Head;
use crate::domain::model::data::DataHead;
use crate::domain::model::leadership::Lease;
use crate::domain::model::leadership::status::ApplicationStatus;
use crate::domain::model::mark::head::MarkSummary;
use crate::domain::model::operation::words::OperationStatus;
use crate::domain::model::policy::Config;
use crate::domain::model::revision::Revision;
use crate::domain::model::stated::StatedNeeds;
use crate::domain::model::summary::Summary;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::presence::ReplicaId;
use crate::domain::model::usage::StoredCounts;

/// The head after a draft. Reads go to [`Head`].
pub struct HeadDraft<'a> {
    base: &'a Head,
    after: Head,
    /// Whether a visible value changed, so that the revision moves.
    visible: bool,
    /// Whether a record without a visible effect changed. If nothing visible changes, the
    /// transition is a quiet commit.
    quiet: bool,
}

impl std::ops::Deref for HeadDraft<'_> {
    type Target = Head;

    fn deref(&self) -> &Head {
        &self.after
    }
}

impl<'a> HeadDraft<'a> {
    pub(in crate::domain) fn new(base: &'a Head) -> HeadDraft<'a> {
        HeadDraft { base, after: base.clone(), visible: false, quiet: false }
    }

    /// Returns the head before the draft.
    pub fn base(&self) -> &'a Head {
        self.base
    }

    /// Marks a visible change.
    pub fn mark_visible(&mut self) {
        self.visible = true;
    }

    /// Marks the change of a record that no reader sees.
    pub fn mark_quiet(&mut self) {
        self.quiet = true;
    }

    /// Returns whether a visible value has changed so far.
    pub fn is_visible(&self) -> bool {
        self.visible
    }

    /// Returns the revision of the draft so far: the next one once a visible value has changed.
    pub fn revision_so_far(&self) -> Revision {
        match self.visible {
            true => self.base.revision.next(),
            false => self.base.revision,
        }
    }

    /// Returns whether the draft changes the order of contributions that it does not write.
    pub fn reranks(&self) -> bool {
        self.base.ranks_otherwise(&self.after)
    }

    pub fn set_config(&mut self, config: Config) -> Arc<Config> {
        self.visible = true;
        std::mem::replace(&mut self.after.config, config.shared())
    }

    pub fn set_lease(&mut self, lease: Option<Lease>) {
        self.visible = true;
        self.after.lease = lease;
    }

    pub fn set_lease_epoch(&mut self, epoch: u64) {
        self.visible = true;
        self.after.lease_epoch = epoch;
    }

    /// Returns the queue number for a unit that waits to lead.
    pub fn take_candidate_number(&mut self) -> u64 {
        self.visible = true;
        let number = self.after.next_candidate;
        self.after.next_candidate += 1;
        number
    }

    pub fn set_application_status(&mut self, status: ApplicationStatus) {
        self.visible = true;
        self.after.application_status = Some(status);
    }

    pub fn take_application_status(&mut self) -> Option<ApplicationStatus> {
        let old = self.after.application_status.take();
        self.visible |= old.is_some();
        old
    }

    pub fn set_data(&mut self, data: DataHead) {
        self.visible = true;
        self.after.data = data;
    }

    pub fn set_operation(&mut self, status: Option<Box<OperationStatus>>) {
        self.visible = true;
        self.after.operation = status;
    }

    /// Sets the loss count. Stored only together with other changes: without units, nothing becomes
    /// uncertain.
    pub fn set_losses(&mut self, losses: u32) {
        self.after.losses = losses;
    }

    pub(in crate::domain) fn count_fault(&mut self, was_open: bool, is_open: bool) {
        self.after.open_faults.count += u32::from(is_open);
        self.after.open_faults.count -= u32::from(was_open);
    }

    pub(in crate::domain) fn set_next_retry(&mut self, at: Option<Timestamp>) {
        self.after.open_faults.next_retry = at;
    }

    /// Counts a session that moves between replicas, opens or closes.
    pub(in crate::domain) fn count_session(
        &mut self,
        old: Option<ReplicaId>,
        new: Option<ReplicaId>,
    ) {
        if old == new {
            return;
        }
        let sessions = &mut self.after.sessions;
        if let Some(count) = old.and_then(|old| sessions.get_mut(&old)) {
            *count -= 1;
        }
        sessions.retain(|_, count| *count != 0);
        if let Some(new) = new {
            *sessions.entry(new).or_default() += 1;
        }
    }

    /// Moves the revision if a visible value changed. Counts a quiet commit otherwise.
    pub(in crate::domain) fn close(&mut self, now: Timestamp) {
        if !self.visible {
            self.after.losses = self.base.losses;
            self.after.quiet_commits += u64::from(self.quiet);
            return;
        }
        self.after.deleted = false;
        self.after.revision = self.base.revision.next();
        self.after.update_time = now;
        if self.base.deleted {
            self.after.create_time = now;
        }
    }

    pub(in crate::domain) fn set_summary(&mut self, summary: Summary) {
        self.after.summary = Arc::new(summary);
    }

    pub(in crate::domain) fn set_needs(&mut self, needs: Option<Arc<StatedNeeds>>) {
        self.after.needs = needs;
    }

    pub(in crate::domain) fn set_marks(&mut self, marks: Option<Arc<MarkSummary>>) {
        self.after.marks = marks;
    }

    pub(in crate::domain) fn set_abandoned_until(&mut self, until: Option<Timestamp>) {
        self.after.abandoned_until = until;
    }

    pub(in crate::domain) fn set_counts(&mut self, counts: StoredCounts) {
        if self.visible || counts != self.base.counts.unwrap_or_default() {
            self.after.counts = Some(counts);
        }
    }

    /// Returns the head as it is committed, with the numbers of new events and
    /// of own ones among them, and the next deadline.
    pub(in crate::domain) fn into_head(
        mut self,
        (events, own_events): (u64, u64),
        next_due: Option<Timestamp>,
    ) -> Arc<Head> {
        // Records are arrays, and needs are left out if they are absent: with marks they must be
        // there, because the marks follow them.
        let has_needs = self.after.needs.as_ref().is_some_and(|needs| !needs.needs.is_empty());
        if self.after.marks.is_some() {
            self.after.needs.get_or_insert_default();
        } else if !has_needs {
            self.after.needs = None;
        }
        self.after.next_event += events;
        self.after.own_events += own_events;
        self.after.next_due = next_due;
        Arc::new(self.after)
    }
}
