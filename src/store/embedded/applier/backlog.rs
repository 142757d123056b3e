//! The groups that are in the log and not in the database yet, and when they must be applied.
//!
//! This is a state machine: time is an argument, and it does no work of its own.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::domain::name::AppName;
use crate::store::embedded::limits::Limits;
use crate::store::embedded::log::LogGroup;

/// The groups to apply, in order.
#[derive(Default)]
pub(crate) struct Backlog {
    limits: Limits,
    groups: Vec<LogGroup>,
    bytes: usize,
    /// The last group with changes of each application that has unapplied changes.
    by_app: HashMap<AppName, u64>,
    /// The last group of the log.
    last: u64,
    /// The last group in the database.
    applied: u64,
    /// The last group that a reader waits for.
    wanted: u64,
    /// The bytes of groups since the database was durable, and the time of the first of them.
    volatile_bytes: usize,
    volatile_since: Option<Instant>,
}

/// The next work of the applier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    /// Apply all groups. With `is_durable` the database must be durable afterwards.
    Apply { is_durable: bool },
    /// Ask again at this time.
    At(Instant),
    /// Ask again after the next change.
    Idle,
}

/// Groups to apply in one transaction; none if only the log has work.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) groups: Vec<LogGroup>,
    /// The sequence of the last group.
    pub(crate) last: u64,
    pub(crate) is_durable: bool,
}

impl Backlog {
    /// Makes the backlog of a database that has all groups up to `applied`.
    pub(crate) fn new(limits: Limits, applied: u64) -> Backlog {
        Backlog { limits, last: applied, applied, ..Backlog::default() }
    }

    /// Adds the next group of the log.
    pub(crate) fn push(
        &mut self,
        group: LogGroup,
        sequence: u64,
        apps: impl IntoIterator<Item = AppName>,
        now: Instant,
    ) {
        debug_assert_eq!(sequence, self.last + 1);
        self.last = sequence;
        self.bytes += group.bytes().len();
        self.volatile_bytes += group.bytes().len();
        self.volatile_since.get_or_insert(now);
        self.groups.push(group);
        self.by_app.extend(apps.into_iter().map(|app| (app, sequence)));
    }

    /// Returns whether the writer must wait before it adds a group.
    pub(crate) fn is_full(&self) -> bool {
        self.limits.bytes_max <= self.bytes
    }

    /// Returns the last group with unapplied changes of an application, and requests that the
    /// applier applies it. Returns `None` if the database has all changes of the application.
    pub(crate) fn want(&mut self, app: &AppName) -> Option<u64> {
        let sequence = *self.by_app.get(app)?;
        self.wanted = self.wanted.max(sequence);
        Some(sequence)
    }

    /// Returns the last group of the log, and requests that the applier applies it.
    pub(crate) fn want_all(&mut self) -> u64 {
        self.wanted = self.last;
        self.last
    }

    /// Returns whether the database has all groups.
    pub(crate) fn is_empty(&self) -> bool {
        self.is_applied(self.last)
    }

    pub(crate) fn is_applied(&self, sequence: u64) -> bool {
        sequence <= self.applied
    }

    /// Returns the next work. At the end of the store, everything must be durable.
    pub(crate) fn due(&self, now: Instant, is_end: bool) -> Due {
        let Some(since) = self.volatile_since else { return Due::Idle };
        let durable_at = since + self.limits.durable_after;
        let is_durable =
            is_end || durable_at <= now || self.limits.durable_bytes <= self.volatile_bytes;
        if is_durable || self.applied < self.wanted || self.limits.apply_bytes <= self.bytes {
            return Due::Apply { is_durable };
        }
        Due::At(durable_at)
    }

    /// Takes all groups, to apply them.
    pub(crate) fn take(&mut self, is_durable: bool) -> Work {
        Work { groups: std::mem::take(&mut self.groups), last: self.last, is_durable }
    }

    /// Notes that the database has the groups up to `last`.
    pub(crate) fn done(&mut self, last: u64, is_durable: bool) {
        self.applied = last;
        self.by_app.retain(|_, sequence| last < *sequence);
        self.bytes = self.groups.iter().map(|group| group.bytes().len()).sum();
        if is_durable {
            self.volatile_bytes = self.bytes;
            // Groups that arrived meanwhile are younger, so this is early at most.
            self.volatile_since = self.volatile_since.filter(|_| !self.groups.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LIMITS: Limits = Limits {
        durable_bytes: 1000,
        durable_after: Duration::from_secs(10),
        apply_bytes: 400,
        bytes_max: 2000,
        segment_bytes: 4000,
    };

    fn push(backlog: &mut Backlog, app: &str, bytes: usize, now: Instant) {
        let group = LogGroup::new(bytes, |buffer| buffer.resize(bytes, 0));
        let app = AppName::new("test", app).unwrap();
        backlog.push(group, backlog.last + 1, [app], now);
    }

    fn apply(backlog: &mut Backlog, now: Instant) -> bool {
        let Due::Apply { is_durable } = backlog.due(now, false) else { return false };
        let work = backlog.take(is_durable);
        backlog.done(work.last, is_durable);
        true
    }

    #[test]
    fn groups_are_applied_for_readers_and_made_durable_by_time_and_size() {
        let start = Instant::now();
        let mut backlog = Backlog::new(LIMITS, 7);
        let (web, db) = (AppName::new("test", "web").unwrap(), AppName::new("test", "db").unwrap());
        assert_eq!(backlog.due(start, false), Due::Idle);
        push(&mut backlog, "web", 100, start);
        assert_eq!(backlog.due(start, false), Due::At(start + LIMITS.durable_after));
        assert_eq!(backlog.due(start, true), Due::Apply { is_durable: true });

        assert_eq!(backlog.want(&db), None);
        assert_eq!(backlog.want(&web), Some(8));
        assert_eq!(backlog.due(start, false), Due::Apply { is_durable: false });
        let work = backlog.take(false);
        push(&mut backlog, "db", 100, start);
        backlog.done(work.last, false);
        assert!(backlog.is_applied(8) && !backlog.is_applied(9));
        assert_eq!((backlog.want(&web), backlog.want(&db)), (None, Some(9)));
        assert!(apply(&mut backlog, start));

        // Applied, but not durable: the time still counts from the first group.
        let late = start + LIMITS.durable_after;
        assert_eq!(backlog.due(start, false), Due::At(late));
        assert_eq!(backlog.due(late, false), Due::Apply { is_durable: true });
        assert!(apply(&mut backlog, late));
        assert_eq!(backlog.due(late, false), Due::Idle);

        push(&mut backlog, "web", 500, late);
        assert_eq!(backlog.due(late, false), Due::Apply { is_durable: false });
        push(&mut backlog, "web", 500, late);
        assert_eq!(backlog.due(late, false), Due::Apply { is_durable: true });
        push(&mut backlog, "web", 1000, late);
        assert!(backlog.is_full());
        assert!(apply(&mut backlog, late));
        assert!(!backlog.is_full());
    }
}
