//! Changes of an operation caused by time alone, in the order in which they happen.

use crate::domain::model::deadline::Deadlines;
use crate::domain::model::name::{OperationId, UnitName};
use crate::domain::model::operation::transition::Call;
use crate::domain::model::operation::{Operation, Reason, State};
use crate::domain::model::time::Timestamp;

impl Operation {
    /// Applies what is due by now: a lease lapses (T8, T22, T27), the deadline passes (T23), or the
    /// operation waits too long for a worker.
    pub fn lapse(&mut self, id: &OperationId, deadlines: Deadlines<'_>, now: Timestamp) {
        let nobody = UnitName::application();
        let lapsed = deadlines.of_holder(self).filter(|at| *at <= now);
        self.deadline_exceeded |= self.passes_deadline_by(lapsed.unwrap_or(now));
        if let Some(at) = lapsed {
            self.lease_lapsed(Call { id, by: &nobody, now: at });
        }
        self.deadline_exceeded |= self.passes_deadline_by(now);
        if self.deadline_exceeded && self.is_bound() && self.lease.is_none() {
            let at = self.deadline.map_or(now, |at| at.max(self.update_time));
            let call = Call { id, by: &nobody, now: at };
            self.enter(call, State::Failed, Reason::DeadlineExceeded);
        }
        self.neglected |= deadlines.of_neglect(self).is_some_and(|at| at <= now);
    }

    /// Counts an interruption: a crashed holder cannot report it itself.
    fn lease_lapsed(&mut self, call: Call<'_>) {
        if self.state == State::Cancelling {
            self.enter(call, State::Abandoned, Reason::Cancelled);
            return;
        }
        self.interruptions += 1;
        let too_often = self.interruptions_max < self.interruptions;
        if too_often && !self.deadline_exceeded {
            self.cut_off = true;
            self.enter(call, State::Failed, Reason::InterruptionsExhausted);
        } else {
            self.enter(call, State::Interrupted, Reason::LeaseLapsed);
        }
    }

    fn passes_deadline_by(&self, now: Timestamp) -> bool {
        self.is_bound() && self.deadline.is_some_and(|deadline| deadline < now)
    }

    /// Returns whether the deadline is in force: not while a person must act.
    fn is_bound(&self) -> bool {
        self.is_open() && self.state != State::Blocked
    }

    /// Returns when the passing of the deadline is due: right after it.
    pub(in crate::domain) fn deadline_due(&self) -> Option<Timestamp> {
        let is_ahead = self.is_bound() && !self.deadline_exceeded;
        self.deadline.filter(|_| is_ahead).map(|at| Timestamp::new(at.millis() + 1))
    }

    /// Handles a data loss of the store, which may have lost an acquire: the holder must acquire
    /// the operation again. The new fence is greater than all fences that may have been assigned.
    /// Counts no interruption.
    pub(in crate::domain) fn invalidate_fence(
        &mut self,
        id: &OperationId,
        next_fence: u64,
        now: Timestamp,
    ) {
        if !self.is_open() {
            return;
        }
        self.fence = next_fence;
        let nobody = UnitName::application();
        let call = Call { id, by: &nobody, now };
        match self.state {
            State::Running | State::Verifying => {
                self.enter(call, State::Interrupted, Reason::Doubted);
            }
            State::Cancelling => self.enter(call, State::Abandoned, Reason::Cancelled),
            _ => self.cut_off = true,
        }
    }
}
