//! The rules of notifications as a state machine: states of applications and the time go in, what
//! is to be stored and sent comes out. It reads no clock and does no work of its own.
//!
//! ```text
//!  watch ---take, gone, sees, blind--> Engine --Orders.store--> leader data, first
//!  timer ---turn(now)----------------->   |   --Orders.send---> receivers, then
//!  receivers --ended(outcome)--------->   |
//!                                         '-- Pair: a route and an application (pair.rs)
//!                                             Lane: the deliveries of a route (lane.rs)
//!                                             Causes: one cause, one message (roots.rs)
//! ```
//!
//! What is owed is computed from what was sent and from the newest state, again after each change.
//! Nothing is queued: a receiver that was away gets the newest state.

mod delivery;
pub mod fact;
mod lane;
pub mod pair;
pub mod room;
mod roots;
pub mod route;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::cli::command::notify::engine::fact::{AppRef, Fact};
use crate::cli::command::notify::engine::lane::Lane;
use crate::cli::command::notify::engine::pair::{Kind, Next, Pair, Told};
use crate::cli::command::notify::engine::room::{RecordName, Room};
use crate::cli::command::notify::engine::roots::Causes;
use crate::cli::command::notify::engine::route::{Route, Verdict};
use crate::domain::time::Timestamp;

pub use self::delivery::{Delivery, Orders, Outcome};

/// First causes are looked for at most so often. A problem that waits for one is late by this at
/// most.
const CAUSES_PAUSE: Duration = Duration::from_millis(50);

/// A route, by its place, and an application.
type PairKey = (usize, AppRef);

/// The state of all routes.
#[derive(Debug)]
pub struct Engine {
    routes: Vec<Route>,
    lanes: Vec<Lane>,
    facts: HashMap<AppRef, Arc<Fact>>,
    /// Applications that are not well and state needs.
    needy: BTreeSet<AppRef>,
    pairs: BTreeMap<PairKey, Pair>,
    timers: BTreeSet<(Timestamp, PairKey)>,
    /// The timer of each pair.
    timer_of: HashMap<PairKey, Timestamp>,
    room: Room,
    /// Problems for which there is no room.
    unsent: BTreeSet<PairKey>,
    /// Pairs whose stored part has changed.
    unstored: BTreeSet<PairKey>,
    /// Records that have ended.
    ended: BTreeSet<RecordName>,
    /// Problems that the message of their only cause lists.
    listed: BTreeSet<PairKey>,
    causes: Causes,
    /// The application whose message names a cause that the route is not about.
    carriers: HashMap<(usize, u32), AppRef>,
    causes_at: Option<Timestamp>,
    causes_changed: bool,
    sees: bool,
    send: Vec<Delivery>,
}

impl Engine {
    /// Creates an engine with what is stored. A record of a route that the routes do not have gets
    /// one that ends it.
    pub fn new(
        mut routes: Vec<Route>,
        records: Vec<(RecordName, Told)>,
        pairs_max: usize,
        now: Timestamp,
    ) -> Engine {
        let mut room = Room::new(pairs_max);
        let mut pairs = BTreeMap::new();
        for (name, told) in records {
            let known = routes.iter().position(|it| it.name == name.route && it.to == name.to);
            let place = known.unwrap_or_else(|| {
                routes.push(Route::gone(&name));
                routes.len() - 1
            });
            room.take(&name, true);
            let subject = AppRef::new(&name.namespace, &name.application);
            pairs.insert((place, subject), Pair::new(Some(told), Verdict::Unclear, now, now));
        }
        let lanes = routes.iter().map(|route| Lane::new(route.delivery.at_once_max)).collect();
        Engine {
            routes,
            lanes,
            facts: HashMap::new(),
            needy: BTreeSet::new(),
            pairs,
            timers: BTreeSet::new(),
            timer_of: HashMap::new(),
            room,
            unsent: BTreeSet::new(),
            unstored: BTreeSet::new(),
            ended: BTreeSet::new(),
            listed: BTreeSet::new(),
            causes: Causes::default(),
            carriers: HashMap::new(),
            causes_at: None,
            causes_changed: true,
            sees: false,
            send: Vec::new(),
        }
    }

    /// Returns a route by its place.
    pub fn route(&self, place: usize) -> &Route {
        &self.routes[place]
    }

    /// Returns the number of open pairs.
    pub fn open_count(&self) -> usize {
        self.room.count()
    }

