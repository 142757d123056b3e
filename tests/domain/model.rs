//! The naive model of an application's state: lists, and sorting.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bellwether::domain::level::{LEVELS, Level};
use bellwether::domain::policy::{Config, LostUnits, Policy};
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;
use bellwether::domain::unit::Callbacks;
use bellwether::domain::unit::presence::{Presence, ReplicaId};

use crate::holds::Damped;

#[derive(Debug, Clone, Default)]
pub struct Model {
    pub revision: u64,
    pub exists: bool,
    pub losses: u32,
    pub config: Config,
    pub leader_says: Option<LeaderSays>,
    pub units: Vec<Unit>,
    pub statuses: Vec<Status>,
    pub answers: Vec<Answer>,
    pub fences: Vec<Fence>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LeaderSays {
    pub overrides: bool,
    pub level: Level,
    pub message: String,
    pub asks: bool,
    pub since: u64,
    pub ends: Option<u64>,
}

#[derive(Debug, Clone, Default)]
pub struct Unit {
    pub name: String,
    pub incarnation: u64,
    pub last_seen: u64,
    pub lost_since: Option<u64>,
    pub uncertain_since: Option<u64>,
    pub quiet_since: Option<u64>,
    pub silence_ends: Option<u64>,
    pub presence: Presence,
    /// A promise does not break before this.
    pub not_before: u64,
    pub stateless: bool,
    pub labels: BTreeMap<Box<str>, Box<str>>,
    pub began: u64,
    pub departed: bool,
    pub last_answer: u64,
    pub callbacks: Callbacks,
    pub session_ended: bool,
    pub session_since: u64,
}

impl Unit {
    pub fn named(name: &str) -> Unit {
        Unit { name: name.to_string(), ..Unit::default() }
    }

    pub fn is_connected(&self) -> bool {
        matches!(self.presence, Presence::Connected(_))
    }

    pub fn is_believed(&self) -> bool {
        self.lost_since.is_none() && self.uncertain_since.is_none()
    }

    /// Returns when the unit's promise breaks, if it has an unbroken one.
    pub fn promise_ends(&self) -> Option<u64> {
        match self.presence {
            Presence::Promised(ttl) if self.quiet_since.is_none() && self.lost_since.is_none() => {
                Some((self.last_seen + ttl.as_millis() as u64).max(self.not_before))
            }
            _ => None,
        }
    }
}

impl Unit {
    /// Returns when time alone changes the unit.
    pub fn looked_at(&self) -> Option<u64> {
        let open = self.callbacks.values().filter(|c| !c.due).map(|c| c.at.millis());
        open.chain(self.silence_ends).chain(self.promise_ends()).min()
    }

    pub fn why_lost(&self) -> &'static str {
        match (self.departed, self.session_ended, self.presence) {
            (true, _, _) => "it has left without a successor",
            (false, true, _) => "no report since its session ended",
            (false, false, Presence::Promised(_)) => "no contact within its ttl",
            _ => "silent since its last ttl passed",
        }
    }

    /// Applies the changes by time up to `now`.
    pub fn judge(&mut self, now: u64, end_of_lost: Option<u64>) -> bool {
        let mut moved = true;
        if self.silence_ends.is_some_and(|t| t <= now) {
            self.lost_since = Some(now);
            self.silence_ends = end_of_lost;
        } else if self.promise_ends().is_some_and(|t| t <= now) {
            self.quiet_since = Some(now);
        } else {
            moved = false;
        }
        for callback in self.callbacks.values_mut().filter(|c| !c.due && c.at.millis() <= now) {
            callback.due = true;
            moved = true;
        }
        moved
    }
}

/// The incarnation up to which a unit was removed.
#[derive(Debug, Clone)]
pub struct Fence {
    pub unit: String,
    pub incarnation: u64,
    pub at: u64,
    /// Whether the unit itself was removed, not its application.
    pub by_removal: bool,
}

