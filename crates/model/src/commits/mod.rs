//! The commit protocol over Redis: two replicas, one worker with numbered reports, resends, commits
//! that arrive late, and failovers that drop the last commits.
//!
//! The decisions are those of the domain. The scripts of Redis, the reader and the repair are
//! written again here, as small steps: the real ones need sockets.

mod replica;
mod server;
mod step;

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::level::Level;
use bellwether::domain::name::PartName;
use bellwether::domain::request::RequestId;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::Reporter;
use stateright::{Model, Property};

use crate::known::{Known, unit_name};
use replica::{Replica, Seen, Shown};
use server::{Commit, Server};

const NOW: Timestamp = Timestamp::new(1_800_000_000_000);

/// The property that most faults break.
pub const KEPT: &str = "an acknowledged report stays, or a loss is counted";

/// A fault of the model, which a property refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A commit does not compare the revision.
    RevisionNotCompared,
    /// Another master does not raise the floor.
    FloorStays,
    /// A commit is acknowledged before the replica has read it back.
    AcknowledgedUnread,
    /// A commit is acknowledged once the replica has read a later entry, of whichever master.
    LaterEntrySuffices,
    /// A replica does not remember what it has answered without a commit, and not read.
    ConfirmedUnread,
    /// A repair puts a head without a new revision.
    RepairKeepsRevision,
    /// A data loss is not counted.
    LossUncounted,
    /// A replica that has compared a new master shows nothing of it.
    MasterNotShown,
}

/// How much happens in a run.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Reports of the worker.
    pub reports: u8,
    /// Calls of each report.
    pub calls: u8,
    /// Commits that are sent again without an answer.
    pub resends: u8,
    /// Commits that are given up.
    pub give_ups: u8,
    /// Failovers.
    pub failovers: u8,
    /// Commits that a failover drops at most.
    pub dropped: u8,
    /// Whether calls of acknowledged reports may arrive after a failover that lost their answers.
    pub old_calls: bool,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Commits {
    /// The bounds.
    pub bounds: Bounds,
    /// The planted fault.
    pub fault: Option<Fault>,
}

/// The state of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    server: Server,
    /// What the next master may have, newest last.
    past: Vec<Server>,
    replicas: Vec<Replica>,
    /// Commits that travel: replica, number, commit.
    packets: Vec<(u8, u64, Commit)>,
    /// Calls that travel: report, replica.
    calls: Vec<(u8, u8)>,
    /// The current report of the worker, and its remaining calls.
    report: (u8, u8),
    /// The last acknowledged report, with the data losses that its replica knew.
    acknowledged: (u8, u32),
    resends: u8,
    give_ups: u8,
    failovers: u8,
    next_entry: u64,
    seen: Seen,
    broken: Broken,
    met: Met,
}

/// What was wrong in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Broken {
    went_back: bool,
    not_shown: bool,
}

/// What has happened, so that a run proves that its cases occur.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Met {
    late: bool,
    two_repairs: bool,
}

/// A step of the world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The worker calls a replica.
    Call(u8),
    /// A call reaches its replica.
    Serve(u8, u8),
    /// A replica marks units after a data loss.
    Mark(u8),
    /// A commit reaches the server, and its answer the replica, or not.
    Arrive(usize, bool),
    /// A replica sends its commit again.
    Resend(u8),
    /// A replica waits no longer for an answer.
    GiveUp(u8),
    /// The answer to a confirmation reaches its replica.
    Answer(u8),
    /// A replica reads an entry of the log.
    Read(u8),
    /// A replica takes the next step towards a new master.
    Compare(u8),
    /// Another master serves, without this number of commits.
    Failover(usize),
}

impl Commits {
    fn request(report: u8) -> Request {
        let reporter = Reporter::new(unit_name(0), None);
        let content = Report {
            level: Level::Active,
            message: format!("report {report}").into(),
            ttl: None::<Duration>,
            ..Report::default()
        };
        let status = NewStatus {
            component: PartName::default(),
            key: PartName::default(),
            report: Arc::new(content),
            observe_time: None,
        };
        let id = Some(RequestId::from(format!("report-{report}").as_str()));
        Request { id, command: Command::Report(reporter, Kind::Push, status) }
    }

    fn first() -> Known {
        let unknown = Known::unknown();
        let (transition, _) = unknown.decide(0, NOW, Some(&Commits::request(0)));
        unknown.after(&transition)
    }
}