    /// Returns the number of problems that are not sent, because too many are open.
    pub fn unsent_count(&self) -> usize {
        self.unsent.len()
    }

    /// Returns the last revision at which an open problem was acknowledged, if it was.
    pub fn acknowledged_at(&self, subject: &AppRef) -> Option<u64> {
        let told = |place| self.pairs.get(&(place, subject.clone()))?.told.as_ref();
        let revisions = (0..self.routes.len()).filter_map(told).map(|told| told.acknowledged);
        revisions.max().filter(|revision| *revision != 0)
    }

    /// Returns for each receiver since when it is owed something.
    pub fn owed_since(&self) -> BTreeMap<&str, Timestamp> {
        let mut owed: BTreeMap<&str, Timestamp> = BTreeMap::new();
        for ((place, _), pair) in &self.pairs {
            let Some(since) = pair.owed_since else { continue };
            let known = owed.entry(&self.routes[*place].to).or_insert(since);
            *known = since.min(*known);
        }
        owed
    }

    /// Takes the newest state of an application.
    pub fn take(&mut self, fact: Fact, now: Timestamp) {
        let (subject, fact) = (fact.subject.clone(), Arc::new(fact));
        let before = self.facts.insert(subject.clone(), fact.clone());
        match fact.is_well() || fact.needs.is_empty() {
            true => drop(self.needy.remove(&subject)),
            false => drop(self.needy.insert(subject.clone())),
        }
        let began = if before.is_none() { fact.since.min(now) } else { now };
        self.causes_changed |= before.is_none_or(|it| {
            let parts = |fact: &Fact| (fact.level, fact.silent, fact.action.is_empty());
            it.needs != fact.needs || parts(&it) != parts(&fact)
        });
        for place in 0..self.routes.len() {
            let key = (place, subject.clone());
            if let Some(pair) = self.pairs.get_mut(&key) {
                let verdict = self.routes[place].judge_if_about(&subject, Some(&fact));
                if pair.judged(verdict, Some(&fact), now) {
                    self.unstored.insert(key.clone());
                }
            } else if self.routes[place].is_about(&subject) {
                let verdict = self.routes[place].judge(Some(&fact));
                let pair = Pair::new(None, verdict, began, now);
                if pair.is_idle() {
                    continue;
                }
                self.pairs.insert(key.clone(), pair);
            } else {
                continue;
            }
            self.set_timer(&key, Some(now));
        }
    }

    /// Takes that an application is deleted.
    pub fn gone(&mut self, subject: &AppRef, now: Timestamp) {
        self.facts.remove(subject);
        self.needy.remove(subject);
        self.causes_changed = true;
        for place in 0..self.routes.len() {
            let key = (place, subject.clone());
            if let Some(pair) = self.pairs.get_mut(&key) {
                pair.judged(self.routes[place].judge_if_about(subject, None), None, now);
                self.set_timer(&key, Some(now));
            }
        }
    }

    /// Takes that the states are complete and current.
    pub fn sees(&mut self, now: Timestamp) {
        self.sees = true;
        for key in self.pairs.keys().cloned().collect::<Vec<_>>() {
            let fact = self.facts.get(&key.1).cloned();
            let verdict = self.routes[key.0].judge_if_about(&key.1, fact.as_deref());
            if let Some(pair) = self.pairs.get_mut(&key)
                && pair.judged(verdict, fact.as_deref(), now)
            {
                self.unstored.insert(key.clone());
            }
            self.set_timer(&key, Some(now));
        }
    }

    /// Takes that states may be missing: nothing is sent until they are current again.
    pub fn blind(&mut self) {
        self.sees = false;
    }