#[derive(Debug, Clone)]
pub struct Status {
    pub unit: String,
    pub component: String,
    pub key: String,
    pub kind: Kind,
    pub report: Report,
    pub incarnation: u64,
    pub since: u64,
    /// When the last report was observed.
    pub observed: Option<u64>,
    /// When the status becomes stale without a repeat.
    pub ends: Option<u64>,
    /// When the status is removed without a repeat.
    pub over: Option<u64>,
    pub stale: bool,
    /// Whether each result had another level than the one before, the oldest first.
    pub results: Vec<bool>,
    pub held: Option<Damped>,
    /// Whether the set that the status came in is of its component, and the number there.
    pub place: Option<(bool, u16)>,
}

impl Status {
    /// Returns when time alone ends the status or makes it stale.
    pub fn looked_at(&self) -> Option<u64> {
        self.ends.filter(|_| !self.stale).into_iter().chain(self.over).min()
    }

    fn in_set(&self, of_component: bool) -> u16 {
        self.place.filter(|place| place.0 == of_component).map_or(u16::MAX, |place| place.1)
    }
}

#[derive(Debug, Clone)]
pub struct Answer {
    pub id: String,
    pub at: u64,
    pub outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    pub revision: u64,
    pub changed: bool,
    pub removed: u32,
    pub incarnation: u64,
}

/// One contribution, with the values that the rules and the counts need.
#[derive(Debug, Clone, PartialEq)]
pub struct Contribution {
    pub unit: String,
    pub component: String,
    pub key: String,
    pub origin: &'static str,
    pub level: Level,
    pub precedence: i32,
    pub priority: i32,
    pub since: u64,
    pub asks: bool,
    pub flaps: bool,
    pub message: String,
    /// The numbers in the set of the unit and in that of the component.
    pub places: (u16, u16),
}

/// The counts of an application.
#[derive(Debug, Default, PartialEq)]
pub struct Counts {
    pub active_units: u32,
    pub units: u32,
    pub units_by_level: [u32; LEVELS],
    pub stale_units: u32,
    pub lost_units: u32,
    pub uncertain_units: u32,
    pub contributions: [u32; LEVELS],
    pub asking: u32,
    pub flapping: u32,
}

impl Model {
    /// Returns every contribution, the strongest first. An overriding status is not one of them.
    pub fn contributions(&self) -> Vec<Contribution> {
        let mut all: Vec<Contribution> = Vec::new();
        if let Some(says) = self.leader_says.as_ref().filter(|s| !s.overrides) {
            all.push(Contribution {
                since: says.since,
                asks: says.asks,
                ..plain("", "leader", says.level, &says.message)
            });
        }
        for unit in self.units.iter().filter(|u| u.uncertain_since.is_some()) {
            let message = format!("unit {} uncertain: the store may have lost its", unit.name);
            all.push(Contribution {
                since: unit.uncertain_since.unwrap(),
                ..plain(&unit.name, "uncertain", Level::Waiting, &message)
            });
        }
        let is_lost = |u: &&Unit| u.lost_since.is_some() && u.uncertain_since.is_none();
        for unit in self.units.iter().filter(is_lost) {
            let level = match self.config.lost_units {
                LostUnits::Ignore => continue,
                LostUnits::Waiting => Level::Waiting,
                LostUnits::Blocked => Level::Blocked,
            };
            let ends = match unit.silence_ends {
                Some(_) => "; it is removed once a successor is fresh",
                None => "",
            };
            let message = format!("unit {} lost: {}{ends}", unit.name, unit.why_lost());
            all.push(Contribution {
                since: unit.lost_since.unwrap(),
                ..plain(&unit.name, "lost", level, &message)
            });
        }
        for status in &self.statuses {
            let level = status.report.level;
            let believed = self.unit(&status.unit).is_none_or(Unit::is_believed);
            if believed || level == Level::Error || level == Level::Terminated {
                let origin = match status.kind {
                    Kind::Pull => "pull",
                    Kind::Push => "push",
                };
                all.push(Contribution {
                    component: status.component.clone(),
                    key: status.key.clone(),
                    precedence: status.report.details().precedence,
                    priority: status.report.details().priority,
                    since: status.since,
                    asks: !status.report.details().action.is_empty(),
                    flaps: status.flaps(),
                    places: (status.in_set(false), status.in_set(true)),
                    ..plain(&status.unit, origin, level, &status.report.message)
                });
            }
        }
        all.sort_by(|a, b| self.order(a, b));
        all
    }

