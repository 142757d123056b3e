//! A run: replicas, clients, the store and the network in steps of simulated time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use bellwether::domain::app::AppState;
use bellwether::domain::name::AppName;
use bellwether::domain::need::Need;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::{Freshness, Status, StatusKey};
use bellwether::domain::time::Timestamp;
use bellwether::store::redis::Durability;

use crate::client::start::start_all;
use crate::fault::{Faults, Harm};
use crate::host::{Host, STEP};
use crate::judge::{Counts, Judge};
use crate::lock;
use crate::loss::Losses;
use crate::network::{Network, Node};
use crate::process::{Process, Processes};
use crate::quorum;
use crate::randomness::Dice;
use crate::server::time::BEGINNING;
use crate::server::{Server, Shape};
use crate::trace::Trace;

/// The quiet end of a run, in which everything heals.
const QUIET: u64 = 120_000;
/// The quiet end of every fourth seed, if the run is long: silent units must be lost in it.
const QUIET_LONG: u64 = 400_000;
/// A replica without faults has what the store had so long ago.
const SETTLED: u64 = 5_000;
/// Tasks of a replica, and packets in the network: far above what a healthy run has.
const TASKS_MAX: usize = 400;
const QUEUED_MAX: usize = 2_000;
/// How long a commit waits for replicas and disks: a disk has it after a second.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// The seed.
    pub seed: u64,
    /// Simulated minutes.
    pub minutes: u64,
    /// Whether the trace is printed.
    pub prints: bool,
}

/// What a run has done.
pub struct Summary {
    /// The store of the run.
    pub shape: Shape,
    /// Simulated milliseconds.
    pub simulated: u64,
    /// Faults by name.
    pub faults: BTreeMap<&'static str, u64>,
    /// Packets that arrived.
    pub events: u64,
    /// Packets that were lost.
    pub lost: u64,
    /// What was checked.
    pub counts: Counts,
    /// Lines and hash of the trace.
    pub trace: (u64, u64),
    /// The most tasks of a replica, and the most packets in the network.
    pub most: (usize, usize),
    /// What ended by time and was checked, by its name.
    pub ends: BTreeMap<&'static str, u64>,
    /// Ends of marks, by their reasons.
    pub mark_ends: BTreeMap<&'static str, u64>,
    /// What was wrong.
    pub violations: Vec<String>,
}

/// The place of a replica: its machine while a process runs there.
struct Place {
    host: Option<Host>,
    starting: Arc<Mutex<Option<Arc<Process>>>>,
    /// The number of the process.
    generation: u64,
    runs_since: u64,
    restarts_at: u64,
    frozen_until: u64,
}

struct World {
    now: u64,
    shape: Shape,
    network: Network,
    judge: Arc<Mutex<Judge>>,
    server: Server,
    places: Vec<Place>,
    processes: Processes,
    clients: Host,
    faults: Faults,
    dice: Dice,
    generation: u64,
    tasks_most: usize,
    /// The latest sign of life that the store has.
    alive: Timestamp,
    losses: Losses,
}

/// Runs a seed.
pub fn run(plan: Plan) -> Result<Summary> {
    let mut world = World::new(plan)?;
    let end = plan.minutes.max(3) * 60_000;
    let is_long = plan.seed.is_multiple_of(4) && 3 * QUIET_LONG <= end;
    let healed = end - if is_long { QUIET_LONG } else { QUIET };
    let mut settled = BTreeMap::new();
    while world.now < end && lock(&world.judge).violations.is_empty() {
        if world.now == end - SETTLED {
            settled = world.revisions();
        }
        if world.now == healed {
            world.faults.heal(&mut world.server);
        }
        world.step()?;
        if healed < world.now && world.now.is_multiple_of(1000) {
            lock(&world.judge).check_silence(&world.server.apps(), healed);
        }
    }
    if lock(&world.judge).violations.is_empty() {
        world.compare_end(&settled);
    }
    Ok(world.summary())
}

