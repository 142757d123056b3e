//! The checks of a run: what no commit and no answer may do.
//!
//! The judge sees every commit that the store accepts, every acknowledgement that a client gets
//! and every message of a watch. It remembers the highest value of each counter that was ever
//! given, failovers included.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::{AppState, Head};
use bellwether::domain::level::Level;
use bellwether::domain::name::{AppName, OperationId, PartName, UnitName};
use bellwether::domain::operation::Operation;
use bellwether::domain::outage::Outages;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::Unit;
use bellwether::store::redis::inspect::Keys;
use bellwether::store::{Bucket, Position};
use bellwether::watch::{Cursors, Entry, mark};

pub use crate::counts::Counts;
use crate::fence;
use crate::given::{Given, give};
use crate::level;
use crate::mark::Marks;
use crate::quorum;
use crate::refusal::Refusals;
use crate::report::Reports;
pub use crate::report::{Member, Sent, number};
use crate::server::app::App;
use crate::uptime::Uptime;

/// A unit that made contact within this time is not lost: less than three heartbeat intervals and
/// `lost_after`, because the clock of the store may be set forward meanwhile.
const LOST_AFTER_MIN: u64 = 100_000;
/// A unit that is silent for so long without a fault is lost: three heartbeat intervals until its
/// session ends, as many for self-preservation and for a replica that takes the session over, and
/// `lost_after`; and the longest freeze of a replica that still has a call of it.
const LOST_AFTER_MAX: u64 = 310_000;
/// A unit that is back for so long has reported.
const BACK_AFTER: u64 = 60_000;
/// Changes of one application that are kept for the comparison with watches.
const CHANGES_KEPT: usize = 256;

/// The state of all checks.
#[derive(Default)]
pub struct Judge {
    /// What was wrong, in order.
    pub violations: Vec<String>,
    /// What was counted.
    pub counts: Counts,
    /// The simulated time in milliseconds.
    pub now: u64,
    /// By how much the time of the store may be ahead.
    ahead_max: Duration,
    /// The uptime of the replicas, and what it says about leases.
    pub uptime: Uptime,
    /// What clients know of their reports.
    reports: Reports,
    /// What clients know of the marks.
    pub marks: Marks,
    /// Commits that were refused.
    pub refusals: Refusals,
    masters: u64,
    revisions: BTreeMap<AppName, Revision>,
    positions: BTreeMap<Bucket, Position>,
    /// The changes of each application that the serving master has.
    changes: BTreeMap<AppName, VecDeque<(Position, Arc<Head>)>>,
    /// Those that a former master had.
    lost_changes: BTreeMap<AppName, VecDeque<Arc<Head>>>,
    /// The epoch floor of the master that made the last change of a bucket; none until a master has
    /// made its first one.
    floors: BTreeMap<Bucket, Option<u64>>,
    /// The numbers that applications have given.
    given: Given,
    /// How often an application lost a commit.
    losses: BTreeMap<AppName, u64>,
    checkpoints: BTreeMap<(AppName, OperationId), u64>,
    /// How often the tombstone of an application was pruned.
    prunes: BTreeMap<AppName, u64>,
    /// The applications that neither the last master nor the one before it has, after a loss.
    pruned: Vec<AppName>,
    contacts: BTreeMap<Member, u64>,
    /// Units that are silent on purpose, each with the time since when.
    silent: BTreeMap<Member, u64>,
    returns: BTreeMap<Member, u64>,
}

impl Judge {
    /// Records a violation.
    pub fn accuse(&mut self, what: String) {
        let now = self.now;
        self.violations.push(format!("at {}.{:03} s: {what}", now / 1000, now % 1000));
    }

