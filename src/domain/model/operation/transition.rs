//! The table of each call in each state. Each call follows
//! `rules::lapse`, so a state with a holder has a live lease.
//!
//! | T | From | Call | To | Effect |
//! |---|---|---|---|---|
//! | T1 | none, or removed by T28 | begin | RUNNING | fence, lease; READY if by an operator |
//! | T2 | any | begin, same operation | unchanged | |
//! | T3 | held | begin, another | unchanged | refused: held; stores the target as the next |
//! | T4 | open, not held; FAILED | begin, another | unchanged | refused: resume first; likewise |
//! | T5 | held | heartbeat | unchanged | the lease is renewed |
//! | T6 | any | a write with another fence | unchanged | refused: stale |
//! | T7 | RUNNING VERIFYING | release, fail INTERRUPTED | INTERRUPTED | no counter changes |
//! | T8 | RUNNING VERIFYING | the lease lapses | INTERRUPTED | interruptions + 1 |
//! | T9 | READY INTERRUPTED | acquire | RUNNING | next fence |
//! | T10 | READY INTERRUPTED RETRY_WAIT | acquire with verify | VERIFYING | next fence |
//! | T10 | the same, cut off, not deterministic | acquire | VERIFYING | next fence |
//! | T11 | VERIFYING | verify: applied | SUCCEEDED | |
//! | T12 | VERIFYING | verify: not applied | RUNNING | |
//! | T13 | VERIFYING | verify: undetermined | BLOCKED | RUNNING if deterministic |
//! | T14 | RUNNING INTERRUPTED CANCELLING | complete | SUCCEEDED | counters 0 |
//! | T14 | FAILED by its deadline or by interruptions | complete | SUCCEEDED | likewise |
//! | T14 | RETRY_WAIT | complete, due or not | SUCCEEDED | likewise |
//! | T15 | RUNNING VERIFYING | fail, not counted | RETRY_WAIT | |
//! | T16 | the same | fail | RETRY_WAIT | attempts_failed + 1 |
//! | T17 | the same | fail, at the maximum | FAILED | |
//! | T18 | the same, RETRY_WAIT | fail BLOCKED | BLOCKED | |
//! | T18 | the same | fail BLOCKED, not held | RETRY_WAIT | shown as blocked |
//! | T19 | BLOCKED; RETRY_WAIT shown as blocked | retry | READY | attempts_failed 0 |
//! | T20 | RUNNING VERIFYING | fail GONE, FATAL | FAILED | |
//! | T21 | RETRY_WAIT | acquire, when due | RUNNING | next fence |
//! | T22 | RUNNING VERIFYING | the lease lapses too often | FAILED | |
//! | T23 | open, not BLOCKED | its deadline passes | FAILED | once it has no holder |
//! | T24 | FAILED BLOCKED | begin, superseding | SUPERSEDED | |
//! | T25 | FAILED SUCCEEDED | begin a rollback | unchanged | refused unless reversible |
//! | T26 | FAILED | retry | READY | both counters 0; not after a failed undo |
//! | T27 | open, FAILED, payload lost | cancel | ABANDONED | if held: CANCELLING until it stops |
//! | T28 | open | its application or unit is removed | ABANDONED | the checkpoint is dropped |
//! | T29 | READY INTERRUPTED RETRY_WAIT | acquire, payload lost | BLOCKED ABANDONED | refused |
//! | T30 | any | the store fails | unchanged | nothing is stored: see the aggregator |
//! | T30 | RUNNING VERIFYING | the store loses writes | INTERRUPTED | next fence, no counter |
//! | T30 | CANCELLING | the store loses writes | ABANDONED | next fence |
//! | T30 | another open one | the store loses writes | unchanged | next fence, cut off |
//! | T31 | CANCELLING | fail FATAL | FAILED | any other failure is a stop |
//! | T32 | any | the leader changes | unchanged | leadership does not matter |

use std::time::Duration;

use crate::domain::classify::finding::Class;
use crate::domain::model::bytes::Bytes;
use crate::domain::model::limits::OPERATION_EVENTS_MAX;
use crate::domain::model::name::{OperationId, UnitName};
use crate::domain::model::operation::command::{Observed, PayloadState};
use crate::domain::model::operation::refused::Refused;
use crate::domain::model::operation::{Event, Failure, Lease, Operation, Reason, State, backoff};
use crate::domain::model::time::Timestamp;

