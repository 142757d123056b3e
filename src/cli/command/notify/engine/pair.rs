//! A route and an application: what the receiver was sent, and what it is owed.
//!
//! ```text
//!              Problem for stable_for                 another face: changed
//!    silent ---------------------------> open ------------------------------.
//!      ^                                 |  ^------------------------------'
//!      |  Below for recover_after,       |
//!      '- Planned, Deleted, RouteGone <--'  Acknowledged, Unclear: stays open
//! ```
//!
//! A message is stored as attempted before it is sent. So a process that ends at any time leaves
//! either no trace or the knowledge that the receiver may have the message, which is then sent
//! again before anything else is.

use std::time::Duration;

use crate::cli::command::notify::engine::fact::{Face, Fact};
use crate::cli::command::notify::engine::route::{Route, Verdict};
use crate::domain::time::Timestamp;

/// Of one application, changes are sent so often at most.
const CHANGE_PAUSE: Duration = Duration::from_secs(60);

/// The winner of what a receiver has if two attempts at one message differed: no state has it, so a
/// change follows.
const AMBIGUOUS: u32 = 0;

/// What a receiver has of an open problem: the stored part of a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// When the problem was sent first, by the clock of this process: distinguishes the problems of
    /// one application.
    pub opened: Timestamp,
    /// The revision that was sent last.
    pub revision: u64,
    /// The state that was sent last.
    pub face: Face,
    /// Since when the application had the level.
    pub since: Timestamp,
    /// A message that the receiver has not confirmed: it may have it or not.
    pub attempted: Option<Kind>,
    /// What the problem said, until it is confirmed: it may be over when it is sent again.
    pub message: String,
    /// The last revision at which it was seen acknowledged; 0: it is not.
    pub acknowledged: u64,
}

/// Kinds of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A problem begins.
    Problem,
    /// Something else is wrong, or an acknowledgement has ended.
    Changed(ChangeKind),
    /// The problem is over.
    Resolved(Ending),
    /// The open problem again, for receivers that forget.
    Repeat,
}

/// What has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Level, winner or action.
    State,
    /// The time of the acknowledgement has passed, and the problem is there.
    AcknowledgementExpired,
}

/// Why a problem is over for its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has recovered.
    Recovered,
    /// Planned work covers it.
    Planned,
    /// The application is deleted.
    Deleted,
    /// The file no longer has the route.
    RouteGone,
}

/// What comes next for a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing, unless the application changes.
    Nothing,
    /// Something may be owed at this time.
    At(Timestamp),
    /// This is owed now.
    Owed(Kind),
}

/// A route and an application.
#[derive(Debug, Clone)]
pub struct Pair {
    /// What the receiver was sent; `None`: nothing is open there.
    pub told: Option<Told>,
    /// The present judgement.
    pub verdict: Verdict,
    /// Since when it holds.
    pub since: Timestamp,
    /// Whether an acknowledgement has expired without a message.
    pub is_expired: bool,
    /// Whether a message is under way.
    pub is_busy: bool,
    /// Since when something is owed.
    pub owed_since: Option<Timestamp>,
    changed_at: Option<Timestamp>,
    repeat_at: Timestamp,
}

impl Pair {
    /// Returns a pair with what was stored of it.
    pub fn new(told: Option<Told>, verdict: Verdict, since: Timestamp, now: Timestamp) -> Pair {
        Pair {
            told,
            verdict,
            since,
            is_expired: false,
            is_busy: false,
            owed_since: None,
            changed_at: None,
            repeat_at: now,
        }
    }

    /// Whether the pair knows nothing that its application does not say.
    pub fn is_idle(&self) -> bool {
        let waits = matches!(self.verdict, Verdict::Problem | Verdict::Acknowledged);
        self.told.is_none() && !waits
    }

    /// Takes the newest judgement. Returns whether the stored part has changed.
    pub fn judged(&mut self, verdict: Verdict, fact: Option<&Fact>, now: Timestamp) -> bool {
        if verdict != self.verdict {
            (self.verdict, self.since) = (verdict, now);
        }
        let (Some(told), Some(fact)) = (&mut self.told, fact) else { return false };
        match verdict {
            Verdict::Acknowledged => {
                self.is_expired = false;
                let is_new = told.acknowledged == 0;
                told.acknowledged = fact.revision;
                is_new
            }
            Verdict::Problem if told.acknowledged != 0 => {
                // Stays stored until the receiver has a message.
                self.is_expired |= fact.acknowledgement_expired;
                if !self.is_expired {
                    told.acknowledged = 0;
                }
                !self.is_expired
            }
            _ => false,
        }
    }

    /// Begins `stable_for` anew: a common cause has hidden the problem so far.
    pub fn restart(&mut self, now: Timestamp) {
        self.since = now;
    }

    /// Returns what comes next.
    pub fn next(&self, route: &Route, fact: Option<&Fact>, now: Timestamp) -> Next {
        let by = |at: Timestamp, kind| if at <= now { Next::Owed(kind) } else { Next::At(at) };
        let recovers_at = self.since.after(route.recover_after);
        let Some(told) = &self.told else {
            return match self.verdict {
                Verdict::Problem => by(self.since.after(route.stable_for), Kind::Problem),
                _ => Next::Nothing,
            };
        };
        if let Some(kind @ (Kind::Problem | Kind::Resolved(_))) = told.attempted {
            return Next::Owed(kind);
        }
        match self.verdict {
            Verdict::Planned => Next::Owed(Kind::Resolved(Ending::Planned)),
            Verdict::Deleted => Next::Owed(Kind::Resolved(Ending::Deleted)),
            Verdict::RouteGone => Next::Owed(Kind::Resolved(Ending::RouteGone)),
            Verdict::Below => by(recovers_at, Kind::Resolved(Ending::Recovered)),
            Verdict::Problem | Verdict::Acknowledged | Verdict::Unclear => {
                self.change(told, route, fact, now)
            }
        }
    }