impl World {
    fn new(plan: Plan) -> Result<World> {
        let mut dice = Dice::new(plan.seed, 1);
        let is_shared = dice.per_mille(800);
        let replicas = if is_shared { 1 + dice.index(3) } else { 1 };
        let shape = shape(is_shared, &mut dice);
        let judge = Arc::new(Mutex::new(Judge::default()));
        let trace = Trace::new(plan.prints);
        let network = Network::new(Dice::new(plan.seed, 2), trace, judge.clone());
        network.note(format_args!("{shape:?} with {replicas} replicas"));
        let processes: Processes = Arc::new(Mutex::new(vec![None; replicas]));
        let clients = Host::new(0)?;
        let count = start_all(plan.seed, &network, &processes, &clients)?;
        let size = (replicas, count + 1);
        let faults = Faults::new(Dice::new(plan.seed, 3), network.clone(), is_shared, size);
        let places = (0..replicas).map(|_| Place {
            host: None,
            starting: Arc::default(),
            generation: 0,
            runs_since: 0,
            restarts_at: 0,
            frozen_until: 0,
        });
        Ok(World {
            now: 0,
            shape,
            server: Server::new(shape, BEGINNING, judge.clone())?,
            network,
            judge,
            places: places.collect(),
            processes: processes.clone(),
            clients,
            faults,
            dice,
            generation: 0,
            tasks_most: 0,
            alive: Timestamp::default(),
            losses: Losses::default(),
        })
    }

    fn step(&mut self) -> Result<()> {
        self.now += STEP;
        lock(&self.judge).now = self.now;
        self.server.advance(STEP);
        self.expect_losses();
        match self.faults.step(self.now, &mut self.server) {
            Some(Harm::Kill(place, pause)) => self.kill(place, pause, false),
            Some(Harm::KillAll(pause)) => {
                (0..self.places.len()).for_each(|place| self.kill(place, pause, false));
                lock(&self.judge).on_end_of_all(&self.server.apps());
            }
            Some(Harm::LosePower(pause)) => self.kill(0, pause, true),
            Some(Harm::Freeze(place, span)) => self.freeze(place, span),
            None => {}
        }
        if self.places.iter().all(|place| place.host.is_none()) {
            lock(&self.judge).on_no_process();
        }
        self.restart()?;
        self.network.deliver(self.now, &mut self.server);
        for link in self.network.with(|network| network.noticed()) {
            lock(&self.processes).iter().flatten().for_each(|process| process.close(link));
        }
        self.clients.run(STEP);
        for (at, place) in self.places.iter_mut().enumerate() {
            let Some(host) = &mut place.host else { continue };
            host.run(STEP);
            let process = &mut lock(&self.processes)[at];
            if let Some(started) = lock(&place.starting).take() {
                *process = Some(started);
                place.runs_since = self.now;
            }
            if let Some(process) = process {
                process.is_frozen.store(self.now < place.frozen_until, Ordering::SeqCst);
            }
        }
        self.note_uptime();
        if self.now.is_multiple_of(1000) {
            self.check_each_second();
        }
        Ok(())
    }

    /// Records whether a replica can act now. One whose requests arrive acts, although the answers
    /// may not: the store cannot distinguish the two.
    fn note_uptime(&mut self) {
        let stalls = self.network.with(|network| network.store_stalls_until);
        let acts = |process: &Arc<Process>| {
            !process.is_frozen.load(Ordering::SeqCst) && process.store.health().is_ok()
        };
        let processes = lock(&self.processes);
        let running = processes.iter().zip(&self.places).filter(|(process, _)| process.is_some());
        let runs_since = running.map(|(_, place)| place.runs_since).min();
        let acts = processes.iter().flatten().any(acts);
        drop(processes);
        let (_, _, alive) = self.server.moment();
        let is_up = stalls <= self.now && !self.server.is_full() && (acts || self.alive < alive);
        self.alive = alive;
        lock(&self.judge).uptime.on_step(is_up, runs_since, self.now);
    }

