//! Changes caused by time alone: a ttl passes, a silent unit is lost, a flapping status becomes
//! calm, the leader's status expires, a lease lapses.

use std::sync::Arc;

use super::app::Due;
use super::draft::Draft;
use super::limits::EXPIRED_PER_COMMIT_MAX;
use super::name::UnitName;
use super::status::Status;
use super::transition::{Cause, StatusEvent, Subject};

/// Drafts everything that is due, at most [`EXPIRED_PER_COMMIT_MAX`] records at once.
pub fn expire(draft: &mut Draft<'_>) {
    // First, regardless of the number of due records: an expired lease must not give any rights.
    draft.expire_lease();
    let now = draft.now;
    let due = draft.base.due.iter().take_while(|(at, _)| *at <= now);
    let due: Vec<Due> = due.take(EXPIRED_PER_COMMIT_MAX).map(|(_, d)| d.clone()).collect();
    for due in due {
        match due {
            Due::Status(key) => {
                let status = draft.status(&key).cloned();
                let passed = |s: &Arc<Status>| !s.stale && s.expire_time.is_some_and(|t| t <= now);
                let Some(status) = status.filter(passed) else {
                    continue;
                };
                let stale = Status {
                    stale: true,
                    update_time: now,
                    expire_time_written: status.expire_time,
                    ..(*status).clone()
                };
                draft.log_status(&key, Some(&status), Some(&stale), Cause::Expired);
                draft.put_status(key, Some(Arc::new(stale)));
            }
            Due::Unit(name) => {
                let passed = |at: Option<super::time::Timestamp>| at.is_some_and(|t| t <= now);
                match draft.unit(&name) {
                    Some(unit) if passed(unit.silence_ends) => draft.lose_unit(&name),
                    Some(unit) if passed(unit.silence_deadline()) => draft.quieten_unit(&name),
                    _ => {}
                }
                if passed(draft.unit(&name).and_then(super::app::Unit::next_callback)) {
                    draft.ring(&name);
                }
            }
            Due::Calm(key) => draft.calm(&key),
            Due::Fault(key) => draft.move_fault(&key),
            Due::ApplicationStatus => draft.expire_application_status(),
            Due::Operation(_) => draft.lapse_operations(),
            Due::Lease => {}
        }
    }
}

impl Draft<'_> {
    /// Marks a unit as lost, whether or not it ever reported.
    pub fn lose_unit(&mut self, name: &UnitName) {
        let mut unit = self.unit(name).cloned().unwrap_or_default();
        if unit.lost_since.is_some() {
            return;
        }
        unit.lost_since = Some(self.now);
        unit.silence_ends = None;
        let freshness = unit.freshness();
        self.put_unit(name.clone(), Some(unit));
        self.log(StatusEvent {
            subject: Some(Subject::unit(name)),
            freshness,
            ..self.event(Cause::UnitLost)
        });
    }

    /// Marks a unit that missed its contact time as stale; it is lost unless it reports. A lost
    /// unit stays only lost.
    pub(super) fn quieten_unit(&mut self, name: &UnitName) {
        let mut unit = self.unit(name).cloned().unwrap_or_default();
        if unit.lost_since.is_some() {
            return;
        }
        unit.quiet_since = Some(self.now);
        unit.silence_ends = Some(self.silence_from_now());
        let freshness = unit.freshness();
        self.put_unit(name.clone(), Some(unit));
        self.log(StatusEvent {
            subject: Some(Subject::unit(name)),
            freshness,
            ..self.event(Cause::Expired)
        });
    }

    fn expire_application_status(&mut self) {
        let now = self.now;
        let passed = |s: &super::app::ApplicationStatus| s.expire_time.is_some_and(|t| t <= now);
        if let Some(old) = self.head.application_status.take_if(|s| passed(s)) {
            self.head_changed(false);
            self.log(StatusEvent {
                subject: Some(Subject::unit(&UnitName::application())),
                from: Some(old.level),
                ..self.event(Cause::Expired)
            });
        }
    }
}
