//! A route: which problems go to a receiver, and how it judges a state.

use std::time::Duration;

use crate::cli::command::notify::engine::fact::{AppRef, Fact};
use crate::cli::command::notify::engine::room::RecordName;
use crate::cli::command::notify::glob::matches_any;
use crate::proto::v1::Level;

/// A route of the file.
#[derive(Debug, Clone)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// The name of its receiver.
    pub to: String,
    /// Patterns of namespaces; empty: all.
    pub namespaces: Vec<String>,
    /// Patterns of applications; empty: all.
    pub applications: Vec<String>,
    /// The levels that are a problem.
    pub levels: Levels,
    /// How long a problem lasts before it is sent.
    pub stable_for: Duration,
    /// How long it is over before its end is sent.
    pub recover_after: Duration,
    /// Whether marks are ignored: acknowledged and planned problems are sent as others are.
    pub sends_marked: bool,
    /// Whether applications behind one cause are sent one by one.
    pub each: bool,
    /// Whether the file no longer has it: what it told is ended.
    pub is_gone: bool,
    /// How the deliveries of its receiver are made.
    pub delivery: DeliveryWay,
}

/// The levels that are a problem for a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Levels {
    /// These.
    Of(Vec<Level>),
    /// Those that are at least as severe, by the policy of the application.
    AtLeast(Level),
}

/// How the deliveries of a receiver are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryWay {
    /// How many are under way at once, at most.
    pub at_once_max: usize,
    /// How often an open problem is sent again; `None`: never.
    pub repeat_every: Option<Duration>,
}

/// What a state is for a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// A problem without a mark.
    Problem,
    /// An acknowledged problem: opens nothing, and keeps open what is open.
    Acknowledged,
    /// Covered by planned work: opens nothing, and ends what is open.
    Planned,
    /// Neither a problem nor reliably none: unknown, stale, lost or uncertain.
    Unclear,
    /// No problem.
    Below,
    /// The application is deleted.
    Deleted,
    /// The file no longer has the route.
    RouteGone,
}

impl Route {
    /// Whether the route is about an application.
    pub fn is_about(&self, subject: &AppRef) -> bool {
        matches_any(&self.namespaces, &subject.namespace)
            && matches_any(&self.applications, &subject.application)
    }

    /// Returns a route that ends what a former one told.
    pub fn gone(name: &RecordName) -> Route {
        Route {
            name: name.route.clone(),
            to: name.to.clone(),
            namespaces: Vec::new(),
            applications: Vec::new(),
            levels: Levels::Of(Vec::new()),
            stable_for: Duration::ZERO,
            recover_after: Duration::ZERO,
            sends_marked: false,
            each: true,
            is_gone: true,
            delivery: DeliveryWay { at_once_max: 1, repeat_every: None },
        }
    }

    /// Judges the state of an application that the route was about, and may not be any more.
    pub fn judge_if_about(&self, subject: &AppRef, fact: Option<&Fact>) -> Verdict {
        match self.is_about(subject) {
            true => self.judge(fact),
            false => Verdict::RouteGone,
        }
    }

    /// Judges the state of an application; `None`: it is deleted.
    pub fn judge(&self, fact: Option<&Fact>) -> Verdict {
        if self.is_gone {
            return Verdict::RouteGone;
        }
        let Some(fact) = fact else { return Verdict::Deleted };
        let is_problem = match &self.levels {
            Levels::Of(levels) => levels.contains(&fact.level),
            Levels::AtLeast(least) => fact.is_at_least(fact.level, *least),
        };
        match fact.level {
            _ if fact.planned && !self.sends_marked => Verdict::Planned,
            _ if is_problem && fact.acknowledged && !self.sends_marked => Verdict::Acknowledged,
            _ if is_problem => Verdict::Problem,
            Level::Unknown | Level::Unspecified => Verdict::Unclear,
            _ if fact.silent => Verdict::Unclear,
            _ => Verdict::Below,
        }
    }
}
