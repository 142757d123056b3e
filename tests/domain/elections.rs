//! Properties of elections with any sequence of units, operators, time and data losses: one holder
//! for each epoch, epochs only rise, a former leader cannot write, and the candidate that waited
//! longest is next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::{AppState, Head};
use bellwether::domain::apply::apply;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::data::DataPatch;
use bellwether::domain::data_loss::mark_uncertain;
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::leadership::Claim;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::UnitName;
use bellwether::domain::outage::{Downtime, Outages};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::replay::Records;
use bellwether::domain::request::Outcome;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::presence::{ReplicaId, SessionId};
use bellwether::domain::unit::{Newcomer, Reporter};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::world::app_name;

const UNITS: usize = 5;
/// How long the server is down for a restart.
const RESTART_MILLIS: u64 = 1500;
/// Distance between the epoch floors of two masters.
const COUNTS_PER_MASTER: u64 = 1 << 20;

#[derive(Debug, Clone)]
enum Step {
    Pass(u64),
    Claim(usize),
    /// With the epoch that the unit got last.
    Renew(usize),
    /// By the current leader, of whichever unit.
    Release(usize),
    Resign(usize),
    Transfer(usize),
    Remove(usize),
    /// As a new incarnation, or as the same.
    Connect(usize, bool),
    Disconnect(usize, bool),
    Lapse(usize),
    /// The store goes back by this number of commits; the loss is detected or not.
    Lose(usize, bool),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let unit = || 0..UNITS;
    prop_oneof![
        6 => (0..4000u64).prop_map(Step::Pass),
        8 => unit().prop_map(Step::Claim),
        3 => unit().prop_map(Step::Renew),
        8 => (0..UNITS * 4).prop_map(Step::Release),
        1 => unit().prop_map(Step::Resign),
        1 => unit().prop_map(Step::Transfer),
        1 => unit().prop_map(Step::Remove),
        4 => (unit(), any::<bool>()).prop_map(|(unit, again)| Step::Connect(unit, again)),
        3 => (unit(), any::<bool>()).prop_map(|(unit, silent)| Step::Disconnect(unit, silent)),
        2 => unit().prop_map(Step::Lapse),
        1 => (1..6usize, any::<bool>()).prop_map(|(count, found)| Step::Lose(count, found)),
        1 => Just(Step::Restart),
    ]
}

/// The local state of a unit's worker.
#[derive(Default, Clone)]
struct Worker {
    incarnation: Option<u64>,
    session: u64,
    epoch: u64,
}

struct Elections {
    now: u64,
    state: AppState,
    replica: AppState,
    past: Vec<AppState>,
    losses: u32,
    /// Epoch floor of the current master of the store.
    epoch_floor: u64,
    workers: Vec<Worker>,
    outages: Outages,
    /// The candidates, in the order of their requests.
    queue: Vec<usize>,
    holders: BTreeMap<u64, (UnitName, u64)>,
    revision_max: u64,
}

fn name(unit: usize) -> UnitName {
    UnitName::new(&format!("web/{unit}")).unwrap()
}

fn session(number: u64) -> SessionId {
    SessionId { replica: ReplicaId(1), number }
}

const SESSION_TTL: Duration = Duration::from_secs(3);

