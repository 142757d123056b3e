//! Leases and the data of the leader: two units, late messages, time, and failovers that drop the
//! last commits. The order of commits is that of the store; the model of commits proves it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::Head;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::data::DataPatch;
use bellwether::domain::leadership::Claim;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::Reporter;
use stateright::{Model, Property};

use crate::known::{Known, unit_name};

const BEGINNING: u64 = 1_800_000_000_000;
const TICK: u64 = 1000;
/// A lease lasts so long.
const LEASE: Duration = Duration::from_millis(2 * TICK);
const COUNTS_PER_MASTER: u64 = 1 << 20;

/// A fault of the model, which a property refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Another master does not raise the epoch floor.
    FloorStays,
    /// A write counts under whatever epoch is current.
    EpochNotCompared,
    /// A write is decided with the time at which it was sent.
    TimeOfTheSender,
    /// An etag is taken for the current one.
    EtagNotCompared,
}

/// How much happens in a run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Ticks of the clock.
    pub ticks: u8,
    /// Messages of the units.
    pub messages: u8,
    /// Failovers.
    pub failovers: u8,
    /// Commits that a failover drops at most.
    pub dropped: u8,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Leases {
    /// The bounds.
    pub bounds: Bounds,
    /// The planted fault.
    pub fault: Option<Fault>,
}

/// What a unit sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// It claims the lease.
    Claim,
    /// It renews the lease of this epoch.
    Renew(u64),
    /// It releases the lease of this epoch.
    Release(u64),
    /// It writes under this epoch, if the data has this version.
    Write(u64, u64),
}

/// A message that travels: unit, what it says, and when it was sent.
type Message = (u8, Word, u8);

/// The state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    ticks: u8,
    app: Known,
    /// What the next master may have, newest last.
    past: Vec<Known>,
    floor: u64,
    losses: u32,
    revision_max: u64,
    /// The last epoch that each unit got.
    epochs: [Option<u64>; 2],
    messages: Vec<Message>,
    sent: u8,
    failovers: u8,
    /// The holder of each epoch that was ever given.
    holders: BTreeMap<u64, u8>,
    /// The highest data version that was ever given.
    version: u64,
    broken: Broken,
    met: Met,
}

/// What was wrong in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Broken {
    two_holders: bool,
    epoch_fell: bool,
    wrote_without_lease: bool,
    version_twice: bool,
    overwrote_unseen: bool,
}

/// What has happened, so that a run proves that its cases occur.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Met {
    refused_former: bool,
    lost_a_grant: bool,
}

/// A step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A second passes.
    Tick,
    /// A unit sends a message.
    Send(u8, Word),
    /// A message arrives.
    Arrive(usize),
    /// Another master serves, without this number of commits; the loss is found or not.
    Failover(usize, bool),
}

impl State {
    fn now(&self, ticks: u8) -> Timestamp {
        Timestamp::new(BEGINNING + u64::from(ticks) * TICK)
    }

    fn holder(&self) -> Option<(u8, u64)> {
        let head = self.app.head();
        let lease = head.lease.as_ref()?;
        let is_over = lease.ends.is_some_and(|ends| ends <= self.now(self.ticks));
        let unit = (0..2).find(|unit| unit_name(*unit) == lease.holder)?;
        (!is_over).then_some((unit, head.lease_epoch))
    }

    fn arrive(&mut self, at: usize, fault: Option<Fault>) {
        let (unit, word, sent_at) = self.messages.remove(at);
        let ticks = if fault == Some(Fault::TimeOfTheSender) { sent_at } else { self.ticks };
        let now = self.now(ticks);
        let head = self.app.head().clone();
        let is_blind = fault == Some(Fault::EpochNotCompared);
        let given = |epoch| if is_blind { head.lease_epoch } else { epoch };
        let claim = |epoch| Claim {
            unit: unit_name(unit),
            lease_epoch: given(epoch),
            decided_outside: false,
        };
        let command = match word {
            Word::Claim => {
                Command::ClaimLeadership(Reporter::new(unit_name(unit), None), Some(LEASE))
            }
            Word::Renew(epoch) => Command::RenewLeadership(claim(epoch)),
            Word::Release(epoch) => Command::ReleaseLeadership(claim(epoch)),
            Word::Write(epoch, version) => {
                let set = [(Arc::from("key"), Bytes::from(vec![unit]))].into();
                let etag = version.to_string().into();
                let etag = (fault != Some(Fault::EtagNotCompared)).then_some(etag);
                Command::UpdateData(claim(epoch), DataPatch { set, etag, ..DataPatch::default() })
            }
        };
        let leads = self.holder();
        let request = Request { id: None, command };
        let (transition, outcome) = self.app.decide(self.losses, now, Some(&request));
        let is_done = matches!(outcome, Some(Ok(_)));
        if let Word::Write(epoch, version) = word {
            self.broken.wrote_without_lease |= is_done && leads != Some((unit, epoch));
            self.broken.overwrote_unseen |= is_done && version != head.data.version;
            self.met.refused_former |= !is_done && leads.is_some_and(|(holder, _)| holder != unit);
        }
        if transition.is_durable() {
            self.past.push(self.app.clone());
            self.app = self.app.after(&transition);
            self.look(head.data.version);
        }
        if let (Word::Claim, Some(Ok(outcome))) = (word, outcome) {
            self.epochs[usize::from(unit)] = Some(outcome.lease_epoch);
        }
    }

