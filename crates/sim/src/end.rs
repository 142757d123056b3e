//! What ends by time in an application: leases, the leases of operations, the ttl and the end of
//! statuses, the silence of units, and marks that end when all is well.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::Head;
use bellwether::domain::history::{Cause, Subject};
use bellwether::domain::mark::{Mark, MarkEnd, MarkId, WELL_FOR};
use bellwether::domain::name::{OperationId, UnitName};
use bellwether::domain::operation::Operation;
use bellwether::domain::outage::Outages;
use bellwether::domain::status::{Status, StatusKey};
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::{Transition, Write};
use bellwether::domain::unit::Unit;
use bellwether::domain::unit::presence::Presence;

use crate::mark::end_of;
use crate::server::app::App;

/// What ends by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The lease of leadership.
    Lease,
    /// The lease of an operation.
    Holder(OperationId),
    /// The ttl of a status, which is stale then.
    Ttl(Arc<StatusKey>),
    /// A status.
    Status(Arc<StatusKey>),
    /// The time for a unit to make contact, which is stale then.
    Contact(UnitName),
    /// The time for a stale unit to come back, which is lost then.
    Silence(UnitName),
    /// The time that all must be well before a mark ends.
    Well(MarkId),
}

impl End {
    /// Returns its name in the plural.
    pub fn name(&self) -> &'static str {
        match self {
            End::Lease => "leases",
            End::Holder(_) => "leases of operations",
            End::Ttl(_) => "ttls",
            End::Status(_) => "statuses",
            End::Contact(_) => "contacts",
            End::Silence(_) => "silences",
            End::Well(_) => "marks",
        }
    }

    /// Returns whether a replica may have a later deadline than the store, because it writes only
    /// some of the repeats.
    pub fn has_repeats(&self) -> bool {
        matches!(self, End::Ttl(_) | End::Contact(_))
    }
}

/// When something ends, `length` after its begin, if there is no outage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// When it ends.
    pub at: Timestamp,
    /// How long it lasts.
    pub length: Duration,
}

impl Deadline {
    fn new(at: Timestamp, length: Duration) -> Deadline {
        Deadline { at, length }
    }

    /// Returns when it began.
    pub fn begin(self) -> Timestamp {
        self.at.before(self.length)
    }
}

/// What a commit does to a deadline.
#[derive(Debug)]
pub struct Change {
    /// What ends.
    pub end: End,
    /// The deadline before.
    pub before: Option<Deadline>,
    /// The deadline after.
    pub after: Option<Deadline>,
    /// Whether it has ended because its time has passed.
    pub by_time: bool,
}

/// Returns the deadlines of an application.
pub fn all(app: &App) -> impl Iterator<Item = (End, Deadline)> {
    let head = &app.head;
    let lease = of_lease(head).map(|at| (End::Lease, at));
    let holders = app.operations.iter();
    let holders = holders.filter_map(|(id, o)| Some((End::Holder(id.clone()), of_holder(o)?)));
    let ttls = app.statuses.iter();
    let ttls = ttls.filter_map(|(key, s)| Some((End::Ttl(key.clone()), of_ttl(s)?)));
    let statuses = app.statuses.iter();
    let statuses = statuses.filter_map(|(key, s)| Some((End::Status(key.clone()), of_status(s)?)));
    let contacts = app.units.iter();
    let contacts =
        contacts.filter_map(|(name, u)| Some((End::Contact(name.clone()), of_contact(u)?)));
    let silences = app.units.iter();
    let silences =
        silences.filter_map(|(name, u)| Some((End::Silence(name.clone()), of_silence(u, head)?)));
    let marks = app.marked.iter();
    let marks = marks.filter_map(|(id, mark)| Some((End::Well(id.clone()), of_well(mark)?)));
    let of_units = contacts.chain(silences);
    lease.into_iter().chain(holders).chain(ttls).chain(statuses).chain(of_units).chain(marks)
}

/// Returns what a commit does to the deadlines of an application.
pub fn changes(known: Option<&App>, t: &Transition, outages: &Outages) -> Vec<Change> {
    let mut changes = vec![of_leader(known, t, outages)];
    for write in &t.writes {
        match write {
            Write::Operation(id, after) => {
                let before = known.and_then(|app| app.operations.get(id));
                changes.push(of_operation(id, before.map(|o| &**o), after.as_deref()));
            }
            Write::Status(key, after) => {
                let before = known.and_then(|app| app.statuses.get(key));
                changes.extend(of_key(key, (before.map(|s| &**s), after.as_deref()), t));
            }
            Write::Unit(name, after) => {
                let before = known.and_then(|app| Some((&*app.head, &**app.units.get(name)?)));
                changes.extend(of_unit(name, before, after.as_deref(), &t.head));
            }
            Write::Mark(id, after) => {
                let before = known.and_then(|app| app.marked.get(id)).and_then(|m| of_well(m));
                let (end, after) = (End::Well(id.clone()), after.as_deref().and_then(of_well));
                let is_end = |event: &_| is_well_at_last(event);
                let by_time = end_of(id, t).is_some_and(is_end);
                changes.push(Change { end, before, after, by_time });
            }
            _ => {}
        }
    }
    changes
}