    fn check(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.accuse(what());
        }
    }

    /// Returns what a request needs for its acknowledgement.
    pub fn sent(&self, app: &AppName) -> Sent {
        let losses = self.losses.get(app).copied().unwrap_or_default();
        Sent { losses, masters: self.masters }
    }

    /// Records that a message of a unit has reached a replica.
    pub fn on_contact(&mut self, member: Member) {
        self.contacts.insert(member, self.now);
    }

    /// Allows the time of the store to be ahead by so much.
    pub fn allow_ahead(&mut self, ahead: Duration) {
        self.ahead_max = self.ahead_max.max(ahead);
    }

    /// Records that the process of a unit is gone, for good or for minutes.
    pub fn on_silence(&mut self, member: Member) {
        self.silent.insert(member, self.now);
    }

    /// Records that a unit is back.
    pub fn on_return(&mut self, member: Member) {
        self.silent.remove(&member);
        self.returns.insert(member, self.now);
    }

    /// Returns whether a unit is there for so long that it must be well.
    pub fn is_there(&self, member: &Member) -> bool {
        let back = self.returns.get(member);
        !self.silent.contains_key(member)
            && back.is_none_or(|at| BACK_AFTER <= self.now.saturating_sub(*at))
    }

    /// Checks that a unit that is silent without a fault since `healed` is lost.
    pub fn check_silence(&mut self, apps: &BTreeMap<AppName, App>, healed: u64) {
        let mut missed = Vec::new();
        for ((app, unit), since) in &self.silent {
            let silence = self.now.saturating_sub((*since).max(healed));
            // Counted once: this runs each second.
            self.counts.silences += u64::from(silence.wrapping_sub(LOST_AFTER_MAX) < 1000);
            let record = apps.get(app).and_then(|app| app.units.get(unit));
            let is_lost = record.is_none_or(|unit| unit.lost_since.is_some());
            if LOST_AFTER_MAX <= silence && !is_lost {
                missed.push(format!("{app} {unit:?} is not lost, silent since {since} ms"));
            }
        }
        missed.into_iter().for_each(|what| self.accuse(what));
    }

    /// Checks that nothing is there long after its end.
    pub fn check_ends(
        &mut self,
        apps: &BTreeMap<AppName, App>,
        time: Timestamp,
        outages: &Outages,
    ) {
        let late = self.uptime.late(apps, (time, outages));
        late.into_iter().for_each(|what| self.accuse(what));
    }

    /// Checks the marks of all applications: what the store has at this time, and what heads say.
    pub fn check_marks(&mut self, apps: &BTreeMap<AppName, App>, time: Timestamp) {
        let had_time = |since| self.uptime.had_time_since(since);
        let wrong = self.marks.compare(apps, time, (self.uptime.total(), had_time));
        wrong.into_iter().for_each(|what| self.accuse(what));
        let marked = apps.iter().filter(|(_, app)| !app.head.deleted && !app.marked.is_empty());
        for (name, app) in marked {
            let state = AppState::load(name.clone(), app.records());
            level::wrong(&state).into_iter().for_each(|what| self.accuse(format!("{name} {what}")));
        }
        for (name, app) in apps.iter().filter(|(_, app)| app.head.turnout().is_some()) {
            let state = AppState::load(name.clone(), app.records());
            quorum::miscounted(&state)
                .into_iter()
                .for_each(|what| self.accuse(format!("{name} {what}")));
        }
    }

    /// Checks a position that the store gives.
    pub fn on_position(
        &mut self,
        app: &AppName,
        (bucket, floor): (Bucket, u64),
        at: Position,
        head: &Arc<Head>,
    ) {
        self.floors.insert(bucket, Some(floor));
        let last = self.positions.insert(bucket, at).unwrap_or_default();
        self.check(last < at, || format!("position {} of bucket {} given twice", at.0, bucket.0));
        let known = self.revisions.insert(app.clone(), head.revision).unwrap_or_default();
        self.check(known < head.revision, || {
            format!("revision {} of {app} follows {known}", head.revision)
        });
        let changes = self.changes.entry(app.clone()).or_default();
        changes.push_back((at, head.clone()));
        if CHANGES_KEPT < changes.len() {
            changes.pop_front();
        }
    }

    /// Checks a commit that the store accepts.
    pub fn on_commit(&mut self, known: Option<&App>, t: &Transition, now: Timestamp) {
        self.counts.commits += 1;
        let (app, head) = (&t.app, &*t.head);
        // The time of the store may return to a clock by a hundredth of the time that passes.
        let ahead_max = self.ahead_max + Duration::from_millis(5_000 + self.now / 50);
        self.check(t.time <= now.after(ahead_max), || {
            format!("a commit of {app} is decided at {}, after {}", t.time.millis(), now.millis())
        });
        self.on_lease(app, head);
        let mut wrong = self.uptime.on_commit(known, t);
        wrong.extend(self.reports.on_commit(known, t));
        wrong.extend(self.marks.on_commit(known, t));
        wrong.extend(fence::wrong(known, t));
        wrong.into_iter().for_each(|what| self.accuse(what));
        let version = self.given.versions.get(app).copied().unwrap_or_default();
        let writes_data = t.writes.iter().any(|write| matches!(write, Write::Data(..)));
        let (is, rises) = (head.data.version, version < head.data.version);
        self.check(rises || !writes_data || t.is_deletion(), || {
            format!("data version {is} of {app} given twice")
        });
        self.given.versions.insert(app.clone(), version.max(is));
        for write in &t.writes {
            match write {
                Write::Operation(id, Some(operation)) => self.on_operation(app, id, operation),
                Write::Unit(name, Some(unit)) => {
                    let before = known.and_then(|app| app.units.get(name));
                    self.on_unit(app, name, before.map(|unit| &**unit), unit);
                }
                _ => {}
            }
        }
        self.on_doubt(known, t);
        if t.is_deletion() {
            self.checkpoints.retain(|(of, _), _| of != app);
        }
    }

    /// Counts that a tombstone was pruned, with the answers to requests. The numbers that the
    /// application has given stay: a later one of its name begins above them.
    pub fn on_pruned(&mut self, app: &AppName) {
        *self.prunes.entry(app.clone()).or_default() += 1;
    }

    /// Forgets the numbers that the serving masters do not have, those of pruned tombstones among
    /// them, and contacts in sessions that they may not have: no process is left that knows them.
    pub fn on_end_of_all(&mut self, apps: &BTreeMap<AppName, App>) {
        for app in self.given.leases.keys().chain(apps.keys()).cloned().collect::<Vec<_>>() {
            self.given.forget(&app, apps.get(&app));
        }
        let kept = |app| apps.get(app).map_or(Revision(0), |app| app.head.revision);
        self.revisions.iter_mut().for_each(|(app, last)| *last = kept(app).min(*last));
        self.contacts.clear();
    }

    /// Forgets the revisions that no master has and no process knows: no process is left that has
    /// seen them before the loss, or that knows a later time than the store.
    pub fn on_no_process(&mut self) {
        self.uptime.on_no_process();
        for app in self.pruned.drain(..) {
            *self.losses.entry(app).or_default() += 1;
        }
    }

    /// Returns how often the tombstone of an application was pruned, with the answers to requests.
    pub fn prunes(&self, app: &AppName) -> u64 {
        self.prunes.get(app).copied().unwrap_or_default()
    }

    fn on_lease(&mut self, app: &AppName, head: &Head) {
        let holder = head.lease.as_ref();
        let holder = holder.map(|lease| (lease.holder.clone(), lease.incarnation));
        let given = self.given.leases.entry(app.clone()).or_default();
        let wrong = give(given, head.lease_epoch, holder);
        // A new application has given none.
        self.check(wrong.is_none() || head.lease_epoch == 0, || {
            format!("lease epoch of {app}: {}", wrong.unwrap_or_default())
        });
    }

    fn on_operation(&mut self, app: &AppName, id: &OperationId, operation: &Operation) {
        let key = (app.clone(), id.clone());
        let given = self.given.fences.entry(key.clone()).or_default();
        let wrong = give(given, operation.fence, operation.holder().cloned());
        self.check(wrong.is_none(), || {
            format!("fence of {app} {id:?}: {}", wrong.unwrap_or_default())
        });
        let reached = number(&operation.checkpoint);
        if let Some(&acknowledged) = self.checkpoints.get(&key) {
            self.check(acknowledged <= reached, || {
                format!("{app} {id:?} is at checkpoint {reached} after {acknowledged}")
            });
        }
    }

    fn on_unit(&mut self, app: &AppName, name: &UnitName, before: Option<&Unit>, unit: &Unit) {
        let was_lost = before.is_some_and(|unit| unit.lost_since.is_some());
        if was_lost || unit.lost_since.is_none() || unit.has_departed() {
            return;
        }
        self.counts.losts += 1;
        let contact = self.contacts.get(&(app.clone(), name.clone())).copied();
        let silence = contact.map(|at| self.now.saturating_sub(at));
        self.check(silence.is_none_or(|silence| LOST_AFTER_MIN <= silence), || {
            format!("{app} {name:?} is lost {silence:?} ms after its last contact")
        });
    }

    /// Checks that a commit that takes over a loss marks the units.
    fn on_doubt(&mut self, known: Option<&App>, t: &Transition) {
        let Some(known) = known.filter(|known| known.head.losses < t.head.losses) else { return };
        if t.is_deletion() {
            return;
        }
        let app = &t.app;
        let written = t.writes.iter().filter_map(|write| match write {
            Write::Unit(name, unit) => Some((name, unit.as_deref())),
            _ => None,
        });
        let written: BTreeMap<&UnitName, Option<&Unit>> = written.collect();
        for (name, unit) in &known.units {
            let is_marked = match written.get(name) {
                Some(None) => true,
                Some(Some(unit)) => unit.uncertain_since.is_some() || unit.last_seen == t.time,
                None => unit.uncertain_since.is_some(),
            };
            self.check(is_marked, || format!("{app} {name:?} is certain after a loss"));
        }
    }

    /// Records another master, with applications otherwise than the former one: what was
    /// acknowledged of them counts no more, unless the store keeps it; nor do quiet commits.
    pub fn on_master<'a>(
        &mut self,
        lost: impl Iterator<Item = &'a AppName>,
        apps: &BTreeMap<AppName, App>,
        is_kept: bool,
    ) {
        if is_kept {
            self.compare(apps);
            self.counts.kept += 1;
        }
        self.masters += 1;
        self.checkpoints.clear();
        self.pruned.clear();
        for name in lost {
            *self.losses.entry(name.clone()).or_default() += 1;
            self.reports.forget(name);
            self.marks.forget(name);
            let found = apps.get(name);
            let last = found.map_or(Revision(0), |app| app.head.revision);
            self.revisions.insert(name.clone(), last);
            let at = found.map_or(Position(0), |app| app.position);
            let changes = self.changes.entry(name.clone()).or_default();
            let gone = changes.partition_point(|(position, _)| *position <= at);
            let gone = changes.split_off(gone).into_iter().map(|(_, head)| head);
            let lost = self.lost_changes.entry(name.clone()).or_default();
            lost.extend(gone);
            lost.drain(..lost.len().saturating_sub(CHANGES_KEPT));
        }
    }

    /// Records the last position that another master has in a bucket, and its applications. If it
    /// has lost changes, it may have lost those of pruned tombstones too.
    pub fn restart_positions(
        &mut self,
        (bucket, last): (Bucket, Position),
        is_of: impl Fn(&AppName) -> bool,
        apps: &BTreeMap<AppName, App>,
    ) {
        self.floors.insert(bucket, None);
        let before = self.positions.insert(bucket, last);
        if before.is_some_and(|before| last < before) {
            let is_gone = |app: &AppName, _: &mut _| is_of(app) && !apps.contains_key(app);
            self.pruned.extend(self.revisions.extract_if(.., is_gone).map(|(app, _)| app));
        }
    }

    /// Records an acknowledged report with this number.
    pub fn report_acknowledged(&mut self, member: Member, key: PartName, number: u64, sent: Sent) {
        self.counts.reports += 1;
        if sent.losses == self.sent(&member.0).losses {
            self.reports.on_acknowledged(member, key, number);
        }
    }

    /// Records an acknowledged checkpoint.
    pub fn checkpoint_acknowledged(&mut self, app: &AppName, id: &OperationId, n: u64, sent: Sent) {
        self.counts.operations += 1;
        if sent.masters == self.masters {
            let known = self.checkpoints.entry((app.clone(), id.clone())).or_default();
            *known = n.max(*known);
        }
    }

    /// Records an acknowledged write of a leader.
    pub fn leader_wrote(&mut self, app: &AppName, epoch: u64, unit: &UnitName) {
        self.counts.leader_writes += 1;
        let first = self.given.writers.entry((app.clone(), epoch)).or_insert_with(|| unit.clone());
        let is_same = first == unit;
        let first = first.clone();
        self.check(is_same, || format!("{first:?} and {unit:?} wrote in epoch {epoch} of {app}"));
    }

    /// Compares all acknowledged reports and checkpoints with what the store has.
    pub fn compare(&mut self, apps: &BTreeMap<AppName, App>) {
        let mut wrong = self.reports.compare(apps);
        for ((app, id), acknowledged) in &self.checkpoints {
            let found = apps.get(app).and_then(|app| app.operations.get(id));
            let reached = found.map(|operation| number(&operation.checkpoint));
            if reached.is_some_and(|reached| reached < *acknowledged) {
                wrong.push(format!("{app} {id:?}: checkpoint {acknowledged}, is {reached:?}"));
            }
        }
        wrong.into_iter().for_each(|what| self.accuse(format!("lost: {what}")));
    }

    /// Compares a state that a watcher received with the commit of that revision.
    pub fn on_item(&mut self, entry: &Entry) {
        self.counts.watch_events += 1;
        let changes = self.changes.get(&entry.app).into_iter().flatten().map(|(_, head)| head);
        let lost = self.lost_changes.get(&entry.app).into_iter().flatten();
        let of_revision = |head: &&Arc<Head>| head.revision == entry.revision();
        // After a loss one revision names two states, each of another master.
        let known: Vec<&Arc<Head>> = changes.chain(lost).filter(of_revision).collect();
        let whole = entry.head();
        let is_same = known.is_empty() || known.iter().any(|head| is_same(head, &whole));
        let (app, revision) = (&entry.app, entry.revision());
        self.check(is_same, || format!("revision {revision} of {app} has two contents"));
    }

    /// Compares the copy of a watcher with a bookmark, and with the store up to its cursors.
    pub fn on_bookmark(
        &mut self,
        copy: &BTreeMap<AppName, (Revision, Level)>,
        (digest, count): (u64, usize),
        cursors: &Cursors,
    ) {
        self.counts.bookmarks += 1;
        let sum = copy.iter().fold(0u64, |sum, (app, (revision, level))| {
            sum.wrapping_add(mark(app, *revision, *level))
        });
        let newest = self.changes.iter().filter_map(|(app, changes)| {
            let (at, head) = changes.back()?;
            Some((app, at.0, head.revision, head.summary.level, head.deleted))
        });
        let newest: Vec<_> = newest.collect();
        let newest = if sum == digest { String::new() } else { format!("{newest:?}") };
        self.check(sum == digest && count == copy.len(), || {
            format!(
                "a bookmark has digest {digest:x} of {count}, the copy {sum:x}: {copy:?}, and the \
                 store has {newest} beyond {cursors:?}"
            )
        });
        let mut behind = Vec::new();
        let keys = Keys::new(cursors.buckets());
        for (app, changes) in &self.changes {
            let bucket = keys.bucket_of(app);
            let floor = cursors.floors().get(usize::from(bucket.0)).copied().unwrap_or_default();
            if self.floors.get(&bucket).is_some_and(|serving| *serving != Some(floor)) {
                continue; // positions of another master
            }
            let cursor = cursors.of(bucket);
            let Some((_, head)) = changes.iter().rev().find(|(at, _)| *at <= cursor) else {
                continue;
            };
            let known = copy.get(app).map(|(revision, _)| *revision);
            let is_gone = changes.iter().any(|(at, head)| cursor < *at && head.deleted);
            let is_right = match known {
                Some(known) => head.revision <= known,
                None => head.deleted || is_gone,
            };
            if !is_right {
                behind.push(format!("{app} at {known:?}, and the cursor covers {}", head.revision));
            }
        }
        behind.into_iter().for_each(|what| self.accuse(format!("a watcher has {what}")));
    }
}

/// Returns whether two heads of one revision are the same, apart from what a quiet commit changes:
/// no observer receives it.
fn is_same(known: &Head, given: &Head) -> bool {
    let Head { next_due, quiet_commits, counts, .. } = *known;
    let mut given = Head { next_due, quiet_commits, counts, ..given.clone() };
    if let (Some(known), Some(given)) = (&known.lease, &mut given.lease) {
        // That of a lease that an outage has extended.
        given.ends = known.ends;
    }
    given == *known
}