impl Model for Commits {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let server = Server::new(Commits::first());
        let replicas = (0..2).map(|number| Replica::new(number, &server)).collect();
        vec![State {
            server,
            past: Vec::new(),
            replicas,
            packets: Vec::new(),
            calls: Vec::new(),
            report: (1, 0),
            acknowledged: (0, 0),
            resends: self.bounds.resends,
            give_ups: self.bounds.give_ups,
            failovers: self.bounds.failovers,
            next_entry: 0,
            seen: Seen::default(),
            broken: Broken::default(),
            met: Met::default(),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for replica in &state.replicas {
            let r = replica.number;
            if state.report.0 <= self.bounds.reports && state.report.1 < self.bounds.calls {
                actions.push(Action::Call(r));
            }
            match &replica.pending {
                Some(pending) => {
                    let is_open = pending.waits_for.is_none();
                    if 0 < state.resends && is_open {
                        actions.push(Action::Resend(r));
                    }
                    if 0 < state.give_ups {
                        actions.push(Action::GiveUp(r));
                    }
                }
                None if replica.confirmed.is_some() => actions.push(Action::Answer(r)),
                None => {
                    let calls = state.calls.iter().filter(|(_, to)| *to == r);
                    actions.extend(calls.map(|(report, _)| Action::Serve(r, *report)));
                    let head = replica.state.head();
                    if head.losses < replica.losses.1 {
                        actions.push(Action::Mark(r));
                    }
                }
            }
            let is_here = replica.compared == Some(state.server.number);
            if is_here && replica.repair.is_none() {
                if replica.cursor < state.server.newest() {
                    actions.push(Action::Read(r));
                }
            } else {
                actions.push(Action::Compare(r));
            }
        }
        for at in 0..state.packets.len() {
            actions.push(Action::Arrive(at, true));
            if 0 < state.resends {
                actions.push(Action::Arrive(at, false));
            }
        }
        if 0 < state.failovers {
            let dropped = state.past.len().min(self.bounds.dropped.into());
            actions.extend((0..=dropped).map(Action::Failover));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        let fault = self.fault;
        match action {
            Action::Call(r) => {
                state.report.1 += 1;
                state.calls.push((state.report.0, r));
                state.calls.sort_unstable();
            }
            Action::Serve(r, report) => {
                let at = state.calls.iter().position(|call| *call == (report, r))?;
                state.calls.remove(at);
                state.decide(r.into(), Some(report));
            }
            Action::Mark(r) => state.decide(r.into(), None),
            Action::Arrive(at, answers) => state.arrive(at, answers, fault),
            Action::Resend(r) => {
                state.resends -= 1;
                let pending = state.replicas[usize::from(r)].pending.clone()?;
                state.send(r, pending.seq, pending.commit);
            }
            Action::GiveUp(r) => {
                state.give_ups -= 1;
                state.give_up(r.into());
            }
            Action::Answer(r) => state.answer(r.into(), fault),
            Action::Read(r) => state.read(r.into(), fault),
            Action::Compare(r) => state.compare(r.into(), fault),
            Action::Failover(dropped) => state.fail_over(dropped, self.bounds.old_calls),
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Commits>> {
        vec![
            Property::always(KEPT, |_, state: &State| {
                let (report, losses) = state.acknowledged;
                let is_lost = losses < state.server.losses.1;
                !state.is_settled() || is_lost || report <= state.number_in_force()
            }),
            Property::always("observers never go back", |_, state: &State| !state.broken.went_back),
            Property::always("an acknowledged commit is shown", |_, state: &State| {
                !state.broken.not_shown
            }),
            Property::always("all replicas show what the server has", |_, state: &State| {
                let newest = Shown::of(&state.server.app, state.server.position);
                !state.is_settled() || state.replicas.iter().all(|replica| replica.shown == newest)
            }),
            Property::always("two contents of a revision are of two epochs", |_, state: &State| {
                let is_over = |(revision, losses): (u64, u32)| {
                    revision < state.server.app.head().revision.0 && losses < state.server.losses.1
                };
                !state.is_settled() || state.seen.twice.is_none_or(is_over)
            }),
            Property::sometimes("a loss is counted", |model: &Commits, state: &State| {
                let is_counted = state.is_settled() && 0 < state.server.losses.1;
                model.bounds.failovers == 0 || is_counted
            }),
            Property::sometimes("two replicas repair at once", |model: &Commits, state: &State| {
                model.bounds.failovers == 0 || state.met.two_repairs
            }),
            Property::sometimes("a given-up commit is late", |model: &Commits, state: &State| {
                model.bounds.give_ups == 0 || state.met.late
            }),
            Property::sometimes(
                "all reports are acknowledged",
                |model: &Commits, state: &State| state.acknowledged.0 == model.bounds.reports,
            ),
        ]
    }
}