/// The context of one call: the operation, the caller and the time.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The operation.
    pub id: &'a OperationId,
    /// The calling unit; `""` for an operator.
    pub by: &'a UnitName,
    /// The store's clock.
    pub now: Timestamp,
}

impl Operation {
    /// T9, T10, T21, T29: a unit acquires the operation, under a fence greater than all earlier
    /// ones.
    pub fn acquire(
        &mut self,
        call: Call<'_>,
        verify: bool,
        payload: PayloadState,
        next_fence: u64,
    ) -> Result<(), Refused> {
        self.is_free(call)?;
        match self.state {
            State::Ready | State::Interrupted => {}
            State::RetryWait => self.is_due(call)?,
            _ => return Err(self.refuses(call, "there is nothing to acquire")),
        }
        let lost = match payload {
            PayloadState::Intact => None,
            PayloadState::Changed => Some((State::Blocked, Reason::PayloadChanged)),
            PayloadState::Missing | PayloadState::Undecodable => {
                Some((State::Abandoned, Reason::Unrecoverable))
            }
        };
        if let Some((state, reason)) = lost {
            self.enter(call, state, reason);
            return Err(Refused::PayloadLost { id: call.id.clone(), state, reason });
        }
        let looks_first = verify || self.cut_off && !self.deterministic;
        self.fence = next_fence;
        self.hold(call);
        let state = if looks_first { State::Verifying } else { State::Running };
        self.enter(call, state, Reason::Acquired);
        Ok(())
    }

    /// T5: the holder renews its lease.
    pub fn heartbeat(
        &mut self,
        call: Call<'_>,
        fence: u64,
        checkpoint: Option<&Bytes>,
        progress: Option<&str>,
    ) -> Result<(), Refused> {
        self.has_fence(call, fence)?;
        if self.lease.is_none() {
            let hint = match self.is_open() {
                true => "its lease is over: stop working, then acquire it",
                false => "stop working on it",
            };
            return Err(self.refuses(call, hint));
        }
        self.hold(call);
        self.checkpoint = checkpoint.cloned().unwrap_or_else(|| self.checkpoint.clone());
        if let Some(progress) = progress {
            self.progress = progress.into();
        }
        Ok(())
    }

    /// T7, T27: the holder has stopped. A repetition is no error.
    pub fn release(&mut self, call: Call<'_>, fence: u64) -> Result<(), Refused> {
        self.has_fence(call, fence)?;
        match (self.state, self.reason) {
            (State::Running | State::Verifying, _) => {
                self.enter(call, State::Interrupted, Reason::Released);
            }
            (State::Cancelling, _) => self.enter(call, State::Abandoned, Reason::Cancelled),
            (State::Interrupted, _) | (State::Abandoned, Reason::Cancelled) => {}
            _ => return Err(self.refuses(call, "there is nothing to release")),
        }
        Ok(())
    }

    /// T14, T23: the work is done. The report is accepted from a holder whose time ran out if no
    /// other worker acquired the operation since, from one that had finished when it was asked to
    /// stop, and from one that did the work after its attempt had failed. A repetition is no error.
    pub fn complete(&mut self, call: Call<'_>, fence: u64) -> Result<(), Refused> {
        self.has_fence(call, fence)?;
        match (self.state, self.reason) {
            (State::Running | State::Interrupted | State::RetryWait | State::Cancelling, _)
            | (State::Failed, Reason::DeadlineExceeded | Reason::InterruptionsExhausted) => {}
            (State::Succeeded, _) => return Ok(()),
            (State::Verifying, _) => {
                return Err(self.refuses(call, "report the result with VerifyOperation"));
            }
            _ => return Err(self.refuses(call, "there is nothing to complete")),
        }
        self.enter(call, State::Succeeded, Reason::Completed);
        Ok(())
    }