    /// Compares by the rules in `tests/vectors/README.md`, then pull before push, which they leave
    /// open.
    fn order(&self, a: &Contribution, b: &Contribution) -> Ordering {
        let leads = |c: &Contribution| self.leader() == Some(c.unit.as_str());
        let by_precedence = b.precedence.cmp(&a.precedence);
        by_precedence
            .then_with(|| self.rank(a.level).cmp(&self.rank(b.level)))
            .then_with(|| b.priority.cmp(&a.priority))
            .then_with(|| a.is_of_unit().cmp(&b.is_of_unit()))
            .then_with(|| leads(b).cmp(&leads(a)))
            .then_with(|| natural(&a.unit, &b.unit))
            .then_with(|| a.places.0.cmp(&b.places.0))
            .then_with(|| a.component.as_bytes().cmp(b.component.as_bytes()))
            .then_with(|| a.places.1.cmp(&b.places.1))
            .then_with(|| a.key.as_bytes().cmp(b.key.as_bytes()))
            .then_with(|| a.since.cmp(&b.since))
            .then_with(|| a.origin.cmp(b.origin))
    }

    /// Returns the rule that decided between two contributions.
    pub fn rule_between(&self, a: &Contribution, b: &Contribution) -> &'static str {
        let leads = |c: &Contribution| self.leader() == Some(c.unit.as_str());
        let differs = [
            ("Precedence", a.precedence != b.precedence),
            ("Level", a.level != b.level),
            ("Priority", a.priority != b.priority),
            ("Application", a.is_of_unit() != b.is_of_unit()),
            ("Leader", leads(a) != leads(b)),
            ("Unit", a.unit != b.unit),
            ("Place", a.places.0 != b.places.0),
            ("Component", a.component != b.component),
            ("Place", a.places.1 != b.places.1),
            ("Key", a.key != b.key),
            ("Since", a.since != b.since),
        ];
        let first = differs.iter().find(|(_, differs)| *differs);
        first.map_or("Kind", |(rule, _)| rule)
    }

    pub fn rank(&self, level: Level) -> usize {
        let order = match &self.config.policy {
            Policy::Juju => "error blocked maintenance waiting active terminated unknown",
            Policy::OpenStack => "error blocked waiting maintenance active terminated unknown",
            Policy::Strict => "error blocked maintenance waiting unknown active terminated",
            Policy::Custom(order) => return order.iter().position(|l| *l == level).unwrap(),
        };
        order.split(' ').position(|w| w == level.word()).unwrap()
    }

    /// Returns the leading unit.
    pub fn leader(&self) -> Option<&str> {
        let unit = self.config.external_leader.as_ref()?;
        (unit.as_str() != "").then_some(unit.as_str())
    }

    /// Returns the level and message of the application.
    pub fn result(&self) -> (Level, String) {
        if let Some(says) = self.leader_says.as_ref().filter(|s| s.overrides) {
            return (says.level, says.message.clone());
        }
        if let Some(missed) = self.missed_quorum() {
            return (Level::Waiting, missed);
        }
        match self.ordered().first() {
            Some(winner) => (winner.level, winner.message.clone()),
            None => (Level::Unknown, String::new()),
        }
    }

    /// Returns all counts.
    pub fn counts(&self) -> Counts {
        let all = self.contributions();
        let active_units = self.quorum().map_or(0, |quorum| quorum.active);
        let mut counts = Counts { active_units, ..Counts::default() };
        for contribution in &all {
            counts.contributions[contribution.level as usize] += 1;
            counts.asking += u32::from(contribution.asks);
            counts.flapping += u32::from(contribution.flaps);
        }
        for unit in &self.units {
            let strongest = all.iter().find(|c| c.unit == unit.name);
            counts.units += 1;
            counts.units_by_level[strongest.map_or(Level::Unknown, |c| c.level) as usize] += 1;
            let stale = unit.quiet_since.is_some()
                || self.of(&unit.name).any(|s| s.stale || self.is_outlived(s));
            match (unit.uncertain_since, unit.lost_since) {
                (Some(_), _) => counts.uncertain_units += 1,
                (None, Some(_)) => counts.lost_units += 1,
                (None, None) => counts.stale_units += u32::from(stale),
            }
        }
        counts
    }

    /// Returns whether a status was pulled from an earlier incarnation.
    pub fn is_outlived(&self, status: &Status) -> bool {
        let is_newer = |unit: &Unit| status.incarnation < unit.incarnation;
        status.kind == Kind::Pull && self.unit(&status.unit).is_some_and(is_newer)
    }

    /// Returns the number of units with a session, by replica.
    pub fn sessions(&self) -> BTreeMap<ReplicaId, u32> {
        let mut sessions = BTreeMap::new();
        for unit in &self.units {
            if let Presence::Connected(session) = unit.presence {
                *sessions.entry(session.replica).or_default() += 1;
            }
        }
        sessions
    }

    /// Returns every moment at which time alone changes something.
    pub fn deadlines(&self) -> Vec<u64> {
        let statuses = self.statuses.iter().filter_map(Status::looked_at);
        let units = self.units.iter().filter_map(Unit::looked_at);
        let leader = self.leader_says.as_ref().and_then(|s| s.ends);
        let calm =
            self.statuses.iter().filter_map(|s| Some(s.held.as_ref()?.flapping.as_ref()?.calm));
        statuses.chain(units).chain(leader).chain(calm).collect()
    }
}