fn is_well_at_last(event: &bellwether::domain::history::StatusEvent) -> bool {
    event.changes.iter().any(|change| *change.to == *MarkEnd::Well.word())
}

fn of_lease(head: &Head) -> Option<Deadline> {
    let lease = head.lease.as_ref().filter(|_| !head.deleted)?;
    Some(Deadline::new(lease.ends?, lease.duration))
}

fn of_leader(known: Option<&App>, t: &Transition, outages: &Outages) -> Change {
    let before = known.and_then(|app| of_lease(&app.head));
    let has_expired = t.events.iter().any(|event| event.cause == Cause::LeaderExpired);
    // A leader that was silent for too long in its session lapses too, at no written time. That may
    // be committed after the session has ended.
    let lapses = |lease: Deadline| t.time < outages.moved(lease.at, lease.length);
    let had_session = || {
        let holder = known.and_then(|app| app.units.get(&app.head.lease.as_ref()?.holder));
        holder.is_none_or(|unit| unit.session_ended || unit.session().is_some())
    };
    let is_due = |lease: Deadline| lease.at <= t.time && !(had_session() && lapses(lease));
    let by_time = has_expired && before.is_some_and(is_due);
    Change { end: End::Lease, before, after: of_lease(&t.head), by_time }
}

fn of_holder(operation: &Operation) -> Option<Deadline> {
    let lease = operation.lease.as_ref()?;
    Some(Deadline::new(lease.expire_time, operation.lease_duration))
}

fn of_operation(id: &OperationId, before: Option<&Operation>, after: Option<&Operation>) -> Change {
    let count = |operation: Option<&Operation>| operation.map_or(0, |o| o.interruptions);
    let by_time = before.is_some() && count(before) < count(after);
    let (end, of) = (End::Holder(id.clone()), |o: Option<&Operation>| o.and_then(of_holder));
    Change { end, before: of(before), after: of(after), by_time }
}

fn of_ttl(status: &Status) -> Option<Deadline> {
    let at = status.expire_time.filter(|_| !status.stale)?;
    Some(Deadline::new(at, status.ttl()?))
}

fn of_status(status: &Status) -> Option<Deadline> {
    Some(Deadline::new(status.end_time?, status.report.details().end_after?))
}

fn of_key(
    key: &Arc<StatusKey>,
    (before, after): (Option<&Status>, Option<&Status>),
    t: &Transition,
) -> [Change; 2] {
    let is_stale = |status: Option<&Status>| status.is_some_and(|status| status.stale);
    let ttl = Change {
        end: End::Ttl(key.clone()),
        before: before.and_then(of_ttl),
        after: after.and_then(of_ttl),
        by_time: before.is_some() && !is_stale(before) && is_stale(after),
    };
    let end = Change {
        end: End::Status(key.clone()),
        before: before.and_then(of_status),
        after: after.and_then(of_status),
        by_time: has_ended(key, t),
    };
    [ttl, end]
}

/// Returns whether a commit ends a status because its time has passed.
pub fn has_ended(key: &StatusKey, t: &Transition) -> bool {
    let subject = Subject::status(key);
    let is_it = |of: &Option<Subject>| of.as_ref() == Some(&subject);
    t.events.iter().any(|event| event.cause == Cause::Ended && is_it(&event.subject))
}

fn of_contact(unit: &Unit) -> Option<Deadline> {
    let is_open = unit.quiet_since.is_none() && unit.lost_since.is_none();
    match unit.presence {
        Presence::Promised(ttl) if is_open && unit.silence_ends.is_none() => {
            Some(Deadline::new(unit.last_seen.after(ttl), ttl))
        }
        _ => None,
    }
}

fn of_silence(unit: &Unit, head: &Head) -> Option<Deadline> {
    let at = unit.silence_ends.filter(|_| unit.lost_since.is_none())?;
    Some(Deadline::new(at, head.config.lost_after))
}

fn of_unit(
    name: &UnitName,
    before: Option<(&Head, &Unit)>,
    after: Option<&Unit>,
    head: &Head,
) -> [Change; 2] {
    let unit = before.map(|(_, unit)| unit);
    let begins = |of: fn(&Unit) -> bool| !unit.is_some_and(of) && after.is_some_and(of);
    let contact = Change {
        end: End::Contact(name.clone()),
        before: unit.and_then(of_contact),
        after: after.and_then(of_contact),
        by_time: begins(|unit| unit.quiet_since.is_some()),
    };
    let silence = Change {
        end: End::Silence(name.clone()),
        before: before.and_then(|(head, unit)| of_silence(unit, head)),
        after: after.and_then(|unit| of_silence(unit, head)),
        by_time: begins(|unit| unit.lost_since.is_some()),
    };
    [contact, silence]
}

fn of_well(mark: &Mark) -> Option<Deadline> {
    let since = mark.well_since.filter(|_| mark.begun)?;
    Some(Deadline::new(since.after(WELL_FOR), WELL_FOR))
}