    /// T15 to T18, T20, T31: an attempt failed.
    pub fn fail(
        &mut self,
        call: Call<'_>,
        fence: u64,
        failure: &Failure,
        touched: bool,
        retry_after: Option<Duration>,
    ) -> Result<(), Refused> {
        self.has_fence(call, fence)?;
        let class = failure.class;
        match (self.state, class) {
            (State::Running | State::Verifying, Class::Interrupted) => {
                self.touched |= touched;
                return self.release(call, fence);
            }
            (State::Running | State::Verifying | State::Cancelling, _)
            | (State::RetryWait, Class::Blocked) => {}
            _ => return Err(self.refuses(call, "there is no attempt that could fail")),
        }
        self.last_error = Some(failure.clone());
        self.touched |= touched;
        let is_counted = match class {
            Class::Unclassified => true,
            Class::Transient => touched,
            _ => false,
        };
        match (self.state, class) {
            (State::Cancelling, Class::Fatal) => {
                self.enter(call, State::Failed, Reason::UndoFailed);
            }
            (State::Cancelling, _) => self.enter(call, State::Abandoned, Reason::Cancelled),
            _ if failure.tried_again.is_some() => self.wait(call, class, retry_after),
            (_, Class::Blocked) => self.enter(call, State::Blocked, Reason::Failed(class)),
            (_, Class::Gone | Class::Fatal) => {
                self.enter(call, State::Failed, Reason::Failed(class));
            }
            _ => {
                self.attempts_failed += u32::from(is_counted);
                if is_counted && self.attempts_max <= self.attempts_failed {
                    self.enter(call, State::Failed, Reason::RetriesExhausted);
                } else {
                    self.wait(call, class, retry_after);
                }
            }
        }
        Ok(())
    }

    /// T15, T16: plans the next attempt. The peer's delay replaces the own wait.
    fn wait(&mut self, call: Call<'_>, class: Class, retry_after: Option<Duration>) {
        let own = || backoff::wait(call.id, class, self.waits, self.fence);
        let at = call.now.after(retry_after.unwrap_or_else(own));
        self.waits = self.waits.saturating_add(1);
        self.enter(call, State::RetryWait, Reason::Failed(class));
        self.retry_time = Some(at);
        self.unclaimed_since = Some(at);
    }

    /// T11 to T13: the holder has checked the result of the last attempt.
    pub fn verify(
        &mut self,
        call: Call<'_>,
        fence: u64,
        observed: Observed,
    ) -> Result<(), Refused> {
        self.has_fence(call, fence)?;
        if self.state != State::Verifying {
            return Err(self.refuses(call, "only a VERIFYING operation can be verified"));
        }
        match observed {
            Observed::Applied => self.enter(call, State::Succeeded, Reason::ObservedApplied),
            Observed::Undetermined if !self.deterministic => {
                // From here a person decides: an operator who retries it has checked the result.
                self.cut_off = false;
                self.enter(call, State::Blocked, Reason::UnknownOutcome);
            }
            Observed::NotApplied | Observed::Undetermined => {
                self.enter(call, State::Running, Reason::ObservedNotApplied);
            }
        }
        Ok(())
    }

    /// T27: an operator cancels the operation. A repetition is no error.
    pub fn cancel(&mut self, call: Call<'_>) -> Result<(), Refused> {
        use State::{Blocked, Failed, Interrupted, Ready, RetryWait};
        let state = match (self.state, self.reason) {
            (State::Running | State::Verifying, _) => State::Cancelling,
            // The cancel acknowledges an abandoned operation, so that the application stops showing
            // it.
            (Ready | Interrupted | RetryWait | Blocked | Failed, _)
            | (State::Abandoned, Reason::Unrecoverable) => State::Abandoned,
            (State::Cancelling, _) | (State::Abandoned, Reason::Cancelled) => return Ok(()),
            _ => return Err(self.refuses(call, "there is nothing to cancel")),
        };
        self.enter(call, state, Reason::Cancelled);
        Ok(())
    }

    /// T19, T26: an operator retries the operation. A passed deadline is replaced by a new one.
    pub fn retry(&mut self, call: Call<'_>) -> Result<(), Refused> {
        match self.state {
            State::Blocked => {}
            State::RetryWait if self.blocking_error().is_some() => {}
            State::Failed if self.reason != Reason::UndoFailed => self.interruptions = 0,
            State::Ready => return Ok(()),
            _ => return Err(self.refuses(call, "only a BLOCKED or FAILED one can be retried")),
        }
        self.attempts_failed = 0;
        self.waits = 0;
        if self.deadline.is_some_and(|deadline| deadline < call.now) {
            self.deadline = self.time_allowed.map(|allowed| call.now.after(allowed));
        }
        self.deadline_exceeded = false;
        self.enter(call, State::Ready, Reason::Retried);
        Ok(())
    }