fn plain(unit: &str, origin: &'static str, level: Level, message: &str) -> Contribution {
    Contribution {
        unit: unit.to_string(),
        component: String::new(),
        key: String::new(),
        origin,
        level,
        precedence: 0,
        priority: 0,
        since: 0,
        asks: false,
        flaps: false,
        message: message.to_string(),
        places: (u16::MAX, u16::MAX),
    }
}

impl Contribution {
    fn is_of_unit(&self) -> bool {
        !self.unit.is_empty()
    }
}

/// Compares runs of digits as numbers, the rest by bytes; `""` comes first.
pub fn natural(a: &str, b: &str) -> Ordering {
    #[derive(PartialEq, Eq, PartialOrd, Ord)]
    enum Piece {
        BelowDigits(u8),
        Number(u64),
        AboveDigits(u8),
    }
    let pieces = |text: &str| {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut in_number = false;
        for byte in text.bytes() {
            let digit = byte.is_ascii_digit();
            match pieces.last_mut() {
                Some(Piece::Number(n)) if digit && in_number => {
                    *n = *n * 10 + u64::from(byte - b'0');
                }
                _ if digit => pieces.push(Piece::Number(u64::from(byte - b'0'))),
                _ if byte < b'0' => pieces.push(Piece::BelowDigits(byte)),
                _ => pieces.push(Piece::AboveDigits(byte)),
            }
            in_number = digit;
        }
        pieces
    };
    pieces(a).cmp(&pieces(b)).then(a.cmp(b))
}

impl Model {
    pub fn unit(&self, name: &str) -> Option<&Unit> {
        self.units.iter().find(|u| u.name == name)
    }

    pub fn of<'a>(&'a self, unit: &'a str) -> impl Iterator<Item = &'a Status> {
        self.statuses.iter().filter(move |s| s.unit == unit)
    }
}