    /// Compares what a commit gave with all that was ever given.
    fn look(&mut self, version_before: u64) {
        let head = self.app.head().clone();
        self.revision_max = self.revision_max.max(head.revision.0);
        if let Some(lease) = &head.lease {
            let newest = self.holders.last_key_value().map_or(0, |(epoch, _)| *epoch);
            let unit = (0..2).find(|unit| unit_name(*unit) == lease.holder).unwrap_or_default();
            let known = *self.holders.entry(head.lease_epoch).or_insert(unit);
            self.broken.two_holders |= known != unit;
            self.broken.epoch_fell |= head.lease_epoch < newest;
        }
        if head.data.version != version_before {
            self.broken.version_twice |= head.data.version <= self.version;
            self.version = self.version.max(head.data.version);
        }
    }

    fn fail_over(&mut self, dropped: usize, is_found: bool, fault: Option<Fault>) {
        self.failovers -= 1;
        self.past.push(self.app.clone());
        let before = self.app.head().lease_epoch;
        let back = self.past[self.past.len() - 1 - dropped].clone();
        self.met.lost_a_grant |= back.head().lease_epoch < before;
        if fault != Some(Fault::FloorStays) {
            self.floor += COUNTS_PER_MASTER;
        }
        let mut revision = back.head().revision;
        if is_found {
            self.losses += 1;
            revision = Revision(self.revision_max + 1);
        }
        let head = Head { revision, ..(**back.head()).clone() };
        self.app = back.with_head(head).read_under(self.floor);
        self.past.clear();
        // Every replica handles another master before it serves a request.
        let version = self.app.head().data.version;
        let (transition, _) = self.app.decide(self.losses, self.now(self.ticks), None);
        if transition.is_durable() {
            self.app = self.app.after(&transition);
        }
        self.look(version);
    }
}

impl Model for Leases {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            ticks: 0,
            app: Known::unknown(),
            past: Vec::new(),
            floor: 0,
            losses: 0,
            revision_max: 0,
            epochs: [None; 2],
            messages: Vec::new(),
            sent: 0,
            failovers: self.bounds.failovers,
            holders: BTreeMap::new(),
            version: 0,
            broken: Broken::default(),
            met: Met::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.ticks < self.bounds.ticks {
            actions.push(Action::Tick);
        }
        if state.sent < self.bounds.messages {
            for unit in 0..2u8 {
                actions.push(Action::Send(unit, Word::Claim));
                let Some(epoch) = state.epochs[usize::from(unit)] else { continue };
                let version = state.app.head().data.version;
                let words = [Word::Renew(epoch), Word::Release(epoch), Word::Write(epoch, version)];
                actions.extend(words.map(|word| Action::Send(unit, word)));
            }
        }
        actions.extend((0..state.messages.len()).map(Action::Arrive));
        if 0 < state.failovers {
            let dropped = state.past.len().min(self.bounds.dropped.into());
            let found = (1..=dropped).map(|dropped| Action::Failover(dropped, true));
            actions.extend((0..=dropped).map(|dropped| Action::Failover(dropped, false)));
            actions.extend(found);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Tick => state.ticks += 1,
            Action::Send(unit, word) => {
                state.sent += 1;
                state.messages.push((unit, word, state.ticks));
                state.messages.sort_unstable();
            }
            Action::Arrive(at) => state.arrive(at, self.fault),
            Action::Failover(dropped, found) => state.fail_over(dropped, found, self.fault),
        }
        let kept = state.past.len().saturating_sub(self.bounds.dropped.into());
        state.past.drain(..kept);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Leases>> {
        vec![
            Property::always("an epoch has one holder", |_, state: &State| {
                !state.broken.two_holders
            }),
            Property::always("epochs only rise", |_, state: &State| !state.broken.epoch_fell),
            Property::always("only the leader writes, within its lease", |_, state: &State| {
                !state.broken.wrote_without_lease
            }),
            Property::always("no data version is given twice", |_, state: &State| {
                !state.broken.version_twice
            }),
            Property::always("a write replaces what its writer has read", |_, state: &State| {
                !state.broken.overwrote_unseen
            }),
            Property::sometimes("a former leader is refused", |_, state: &State| {
                state.met.refused_former
            }),
            Property::sometimes("a failover loses a grant", |_, state: &State| {
                state.met.lost_a_grant
            }),
        ]
    }
}