    /// Returns when [`turn`](Engine::turn) may have something to do, unless something comes before.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        if !self.sees {
            return None;
        }
        let timer = self.timers.first().map(|(at, _)| *at);
        let lanes = self.lanes.iter().filter_map(Lane::wakes_at).min();
        let looks = self.causes_changed && !self.listed.is_empty();
        let causes = looks.then(|| self.causes_due());
        [timer, lanes, causes].into_iter().flatten().min()
    }

    /// Returns what is to be done at this time.
    pub fn turn(&mut self, now: Timestamp) -> Orders {
        if self.sees {
            while let Some((at, key)) = self.timers.first().cloned()
                && at <= now
            {
                self.set_timer(&key, None);
                self.settle(key, now);
            }
            self.look_again(now);
            for place in 0..self.lanes.len() {
                for subject in self.lanes[place].ready(now) {
                    self.settle((place, subject), now);
                }
            }
        }
        let ended = std::mem::take(&mut self.ended).into_iter().map(|name| (name, None));
        let mut store: BTreeMap<RecordName, Option<Told>> = ended.collect();
        for key in std::mem::take(&mut self.unstored) {
            let told = self.pairs.get(&key).and_then(|pair| pair.told.clone());
            store.insert(self.record_name(&key), told);
        }
        Orders { store: store.into_iter().collect(), send: std::mem::take(&mut self.send) }
    }

    /// Takes the end of a delivery.
    pub fn ended(&mut self, delivery: &Delivery, outcome: Outcome, now: Timestamp) {
        let key = (delivery.route, delivery.subject.clone());
        let route = &self.routes[delivery.route];
        let lane = &mut self.lanes[delivery.route];
        match outcome {
            Outcome::Delivered => lane.succeeded(),
            Outcome::Failed => lane.failed(now),
            Outcome::TurnedOff => {
                lane.failed(now);
                let to = route.to.clone();
                for (place, lane) in self.lanes.iter_mut().enumerate() {
                    if self.routes[place].to == to {
                        lane.turn_off();
                    }
                }
            }
        }
        let Some(pair) = self.pairs.get_mut(&key) else { return };
        pair.is_busy = false;
        if outcome == Outcome::Delivered {
            pair.owed_since = None;
            let changed = pair.confirmed(delivery.kind, delivery.fact.as_deref(), route, now);
            if changed {
                match pair.told.is_some() {
                    true => drop(self.unstored.insert(key.clone())),
                    false => self.end_record(&key, now),
                }
            }
        }
        self.settle(key, now);
    }

    /// Does what comes next for a pair: sends a message, sets a timer, or forgets the pair.
    fn settle(&mut self, key: PairKey, now: Timestamp) {
        let Some(pair) = self.pairs.get_mut(&key) else { return };
        if pair.is_busy {
            return;
        }
        let fact = self.facts.get(&key.1).cloned();
        let (is_idle, next) =
            (pair.is_idle(), pair.next(&self.routes[key.0], fact.as_deref(), now));
        let Next::Owed(kind) = next else {
            pair.owed_since = None;
            self.lanes[key.0].forget(&key.1);
            self.listed.remove(&key);
            self.unsent.remove(&key);
            self.set_timer(&key, if let Next::At(at) = next { Some(at) } else { None });
            if is_idle {
                self.pairs.remove(&key);
            }
            return;
        };
        self.set_timer(&key, None);
        if !self.sees || self.is_listed(&key, now) || !self.has_room(&key) {
            // The next one may begin.
            self.lanes[key.0].forget(&key.1);
            return;
        }
        let Some(pair) = self.pairs.get_mut(&key) else { return };
        if pair.owed_since.is_none() && kind != Kind::Repeat {
            pair.owed_since = Some(now);
        }
        if !self.lanes[key.0].begins(&key.1, now) {
            return;
        }
        if let (None, Some(fact)) = (&pair.told, &fact) {
            pair.open(fact, now);
            self.unstored.insert(key.clone());
            self.room.take(&record_name(&self.routes[key.0], &key.1), true);
        }
        let Some(told) = pair.told.clone() else { return };
        // A problem that is over when it is sent again says what it said at first.
        let is_over = !matches!(pair.verdict, Verdict::Problem | Verdict::Acknowledged);
        let fact = fact.filter(|_| kind != Kind::Problem || !is_over);
        if pair.attempt(kind, fact.as_deref()) {
            self.unstored.insert(key.clone());
        }
        pair.is_busy = true;
        let frees = self.frees(&key);
        let (route, subject) = key;
        self.send.push(Delivery { route, subject, kind, fact, told, frees });
    }

    /// Whether a problem is left to the message of its only cause, or has to wait until the causes
    /// are known.
    fn is_listed(&mut self, key: &PairKey, now: Timestamp) -> bool {
        let is_told = self.pairs.get(key).is_some_and(|pair| pair.told.is_some());
        if is_told || self.needy.is_empty() {
            return false;
        }
        if self.causes_changed {
            let at = self.causes_due();
            if now < at {
                self.set_timer(key, Some(at));
                return true;
            }
            self.find_causes(now);
        }
        let is_listed = !self.routes[key.0].each && self.is_carried(key);
        match is_listed {
            true => drop(self.listed.insert(key.clone())),
            false => drop(self.listed.remove(key)),
        }
        is_listed
    }

    /// Returns when the causes may be looked for again.
    fn causes_due(&self) -> Timestamp {
        self.causes_at.map_or(Timestamp::new(0), |at| at.after(CAUSES_PAUSE))
    }

    /// Whether another message names the only cause of an application. If none does, its own will.
    fn is_carried(&mut self, (place, subject): &PairKey) -> bool {
        let Some((number, cause)) = self.causes.only_cause(subject) else { return false };
        let route = &self.routes[*place];
        let is_told = |member: &&AppRef| {
            let verdict = route.judge_if_about(member, self.facts.get(*member).map(|it| &**it));
            // A cause that is marked is known, and so is what it causes.
            matches!(verdict, Verdict::Problem | Verdict::Acknowledged | Verdict::Planned)
        };
        if let Some(first) = cause.members.iter().find(is_told) {
            return first != subject;
        }
        let carrier = self.carriers.entry((*place, number)).or_insert_with(|| subject.clone());
        carrier != subject
    }

    fn find_causes(&mut self, now: Timestamp) {
        self.causes = Causes::of(&self.needy, &self.facts);
        (self.causes_at, self.causes_changed) = (Some(now), false);
        self.carriers.clear();
        for ((place, subject), pair) in &self.pairs {
            let only = self.causes.only_cause(subject).filter(|_| pair.told.is_some());
            if let Some((number, _)) = only {
                self.carriers.entry((*place, number)).or_insert_with(|| subject.clone());
            }
        }
    }

    /// Looks whether listed problems still have a cause with a message.
    fn look_again(&mut self, now: Timestamp) {
        if !self.causes_changed || self.listed.is_empty() || now < self.causes_due() {
            return;
        }
        self.find_causes(now);
        for key in self.listed.iter().cloned().collect::<Vec<_>>() {
            if self.is_carried(&key) {
                continue;
            }
            self.listed.remove(&key);
            if let Some(pair) = self.pairs.get_mut(&key) {
                pair.restart(now);
            }
            self.settle(key, now);
        }
    }

    /// Returns the applications that a message lists: those that get well with its cause alone.
    fn frees(&self, (place, subject): &PairKey) -> Vec<AppRef> {
        let Some((_, cause)) = self.causes.only_cause(subject) else { return Vec::new() };
        let members = cause.members.iter().chain(&cause.frees).filter(|it| *it != subject);
        members.filter(|it| self.routes[*place].is_about(it)).cloned().collect()
    }

    /// Whether there is room for the record of a pair.
    fn has_room(&mut self, key: &PairKey) -> bool {
        if self.pairs.get(key).is_some_and(|pair| pair.told.is_some()) {
            return true;
        }
        let name = self.record_name(key);
        let fits = self.room.take(&name, false);
        match fits {
            true => {
                self.room.free(&name);
                self.unsent.remove(key);
            }
            false => drop(self.unsent.insert(key.clone())),
        }
        fits
    }

    /// Ends the record of a pair, and gives its room to a problem that waits for it.
    fn end_record(&mut self, key: &PairKey, now: Timestamp) {
        let name = self.record_name(key);
        self.room.free(&name);
        self.unstored.remove(key);
        self.ended.insert(name);
        // What its message listed may be without one now.
        self.causes_changed = true;
        if let Some(next) = self.unsent.pop_first() {
            self.settle(next, now);
        }
    }

    fn record_name(&self, key: &PairKey) -> RecordName {
        record_name(&self.routes[key.0], &key.1)
    }

    fn set_timer(&mut self, key: &PairKey, at: Option<Timestamp>) {
        let before = match at {
            Some(at) => self.timer_of.insert(key.clone(), at),
            None => self.timer_of.remove(key),
        };
        if let Some(before) = before {
            self.timers.remove(&(before, key.clone()));
        }
        if let Some(at) = at {
            self.timers.insert((at, key.clone()));
        }
    }
}

fn record_name(route: &Route, subject: &AppRef) -> RecordName {
    RecordName {
        route: route.name.clone(),
        to: route.to.clone(),
        namespace: subject.namespace.to_string(),
        application: subject.application.to_string(),
    }
}