    fn check_each_second(&mut self) {
        let (apps, (time, outages, _)) = (self.server.apps(), self.server.moment());
        let mut judge = lock(&self.judge);
        judge.compare(&apps);
        judge.check_ends(&apps, time, &outages);
        judge.check_marks(&apps, time);
        if let Server::Redis(servers) = &self.server {
            let missed = self.losses.check(servers, &lock(&self.processes));
            missed.into_iter().for_each(|what| judge.accuse(what));
        }
        for (place, host) in self.places.iter().enumerate() {
            let tasks = host.host.as_ref().map_or(0, Host::tasks);
            self.tasks_most = self.tasks_most.max(tasks);
            if TASKS_MAX < tasks {
                judge.accuse(format!("replica {place} has {tasks} tasks"));
            }
        }
        let queued = self.network.with(|network| network.queued_max);
        if QUEUED_MAX < queued {
            judge.accuse(format!("{queued} packets wait in the network"));
        }
    }

    /// Notes which processes have seen what a master has lost.
    fn expect_losses(&mut self) {
        if let Server::Redis(servers) = &mut self.server {
            let lost = servers.take_lost();
            self.losses.expect(&lost, servers, &lock(&self.processes));
        }
    }

    fn kill(&mut self, place: usize, pause: u64, loses_power: bool) {
        self.end_within_a_step(place, loses_power);
        lock(&self.processes)[place] = None;
        self.server.on_kill(self.places[place].generation, &mut self.dice);
        let place = &mut self.places[place];
        *lock(&place.starting) = None;
        place.host = None;
        (place.restarts_at, place.frozen_until) = (self.now + pause, 0);
    }

    /// Lets a process with a disk run on until it ends between two steps of the disk.
    fn end_within_a_step(&mut self, place: usize, loses_power: bool) {
        let (Server::Disk(disk), Some(host)) = (&mut self.server, &mut self.places[place].host)
        else {
            return;
        };
        disk.begin_kill(&mut self.dice);
        let sent = self.network.with(|network| network.sent());
        host.run(STEP);
        self.network.with(|network| network.drop_after(sent, Node::Replica(place)));
        disk.end_kill(loses_power, &mut self.dice);
    }

    fn freeze(&mut self, place: usize, span: u64) {
        let place = &mut self.places[place];
        if let Some(host) = &mut place.host {
            host.freeze(span);
            place.frozen_until = place.frozen_until.max(self.now + span);
        }
    }

    fn restart(&mut self) -> Result<()> {
        for (at, place) in self.places.iter_mut().enumerate() {
            if place.host.is_some() || self.now < place.restarts_at {
                continue;
            }
            self.generation += 1;
            let drift = i64::try_from(self.dice.between(0, 400)).unwrap_or_default() - 200;
            let host = Host::new(drift)?;
            let starting = Arc::new(Mutex::new(None));
            (place.starting, place.generation) = (starting.clone(), self.generation);
            let start = Process::start(self.network.clone(), (at, self.generation), self.shape);
            host.handle().spawn(async move {
                let process = start.await;
                *lock(&starting) = Some(process);
            });
            let generation = self.generation;
            self.network.note(format_args!("replica {at} starts as {generation}"));
            place.host = Some(host);
        }
        Ok(())
    }

    /// Returns the revisions that the store has now.
    fn revisions(&self) -> BTreeMap<AppName, Revision> {
        let apps = self.server.apps().into_iter().filter(|(_, app)| !app.head.deleted);
        apps.map(|(name, app)| (name, app.head.revision)).collect()
    }

