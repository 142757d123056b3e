//! The thread that applies the groups of the log to the database.
//!
//! ```text
//!  Writer --push--> Backlog --take--> Applier: transaction --> database --> segments are freed
//!  load, events --await_applied--'
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use tokio::time::Instant;

use crate::domain::name::AppName;
use crate::sync::{lock, panic_text};

use super::Shared;
use super::limits::Limits;
use super::log::{LogGroup, Segments};
use super::tables;

mod backlog;

use backlog::{Backlog, Due, Work};

/// The backlog, as the writer, the readers and the applier share it.
pub(super) struct SharedBacklog {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    backlog: Backlog,
    /// Whether the store closes: everything must be applied.
    is_end: bool,
    /// Whether the applier has stopped. Nothing is applied until the database is opened again.
    is_stopped: bool,
}

/// What the applier has to do.
enum Look {
    Work(Work),
    Stop,
    /// Look again after a change, or at this time.
    Wait(Option<Instant>),
}

impl State {
    fn new(limits: Limits, applied: u64) -> State {
        State { backlog: Backlog::new(limits, applied), is_end: false, is_stopped: false }
    }

    fn look(&mut self, now: Instant, is_urgent: impl Fn() -> bool) -> Look {
        if self.is_stopped {
            return Look::Stop;
        }
        match self.backlog.due(now, self.is_end) {
            Due::Apply { is_durable } => Look::Work(self.backlog.take(is_durable)),
            Due::Idle | Due::At(_) if is_urgent() => Look::Work(Work::default()),
            Due::Idle if self.is_end => Look::Stop,
            Due::Idle => Look::Wait(None),
            Due::At(at) => Look::Wait(Some(at)),
        }
    }
}

impl SharedBacklog {
    /// Makes the backlog of a database that has all groups up to `applied`.
    pub(super) fn new(limits: Limits, applied: u64) -> SharedBacklog {
        let state = Mutex::new(State::new(limits, applied));
        SharedBacklog { state, changed: Condvar::new() }
    }

    /// Begins anew with a database that was opened again.
    pub(super) fn reset(&self, limits: Limits, applied: u64) {
        *self.state() = State::new(limits, applied);
    }

    /// Waits until the backlog has room for a group.
    pub(super) fn await_room(&self) {
        let is_full = |state: &mut State| state.backlog.is_full() && !state.is_stopped;
        drop(self.changed.wait_while(self.state(), is_full));
    }

    /// Adds the next group of the log.
    pub(super) fn push(
        &self,
        group: LogGroup,
        sequence: u64,
        apps: impl IntoIterator<Item = AppName>,
    ) {
        let now = Instant::now();
        let mut state = self.state();
        let was_due = state.backlog.due(now, false);
        state.backlog.push(group, sequence, apps, now);
        let is_due = state.backlog.due(now, false);
        drop(state);
        if is_due != was_due {
            self.wake();
        }
    }

    /// Waits until the database has all changes of an application, or cannot be used.
    pub(super) fn await_applied(&self, app: &AppName) {
        let mut state = self.state();
        let Some(sequence) = state.backlog.want(app) else { return };
        self.await_group(state, sequence);
    }

    /// Waits until the database has every group of the log so far, or cannot be used.
    pub(super) fn await_all(&self) {
        let mut state = self.state();
        let sequence = state.backlog.want_all();
        self.await_group(state, sequence);
    }

    fn await_group(&self, state: MutexGuard<'_, State>, sequence: u64) {
        self.changed.notify_all();
        let is_missing =
            |state: &mut State| !state.backlog.is_applied(sequence) && !state.is_stopped;
        drop(self.changed.wait_while(state, is_missing));
    }

    /// Makes the applier look for work.
    pub(super) fn wake(&self) {
        // Between its last look and its sleep the applier has the lock, so it misses no call.
        drop(self.state());
        self.changed.notify_all();
    }

    /// Makes the applier apply everything and stop.
    pub(super) fn end(&self) {
        self.state().is_end = true;
        self.wake();
    }

    /// Returns whether the database has all groups.
    pub(super) fn is_empty(&self) -> bool {
        self.state().backlog.is_empty()
    }

    /// Makes the applier stop, and lets all that wait for it go on.
    pub(super) fn stop(&self) {
        self.state().is_stopped = true;
        self.wake();
    }

