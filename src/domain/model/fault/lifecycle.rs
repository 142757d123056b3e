//! The state changes of a fault: by another error, by time, or by an operator.

use crate::domain::classify::finding::Class;
use crate::domain::model::fault::retry::{Met, Whose, wait};
use crate::domain::model::fault::{Fault, FaultKey, Intermittent, NewError, Stage};
use crate::domain::model::limits::FaultSettings;
use crate::domain::model::message::same_text;
use crate::domain::model::time::Timestamp;

/// Returns whether errors of the class show by time alone, if no success comes: they count as no
/// attempt, and may never end.
fn ages(class: Class) -> bool {
    matches!(class, Class::Throttled | Class::Conflict)
}

impl Fault {
    /// Returns the fault after an error, new or existing. The caller decides the final retry time.
    pub(in crate::domain) fn after_error(
        old: Option<&Fault>,
        (app, key): Whose<'_>,
        mut error: NewError,
        settings: &FaultSettings,
        (incarnation, now): (u64, Timestamp),
    ) -> Fault {
        let (class, holds) = (error.finding.class, error.finding.holds());
        let counts = class.counts_as_attempt();
        let before = |count: fn(&Fault) -> u32| old.map_or(0, count);
        let count = before(|old| old.count).saturating_add(1);
        let attempts = before(|old| old.attempts).saturating_add(u32::from(counts));
        // An error that neither counts nor ages shows that the unit works: the time of the series
        // restarts.
        let lasts = counts || ages(class);
        let failing_since = lasts.then(|| old.and_then(|old| old.failing_since).unwrap_or(now));
        let pushback = error.evidence.retry_after;
        let retry = wait(settings, (app, key), &Met { class, holds, count, attempts, pushback });
        let retry = retry.map(|wait| wait.max(error.shortest_wait.unwrap_or_default()));
        // Another error of a class that holds keeps the existing hold.
        let held = old.and_then(|old| old.held_since).or(Some(now));
        let fault = Fault {
            count,
            attempts,
            attempts_left: settings.hard_count.saturating_sub(attempts),
            first: old.map_or(now, |old| old.first),
            last: now,
            failing_since,
            stage: Stage::Quiet,
            stage_ends: None,
            since: now,
            shown: "".into(),
            retry_time: retry.map(|wait| now.after(wait)),
            ask_time: None,
            incarnation,
            held_since: held.filter(|_| holds),
            while_stopping: old.is_some_and(|old| old.while_stopping),
            intermittent: old
                .and_then(|old| old.intermittent)
                .filter(|_| counts)
                .map(|intermittent| Intermittent { recovered: false, ..intermittent }),
            needs: std::mem::take(&mut error.needs),
            error,
        };
        fault.staged(old, settings, now).shown_after(old, key, now)
    }

    /// Returns the fault one stage further. The next stage always gets its full time, even if this
    /// call came late because the server was unable to receive.
    pub(in crate::domain) fn after_time(
        &self,
        key: &FaultKey,
        settings: &FaultSettings,
        now: Timestamp,
    ) -> Fault {
        let rest = settings.hard_after.saturating_sub(settings.soft_after);
        let (stage, stage_ends) = match self.stage {
            Stage::Quiet => (Stage::Waiting, Some(now.after(rest))),
            Stage::Waiting | Stage::Unreachable => (Stage::Unreachable, None),
        };
        Fault { stage, stage_ends, ..self.clone() }.shown_after(Some(self), key, now)
    }

    /// Returns the fault as one whose errors alternate with successes since a time.
    pub(in crate::domain) fn alternating(
        self,
        key: &FaultKey,
        since: Timestamp,
        settings: &FaultSettings,
    ) -> Fault {
        let intermittent = Some(Intermittent { since, recovered: false });
        let now = self.last;
        Fault { intermittent, ..self }.staged(None, settings, now).shown_after(None, key, now)
    }

    /// Returns an intermittent fault after a success: it ends with its stage.
    pub(in crate::domain) fn recovered(
        &self,
        key: &FaultKey,
        intermittent: Intermittent,
        settings: &FaultSettings,
        now: Timestamp,
    ) -> Fault {
        let fault = Fault {
            attempts: 0,
            attempts_left: settings.hard_count,
            failing_since: None,
            stage: Stage::Waiting,
            stage_ends: Some(now.after(settings.hard_after)),
            retry_time: None,
            ask_time: None,
            intermittent: Some(Intermittent { recovered: true, ..intermittent }),
            ..self.clone()
        };
        fault.shown_after(Some(self), key, now)
    }