    /// Compares all replicas with the store after the quiet end.
    fn compare_end(&mut self, settled: &BTreeMap<AppName, Revision>) {
        let apps = self.server.apps();
        let mut judge = lock(&self.judge);
        for (name, app) in &apps {
            // The others come and go, perhaps within these seconds.
            let stays = name.application().len() == 1;
            for process in lock(&self.processes).iter().flatten() {
                let known = process.hub.get(name).map(|entry| entry.revision());
                let wanted = settled.get(name).filter(|_| !app.head.deleted);
                let is_behind = |wanted: &Revision| known.map_or(stays, |known| known < *wanted);
                if wanted.is_some_and(is_behind) {
                    let place = process.place;
                    judge.accuse(format!("the hub of {place} has {name} at {known:?}: {wanted:?}"));
                }
            }
            let state = AppState::load(name.clone(), app.records());
            let stated = app.head.needs.as_ref().filter(|_| !app.head.deleted);
            let stated = stated.map_or(0, |stated| stated.needs.len());
            judge.counts.stated += stated as u64;
            let expected = needs_of(&state);
            if stated != expected.len() {
                judge.accuse(format!("{name} states {stated} needs, not {expected:?}"));
            }
            if !app.head.deleted {
                judge.counts.quorums += u64::from(state.head().turnout().is_some());
                if let Some(wrong) = quorum::wrong(&state) {
                    judge.accuse(format!("{name} {wrong}"));
                }
            }
            for (unit, record) in &app.units {
                let freshness = record.freshness();
                let is_well = !matches!(freshness, Freshness::Lost | Freshness::Uncertain);
                let is_there = judge.is_there(&(name.clone(), unit.clone()));
                if !is_well && stays && is_there {
                    judge.accuse(format!("{name} {unit:?} is {freshness:?} at the end"));
                }
            }
        }
        for (place, process) in lock(&self.processes).iter().enumerate() {
            let away = process.as_ref().is_none_or(|p| p.aggregator.away_since().is_some());
            if away {
                judge.accuse(format!("replica {place} is not well at the end"));
            }
        }
    }

    fn summary(&self) -> Summary {
        let judge = lock(&self.judge);
        let (trace, delivered, lost, queued) = self.network.with(|network| {
            (network.trace.sum(), network.delivered, network.lost, network.queued_max)
        });
        Summary {
            shape: self.shape,
            simulated: self.now,
            faults: self.faults.counts.clone(),
            events: delivered,
            lost,
            counts: Counts { marks: judge.marks.acknowledged, ..judge.counts.clone() },
            trace,
            most: (self.tasks_most, queued),
            ends: judge.uptime.ended.clone(),
            mark_ends: judge.marks.ended.clone(),
            violations: judge.violations.clone(),
        }
    }
}

/// Chooses the store of a run.
fn shape(is_shared: bool, dice: &mut Dice) -> Shape {
    let durability = match dice.index(10) {
        6 | 7 if is_shared => Durability::Replicated { replicas: 1, patience: PATIENCE },
        at @ (8 | 9) if is_shared => {
            Durability::Synced { replicas: u32::from(at == 8), patience: PATIENCE }
        }
        _ => Durability::Acknowledged,
    };
    let is_quick = durability != Durability::Acknowledged || dice.per_mille(500);
    let lag = dice.between(0, if is_quick { 100 } else { 2000 });
    let shards = if is_shared && dice.per_mille(400) { 3 } else { 1 };
    let buckets = if !is_shared {
        1
    } else if 1 < shards {
        4
    } else {
        3
    };
    Shape { is_shared, buckets, shards, durability, lag }
}

/// Returns the different needs of the fresh statuses of an application that are not well, without
/// the index that its commits use.
fn needs_of(state: &AppState) -> BTreeSet<Need> {
    let states = |key: &StatusKey, status: &Status| {
        let unit = state.unit(&key.unit);
        let is_believed =
            unit.is_none_or(|unit| unit.is_believed() && !unit.has_outlived(key, status));
        is_believed && !status.stale && status.report.level.is_unwell()
    };
    let stating = state.statuses().iter().filter(|(key, status)| states(key, status));
    stating.flat_map(|(_, status)| status.report.needs().iter().cloned()).collect()
}