    /// T24: another operation replaces this one.
    pub(in crate::domain) fn supersede(&mut self, call: Call<'_>, note: &str) {
        self.note = note.into();
        self.enter(call, State::Superseded, Reason::Superseded);
    }

    /// T28: the application is removed. Keeps only what is needed to refuse late calls.
    pub(in crate::domain) fn orphan(&mut self, call: Call<'_>) {
        self.checkpoint = Bytes::default();
        self.enter(call, State::Abandoned, Reason::Orphaned);
    }

    // === helpers of the rows ===

    /// Moves to another state, and adds the transition to the history.
    pub(in crate::domain) fn enter(&mut self, call: Call<'_>, state: State, reason: Reason) {
        self.remember(call, Some(self.state), state, reason);
        (self.state, self.reason, self.update_time) = (state, reason, call.now);
        if !matches!(state, State::Running | State::Verifying | State::Cancelling) {
            self.lease = None;
        }
        match state {
            State::Running => self.cut_off = false,
            State::Interrupted => self.cut_off = true,
            State::Succeeded => (self.attempts_failed, self.interruptions) = (0, 0),
            _ => {}
        }
        let is_unclaimed = matches!(state, State::Ready | State::Interrupted);
        self.unclaimed_since = is_unclaimed.then_some(call.now);
        self.retry_time = None;
        self.neglected = false;
    }

    /// Adds a transition to the history.
    pub(in crate::domain) fn remember(
        &mut self,
        call: Call<'_>,
        from: Option<State>,
        to: State,
        reason: Reason,
    ) {
        if OPERATION_EVENTS_MAX <= self.history.len() {
            self.history.remove(0);
        }
        let (time, by, fence) = (call.now, call.by.clone(), self.fence);
        self.history.push(Event { time, from, to, by, reason, fence });
    }

    /// Renews the lease; without a lease, the caller becomes the holder.
    pub(in crate::domain) fn hold(&mut self, call: Call<'_>) {
        // A caller that knows the fence acts for the holder.
        let holder = self.holder().unwrap_or(call.by).clone();
        let expire_time = call.now.after(self.lease_duration);
        self.lease = Some(Lease { holder, expire_time });
    }

    /// T6: checks the fence. A named unit must also be the one that got the fence.
    fn has_fence(&self, call: Call<'_>, given: u64) -> Result<(), Refused> {
        let is_theirs = |holder: &UnitName| call.by.is_application() || holder == call.by;
        match given == self.fence && self.last_holder().is_none_or(is_theirs) {
            true => Ok(()),
            false => Err(Refused::StaleFence { id: call.id.clone(), given, current: self.fence }),
        }
    }

    /// Returns the unit that got the newest fence, if the history still contains it.
    fn last_holder(&self) -> Option<&UnitName> {
        let given = |event: &&Event| {
            matches!(event.reason, Reason::Begun | Reason::Acquired) && event.fence == self.fence
        };
        let last = self.history.iter().rev().find(given).map(|event| &event.by);
        self.holder().or(last.filter(|unit| !unit.is_application()))
    }

    /// T3, and other calls that need an operation without a holder.
    pub(in crate::domain) fn is_free(&self, call: Call<'_>) -> Result<(), Refused> {
        match &self.lease {
            None => Ok(()),
            Some(lease) => Err(Refused::Held {
                id: call.id.clone(),
                target: self.target_version.clone(),
                holder: lease.holder.clone(),
                expire_time: lease.expire_time,
                now: call.now,
            }),
        }
    }

    fn is_due(&self, call: Call<'_>) -> Result<(), Refused> {
        match self.retry_time.filter(|at| call.now < *at) {
            None => Ok(()),
            Some(retry_time) => {
                Err(Refused::NotDue { id: call.id.clone(), retry_time, now: call.now })
            }
        }
    }

    pub(in crate::domain) fn refuses(&self, call: Call<'_>, hint: &'static str) -> Refused {
        Refused::State { id: call.id.clone(), state: self.state, reason: self.reason, hint }
    }
}