    /// Returns the fault after an operator released it, with a fresh budget of attempts.
    pub(in crate::domain) fn retried(
        &self,
        key: &FaultKey,
        settings: &FaultSettings,
        now: Timestamp,
    ) -> Fault {
        let fault = Fault {
            attempts: 0,
            attempts_left: settings.hard_count,
            failing_since: self.failing_since.map(|_| now),
            retry_time: Some(now),
            held_since: None,
            ..self.clone()
        };
        fault.staged(None, settings, now).shown_after(Some(self), key, now)
    }

    /// Returns the fault with the stage that matches its attempts and its age. One that only ages
    /// keeps the stage that it had: another refusal is no success.
    fn staged(self, old: Option<&Fault>, settings: &FaultSettings, now: Timestamp) -> Fault {
        let Some(since) = self.failing_since else {
            return Fault { stage: Stage::Quiet, stage_ends: None, ..self };
        };
        let is_intermittent = self.intermittent.is_some();
        let mut soft = since.after(settings.soft_after);
        let mut hard = since.after(settings.hard_after);
        let mut stage = Stage::Quiet;
        let mut attempts = self.attempts;
        if ages(self.class()) {
            attempts = 0;
            stage = old.map_or(Stage::Quiet, |old| old.stage);
            let named = self.patient_until(old, now);
            (soft, hard) = (soft.max(named), hard.max(named));
        }
        let by_age = |at: Timestamp, count: u32| count <= attempts || at <= now;
        if by_age(hard, settings.hard_count) {
            stage = Stage::Unreachable;
        } else if is_intermittent || by_age(soft, settings.soft_count) {
            stage = stage.max(Stage::Waiting);
        }
        let stage_ends = match stage {
            Stage::Quiet => Some(soft.min(hard)),
            Stage::Waiting => Some(hard),
            Stage::Unreachable => None,
        };
        Fault { stage, stage_ends, ..self }
    }

    /// Returns the time that the peer named for another try: nothing is shown before it. A time
    /// that was named earlier and has not come stays, so that a worker that asks too early does not
    /// put it off again and again.
    fn patient_until(&self, old: Option<&Fault>, now: Timestamp) -> Timestamp {
        let is_pending = |old: &&Fault| ages(old.class()) && old.named().is_some_and(|at| now < at);
        let pending = old.filter(is_pending).and_then(|old| old.stage_ends);
        pending.or(self.named()).unwrap_or(now)
    }

    /// Returns the time that the peer named at the last error.
    fn named(&self) -> Option<Timestamp> {
        self.error.evidence.retry_after.map(|wait| self.last.after(wait))
    }

    /// Returns the fault with its visible level and text. The level's start moves only with the
    /// level, the text only when its meaning changes.
    fn shown_after(self, old: Option<&Fault>, key: &FaultKey, now: Timestamp) -> Fault {
        let level = self.level();
        let shown = self.text(key);
        let same = old.filter(|old| old.level() == level);
        Fault {
            since: same.map_or(now, |old| old.since),
            shown: match same.filter(|old| same_text(&old.shown, &shown)) {
                Some(old) => old.shown.clone(),
                None => shown,
            },
            ..self
        }
    }

    fn text(&self, key: &FaultKey) -> Box<str> {
        let says = match &*self.error.evidence.message {
            "" => &self.error.finding.explanation,
            message => message,
        };
        let about = match &*key.target {
            "" => String::new(),
            target => format!("{target}: "),
        };
        let since = match (self.stage, self.failing_since) {
            (Stage::Unreachable, Some(since)) => {
                let how = if self.has_no_answer() { "unreachable" } else { "failing" };
                format!("{how} since {}: ", since.to_utc())
            }
            _ => match self.intermittent {
                Some(Intermittent { since, .. }) => {
                    format!("failing on and off since {}: ", since.to_utc())
                }
                None => String::new(),
            },
        };
        format!("{since}{about}{says}").into()
    }
}