impl Elections {
    fn new() -> Elections {
        let state = AppState::empty(app_name(), Revision(0));
        Elections {
            now: 1000,
            replica: state.clone(),
            state,
            past: Vec::new(),
            losses: 0,
            epoch_floor: 0,
            workers: vec![Worker::default(); UNITS],
            outages: Outages::default(),
            queue: Vec::new(),
            holders: BTreeMap::new(),
            revision_max: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        // In a separate commit, so that each change of the holder is checked.
        self.commit(None);
        match step {
            Step::Pass(millis) => self.now += millis,
            Step::Lose(commits, is_found) => self.lose(*commits, *is_found),
            Step::Restart => {
                let from = Timestamp::new(self.now);
                self.now += RESTART_MILLIS;
                self.outages.add(Downtime { from, until: Timestamp::new(self.now) });
                self.state = load(&self.state, self.state.head().clone());
                self.state.note_outages(&Arc::new(self.outages.clone()));
                self.replica = self.state.clone();
            }
            Step::Release(pick) if UNITS <= *pick => {
                if let Some(leader) = self.leader() {
                    self.command(&Step::Release(leader));
                }
            }
            step => self.command(step),
        }
        self.check_writes();
    }

    fn command(&mut self, step: &Step) {
        let reporter = |unit: usize| Reporter::new(name(unit), self.workers[unit].incarnation);
        let own = |unit: usize| Claim {
            unit: name(unit),
            lease_epoch: self.workers[unit].epoch,
            decided_outside: false,
        };
        let command = match *step {
            Step::Claim(unit) => {
                Command::ClaimLeadership(reporter(unit), Some(Duration::from_secs(2)))
            }
            Step::Renew(unit) => Command::RenewLeadership(own(unit)),
            Step::Release(unit) => Command::ReleaseLeadership(own(unit)),
            Step::Resign(unit) => Command::StepBack(reporter(unit)),
            Step::Transfer(unit) => Command::TransferLeadership(name(unit)),
            Step::Remove(unit) => Command::RemoveUnit(name(unit)),
            Step::Connect(unit, again) => {
                let incarnation = self.workers[unit].incarnation.filter(|_| again);
                let labels = BTreeMap::new();
                let who = Newcomer { unit: name(unit), incarnation, stateless: false, labels };
                Command::Connect(who, session(self.workers[unit].session + 1))
            }
            Step::Disconnect(unit, silent) => {
                let session = session(self.workers[unit].session);
                Command::Disconnect { unit: name(unit), session, ttl: SESSION_TTL, silent }
            }
            Step::Lapse(unit) => {
                Command::LapseLeadership(own(unit), session(self.workers[unit].session))
            }
            Step::Pass(_) | Step::Lose(..) | Step::Restart => unreachable!(),
        };
        self.forget_predecessor(step);
        let outcome = self.commit(Some((step, command)));
        match (step, outcome) {
            (Step::Connect(unit, _), Some(Ok(outcome))) => {
                let worker = &mut self.workers[*unit];
                worker.session += 1;
                worker.incarnation = Some(outcome.incarnation);
            }
            (Step::Claim(unit) | Step::Renew(unit), Some(Ok(outcome))) => {
                self.workers[*unit].epoch = outcome.lease_epoch;
                assert_eq!(outcome.lease_epoch, self.state.head().lease_epoch);
                assert_eq!(self.leader(), Some(*unit));
            }
            (Step::Claim(unit), Some(Err(Rejected::LeaseHeld(_))))
                if !self.queue.contains(unit) =>
            {
                self.queue.push(*unit);
            }
            (Step::Remove(unit), Some(Ok(_))) => {
                self.workers[*unit].incarnation = None;
                self.queue.retain(|other| other != unit);
            }
            (Step::Resign(unit), Some(Ok(_))) => self.queue.retain(|other| other != unit),
            _ => {}
        }
        self.check_queue();
    }

    /// Removes a new incarnation from the expected queue, since it has not claimed yet. After a
    /// data loss the store may know that incarnation already.
    fn forget_predecessor(&mut self, step: &Step) {
        let (Step::Claim(unit) | Step::Resign(unit) | Step::Connect(unit, _)) = step else {
            return;
        };
        let known = self.state.unit(&name(*unit)).map(|unit| unit.incarnation);
        let own = self.workers[*unit].incarnation;
        let begins = matches!(step, Step::Connect(_, again) if !again || own.is_none());
        if begins || known < own {
            self.queue.retain(|other| other != unit);
        }
    }

    fn commit(&mut self, step: Option<(&Step, Command)>) -> Option<Result<Outcome, Rejected>> {
        self.state.epoch_floor = self.epoch_floor;
        self.replica.epoch_floor = self.epoch_floor;
        let before = self.state.clone();
        let limits = Limits::default();
        let mut draft = Draft::new(&before, &limits, Timestamp::new(self.now));
        mark_uncertain(&mut draft, self.losses);
        expire(&mut draft);
        let command = step.as_ref().map(|(_, command)| command.clone());
        let outcome = command.map(|command| apply(&mut draft, &Request { id: None, command }));
        let transition = draft.finish();
        self.state.replay(&transition);
        self.replica.replay(&transition);
        assert_eq!(self.state, self.replica);
        let stored = load(&self.state, self.state.head().clone());
        assert_eq!(stored.head(), self.state.head());
        self.revision_max = self.revision_max.max(self.state.head().revision.0);
        self.past.push(before);
        self.check_change(step.map(|(step, _)| step));
        outcome
    }

    fn leader(&self) -> Option<usize> {
        let leader = self.state.head().leader()?;
        (0..UNITS).find(|unit| name(*unit) == *leader)
    }

    /// Checks the change of the lease in one commit.
    fn check_change(&mut self, step: Option<&Step>) {
        let before = self.past.last().unwrap().head();
        let head = self.state.head();
        assert!(before.lease_epoch <= head.lease_epoch);
        let told = self.holders.last_key_value().map_or(0, |(epoch, _)| *epoch);
        let Some(lease) = head.lease.as_ref().filter(|_| head.lease_epoch != before.lease_epoch)
        else {
            return;
        };
        assert!(told < head.lease_epoch, "{told} was told of already");
        let holder = (lease.holder.clone(), lease.incarnation);
        self.holders.insert(head.lease_epoch, holder);
        let leader = self.leader().unwrap();
        let is_there = |unit: &usize| {
            let unit = self.state.unit(&name(*unit));
            unit.is_some_and(|u| u.lost_since.or(u.quiet_since).is_none() && !u.has_departed())
        };
        let was_held = before.lease.as_ref().map(|lease| &lease.holder);
        let is_lost = head.losses != before.losses || before.lease_epoch <= self.epoch_floor;
        let is_doubted = was_held == Some(&lease.holder) && is_lost;
        match step {
            Some(Step::Transfer(to)) if *to == leader => {}
            _ if is_doubted => {}
            step => {
                let next = self.queue.iter().find(|unit| is_there(unit));
                let asked = matches!(step, Some(Step::Claim(unit)) if *unit == leader);
                assert!(next == Some(&leader) || next.is_none() && asked, "{step:?} {next:?}");
            }
        }
        self.queue.retain(|unit| *unit != leader);
        self.workers[leader].epoch = self.state.head().lease_epoch;
    }

    fn check_queue(&self) {
        let waiting = |unit: &usize| self.state.unit(&name(*unit)).and_then(|u| u.candidate);
        let places: Vec<_> = self.queue.iter().map(waiting).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
        assert_eq!((0..UNITS).filter(|unit| waiting(unit).is_some()).count(), places.len());
    }

    /// Checks that of all former leaders only the current one may write, and only within its lease.
    fn check_writes(&self) {
        let head = self.state.head();
        let limits = Limits::default();
        for (epoch, (unit, _)) in self.holders.iter().rev().take(4) {
            for unit in [unit.clone(), name(0)] {
                let set = [(Arc::from("key"), Bytes::from(&b"value"[..]))].into_iter().collect();
                let patch = DataPatch { set, ..DataPatch::default() };
                let claim =
                    Claim { unit: unit.clone(), lease_epoch: *epoch, decided_outside: false };
                let mut draft = Draft::new(&self.state, &limits, Timestamp::new(self.now));
                let command = Command::UpdateData(claim, patch);
                let taken = apply(&mut draft, &Request { id: None, command });
                let leads = head.lease.as_ref().is_some_and(|lease| {
                    let ends = self.state.deadlines().of_lease(lease);
                    lease.holder == unit && ends.is_none_or(|ends| self.now < ends.millis())
                });
                let may = leads && *epoch == head.lease_epoch;
                assert_eq!(taken.is_ok(), may, "{unit} {epoch} {head:?}");
            }
        }
    }

    /// Goes back to an old state. Revisions continue above all published ones, as a store does when
    /// it detects a loss. Epochs do so in any case.
    fn lose(&mut self, commits: usize, is_found: bool) {
        let place = self.past.len().saturating_sub(commits);
        let old = self.past[place].clone();
        let told = self.holders.last_key_value().map_or(0, |(epoch, _)| *epoch);
        self.epoch_floor = told.max(self.epoch_floor) + COUNTS_PER_MASTER;
        let mut revision = old.head().revision;
        if is_found {
            self.losses += 1;
            revision = Revision(self.revision_max + 1);
        }
        self.state = load(&old, Head { revision, ..old.head().clone() });
        self.replica = self.state.clone();
        // The workers keep their identity; the queue is the stored one.
        let place = |unit: usize| Some((self.state.unit(&name(unit))?.candidate?, unit));
        let mut queue: Vec<_> = (0..UNITS).filter_map(place).collect();
        queue.sort_unstable();
        self.queue = queue.into_iter().map(|(_, unit)| unit).collect();
        self.commit(None);
    }
}

fn load(state: &AppState, head: Head) -> AppState {
    let units = state.units_after(None).map(|(name, unit)| (name.clone(), unit.clone()));
    let records = Records {
        units: units.collect(),
        data: state.data().iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        ..Records::of_head(head)
    };
    AppState::load(app_name(), records)
}

#[test]
fn each_epoch_has_one_holder_and_former_leaders_cannot_write() {
    let held = std::cell::Cell::new(0);
    let config = Config { failure_persistence: None, ..Config::with_cases(700) };
    let ran = TestRunner::new(config).run(&vec(step(), 60..200), |steps| {
        let mut elections = Elections::new();
        for unit in 0..UNITS {
            elections.step(&Step::Connect(unit, false));
        }
        for step in &steps {
            elections.step(step);
        }
        held.set(held.get() + elections.holders.len());
        Ok(())
    });
    ran.unwrap();
    println!("{} elections", held.get());
    assert!(10_000 <= held.get(), "only {} elections", held.get());
}
