//! The course of a fault: what one more error, the time, or an operator makes of it.

use super::retry::{Met, Whose, wait};
use super::{Fault, FaultKey, NewError, Settings, Stage};
use crate::domain::message::same_text;
use crate::domain::time::Timestamp;

impl Fault {
    /// What an error makes of a fault, or begins. When to try next is the caller's to settle.
    pub(super) fn after_error(
        old: Option<&Fault>,
        (app, key): Whose<'_>,
        error: NewError,
        settings: &Settings,
        (incarnation, now): (u64, Timestamp),
    ) -> Fault {
        let class = error.finding.class;
        let counts = class.counts_as_attempt();
        let before = |count: fn(&Fault) -> u32| old.map_or(0, count);
        let count = before(|old| old.count).saturating_add(1);
        let attempts = before(|old| old.attempts).saturating_add(u32::from(counts));
        // What does not count is no step of a series, and no end of one; but it is a sign of life,
        // so the time of the series begins anew.
        let failing_since = counts.then(|| old.and_then(|old| old.failing_since).unwrap_or(now));
        let pushback = error.evidence.retry_after;
        let retry = wait(settings, (app, key), &Met { class, count, attempts, pushback });
        // Told once more that it cannot go on, it stands still as before.
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
            held_since: held.filter(|_| class.holds()),
            error,
        };
        fault.staged(settings, now).shown_after(old, key, now)
    }

    /// Held as before, and met once more.
    pub(super) fn met_again(&self, now: Timestamp) -> Fault {
        Fault { count: self.count.saturating_add(1), last: now, ..self.clone() }
    }

    /// What time makes of it: one stage more. The next one has its full time from now on, also if
    /// this one came late, because nobody could listen.
    pub(super) fn after_time(&self, key: &FaultKey, settings: &Settings, now: Timestamp) -> Fault {
        let rest = settings.hard_after.saturating_sub(settings.soft_after);
        let (stage, stage_ends) = match self.stage {
            Stage::Quiet => (Stage::Waiting, Some(now.after(rest))),
            Stage::Waiting | Stage::Unreachable => (Stage::Unreachable, None),
        };
        Fault { stage, stage_ends, ..self.clone() }.shown_after(Some(self), key, now)
    }

    /// Let go by an operator, to try again with a fresh budget.
    pub(super) fn retried(&self, key: &FaultKey, settings: &Settings, now: Timestamp) -> Fault {
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

    /// With the stage that its attempts and its age have come to.
    fn staged(self, settings: &Settings, now: Timestamp) -> Fault {
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

    /// With what is shown: its level begins when it moves, its text moves when it says something
    /// else.
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