    /// Returns what comes next while the problem is open.
    fn change(&self, told: &Told, route: &Route, fact: Option<&Fact>, now: Timestamp) -> Next {
        if let Some(kind) = told.attempted {
            return Next::Owed(kind);
        }
        let repeat_at = route.delivery.repeat_every.map(|_| self.repeat_at);
        let change = fact.and_then(|fact| self.news(told, route, fact));
        let change = change.map(|(at, change)| {
            let paused = self.changed_at.map_or(at, |last| last.after(CHANGE_PAUSE));
            (at.max(paused), change)
        });
        match (change, repeat_at) {
            (Some((at, change)), _) if at <= now => Next::Owed(Kind::Changed(change)),
            (_, Some(at)) if at <= now => Next::Owed(Kind::Repeat),
            (Some((at, _)), Some(again)) => Next::At(at.min(again)),
            (Some((at, _)), None) | (None, Some(at)) => Next::At(at),
            (None, None) => Next::Nothing,
        }
    }

    /// Returns what differs from what was sent, and since when that counts.
    fn news(&self, told: &Told, route: &Route, fact: &Fact) -> Option<(Timestamp, ChangeKind)> {
        let differs = fact.face() != told.face;
        let is_worse = fact.is_at_least(fact.level, told.face.level);
        let is_worse = is_worse && fact.level != told.face.level;
        match self.verdict {
            Verdict::Problem if self.is_expired => {
                Some((self.since, ChangeKind::AcknowledgementExpired))
            }
            Verdict::Problem => differs.then_some((self.since, ChangeKind::State)),
            Verdict::Acknowledged => is_worse.then_some((self.since, ChangeKind::State)),
            // A moment without knowledge is no news.
            Verdict::Unclear => {
                differs.then_some((self.since.after(route.recover_after), ChangeKind::State))
            }
            _ => None,
        }
    }

    /// Begins a problem, before it is sent.
    pub fn open(&mut self, fact: &Fact, now: Timestamp) {
        self.told = Some(Told {
            opened: now,
            revision: fact.revision,
            face: fact.face(),
            since: fact.since,
            attempted: Some(Kind::Problem),
            message: fact.message.clone(),
            acknowledged: 0,
        });
    }

    /// Takes that a message about `fact` is about to be sent. Returns whether the stored part has
    /// changed.
    pub fn attempt(&mut self, kind: Kind, fact: Option<&Fact>) -> bool {
        let Some(told) = self.told.as_mut().filter(|_| kind != Kind::Repeat) else { return false };
        // No later message has a lower revision, whether or not this one arrives.
        let revision = fact.map_or(told.revision, |fact| fact.revision.max(told.revision));
        let before = (told.attempted, told.revision, told.face);
        (told.attempted, told.revision) = (Some(kind), revision);
        // The receiver may have the first attempt or this one, which have the same id.
        if kind == Kind::Problem && fact.is_some_and(|fact| fact.face() != told.face) {
            told.face.winner = AMBIGUOUS;
        }
        before != (told.attempted, told.revision, told.face)
    }

    /// Takes that the receiver has a message about `fact`. Returns whether the stored part has
    /// changed.
    pub fn confirmed(
        &mut self,
        kind: Kind,
        fact: Option<&Fact>,
        route: &Route,
        now: Timestamp,
    ) -> bool {
        let Some(told) = &mut self.told else { return false };
        self.repeat_at = now.after(route.delivery.repeat_every.unwrap_or_default());
        if kind == Kind::Repeat {
            return false;
        }
        told.attempted = None;
        match kind {
            // The face stays that of the first attempt, ambiguous if another one differed.
            Kind::Problem | Kind::Repeat => told.message = String::new(),
            Kind::Changed(change) => {
                self.changed_at = Some(now);
                if let Some(fact) = fact {
                    (told.revision, told.face) = (fact.revision, fact.face());
                }
                if change == ChangeKind::AcknowledgementExpired {
                    (self.is_expired, told.acknowledged) = (false, 0);
                }
            }
            Kind::Resolved(_) => {
                self.told = None;
                (self.is_expired, self.changed_at) = (false, None);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command::notify::engine::tests::{mk_fact, mk_route};
    use crate::proto::v1::Level;

    /// The first attempt has not arrived, the second one has, and the first state is back.
    #[test]
    fn attempts_that_differ_are_followed_by_a_change() {
        let (route, now) = (mk_route("all"), Timestamp::new(90_000));
        let [blocked, error] = [Level::Blocked, Level::Error].map(|it| mk_fact("web", 1, it));
        for (second, next) in
            [(&blocked, Next::Nothing), (&error, Next::Owed(Kind::Changed(ChangeKind::State)))]
        {
            let mut pair = Pair::new(None, Verdict::Problem, Timestamp::new(0), now);
            pair.open(&blocked, now);
            pair.attempt(Kind::Problem, Some(&blocked));
            let changed = pair.attempt(Kind::Problem, Some(second));
            assert_eq!(changed, second.level == Level::Error, "it has to be stored");
            pair.confirmed(Kind::Problem, Some(second), &route, now);
            assert_eq!(pair.next(&route, Some(&blocked), now), next);
        }
    }
}
