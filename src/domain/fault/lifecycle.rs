//! The state changes of a fault: by another error, by time, or by an operator.

use crate::domain::fault::retry::{Met, Whose, wait};
use crate::domain::fault::{Fault, FaultKey, NewError, Stage};
use crate::domain::limits::FaultSettings;
use crate::domain::message::same_text;
use crate::domain::time::Timestamp;

impl Fault {
    /// Returns the fault after an error, new or existing. The caller decides the final retry time.
    pub(in crate::domain) fn after_error(
        old: Option<&Fault>,
        (app, key): Whose<'_>,
        error: NewError,
        settings: &FaultSettings,
        (incarnation, now): (u64, Timestamp),
    ) -> Fault {
        let (class, holds) = (error.finding.class, error.finding.holds());
        let counts = class.counts_as_attempt();
        let before = |count: fn(&Fault) -> u32| old.map_or(0, count);
        let count = before(|old| old.count).saturating_add(1);
        let attempts = before(|old| old.attempts).saturating_add(u32::from(counts));
        // An error that does not count neither extends nor ends a series of attempts. It shows that
        // the unit works, so the time of the series restarts.
        let failing_since = counts.then(|| old.and_then(|old| old.failing_since).unwrap_or(now));
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
            error,
        };
        fault.staged(settings, now).shown_after(old, key, now)
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
        fault.staged(settings, now).shown_after(Some(self), key, now)
    }

    /// Returns the fault with the stage that matches its attempts and its age.
    fn staged(self, settings: &FaultSettings, now: Timestamp) -> Fault {
        let Some(since) = self.failing_since else {
            return Fault { stage: Stage::Quiet, stage_ends: None, ..self };
        };
        let soft = since.after(settings.soft_after);
        let hard = since.after(settings.hard_after);
        if settings.hard_count <= self.attempts || hard <= now {
            return Fault { stage: Stage::Unreachable, stage_ends: None, ..self };
        }
        if settings.soft_count <= self.attempts || soft <= now {
            return Fault { stage: Stage::Waiting, stage_ends: Some(hard), ..self };
        }
        Fault { stage: Stage::Quiet, stage_ends: Some(soft.min(hard)), ..self }
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
            (Stage::Unreachable, Some(since)) => format!("unreachable since {}: ", since.to_utc()),
            _ => String::new(),
        };
        format!("{since}{about}{says}").into()
    }
}