    /// Waits for work. Returns `None` if the applier must stop.
    fn next(&self, is_urgent: impl Fn() -> bool) -> Option<Work> {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            state = match state.look(now, &is_urgent) {
                Look::Work(work) => return Some(work),
                Look::Stop => return None,
                Look::Wait(None) => self.changed.wait(state).unwrap_or_else(|e| e.into_inner()),
                Look::Wait(Some(at)) => {
                    let patience = at.saturating_duration_since(now);
                    self.changed.wait_timeout(state, patience).unwrap_or_else(|e| e.into_inner()).0
                }
            };
        }
    }

    /// Returns work that is due now, if there is any.
    fn due(&self, is_urgent: impl Fn() -> bool) -> Option<Work> {
        match self.state().look(Instant::now(), is_urgent) {
            Look::Work(work) => Some(work),
            Look::Stop | Look::Wait(_) => None,
        }
    }

    /// Returns whether the writer must wait before it adds a group.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn is_full(&self) -> bool {
        let state = self.state();
        state.backlog.is_full() && !state.is_stopped
    }

    /// Requests what a read of an application needs. Returns whether it may read: the database has
    /// all changes of the application, or cannot be used.
    pub(super) fn want(&self, app: &AppName) -> bool {
        let mut state = self.state();
        state.backlog.want(app).is_none() || state.is_stopped
    }

    fn done(&self, last: u64, is_durable: bool) {
        self.state().backlog.done(last, is_durable);
        self.wake();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// The priority of the thread: about a tenth of the share of a thread that serves calls.
const PRIORITY: i32 = 10;

/// The state of the applier thread.
pub(super) struct Applier {
    shared: Arc<Shared>,
    segments: Arc<Segments>,
    /// The last group that was durable at the last but one durable transaction. redb can fall back
    /// to that one, so the log keeps what follows it.
    safe: u64,
    durable: u64,
}

impl Applier {
    pub(super) fn new(shared: Arc<Shared>, segments: Arc<Segments>) -> Applier {
        Applier { shared, segments, safe: 0, durable: 0 }
    }

    /// Applies groups until the store ends or the database fails.
    pub(super) fn run(mut self) {
        // A transaction takes a processor for up to 100 ms, and few calls wait for one. On Linux
        // the priority is that of this thread. If it cannot be changed, other calls wait longer.
        let _ = rustix::process::setpriority_process(None, PRIORITY);
        let shared = self.shared.clone();
        while let Some(work) = shared.backlog.next(|| self.segments.is_spare_wanted()) {
            if !self.try_apply(work) {
                return;
            }
        }
    }

    /// Applies what is due now. Returns whether something was.
    pub(super) fn step(&mut self) -> bool {
        let work = self.shared.backlog.due(|| self.segments.is_spare_wanted());
        work.is_some_and(|work| self.try_apply(work))
    }

    /// Applies groups. Returns whether the database can still be used.
    fn try_apply(&mut self, work: Work) -> bool {
        let applied = catch_unwind(AssertUnwindSafe(|| self.apply(work)));
        let applied = applied.unwrap_or_else(|panic| Err(panic_text(&*panic).to_string()));
        if let Err(reason) = &applied {
            tracing::error!(reason, "database cannot be written, will be opened again");
            self.shared.set_unusable(reason.clone());
        }
        applied.is_ok()
    }

    fn apply(&mut self, work: Work) -> Result<(), String> {
        let Work { groups, last, is_durable } = work;
        if !groups.is_empty() || is_durable {
            self.write(&groups, last, is_durable)?;
            // The memory of the groups is free before the writer adds more.
            drop(groups);
            self.shared.backlog.done(last, is_durable);
        }
        if is_durable {
            self.safe = std::mem::replace(&mut self.durable, last);
        }
        let kept = self.segments.free_up_to(self.safe).and_then(|()| self.segments.prepare());
        if let Err(error) = kept {
            tracing::warn!(%error, "cannot prepare a segment of the log, the current one grows");
        }
        Ok(())
    }

    fn write(&self, groups: &[LogGroup], last: u64, is_durable: bool) -> Result<(), String> {
        let database = self.shared.database();
        let database = database.as_ref().map_err(Clone::clone)?;
        let groups = groups.iter().map(LogGroup::ops);
        tables::apply_groups(database, groups, last, is_durable).map_err(|error| error.to_string())
    }
}
