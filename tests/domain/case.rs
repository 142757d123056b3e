//! One application that takes command by command, for single cases.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::classify::finding::{Class, ErrorOrigin, Evidence, Finding, Hints};
use bellwether::domain::classify::rule::Rule;
use bellwether::domain::classify::{Rules, classify};
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{PartName, UnitName};
use bellwether::domain::operation::command::NewOperation;
use bellwether::domain::operation::{Failure, Kind as OperationKind, Payload};
use bellwether::domain::policy::ConfigPatch;
use bellwether::domain::rejected::Rejected;
use bellwether::domain::request::Outcome;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::report::Report;
use bellwether::domain::status::{Kind, Status, StatusKey};
use bellwether::domain::time::Timestamp;
use bellwether::domain::transition::Transition;
use bellwether::domain::unit::presence::{ReplicaId, SessionId};
use bellwether::domain::unit::{Newcomer, Reporter, Unit};

use crate::world::app_name;

/// The application, and the time in seconds.
pub struct Case {
    pub state: AppState,
    pub now: u64,
    pub limits: Limits,
    /// The last commit.
    pub last: Option<Transition>,
}

impl Case {
    pub fn new() -> Case {
        let state = AppState::empty(app_name(), Revision(0));
        Case { state, now: 1, limits: Limits::default(), last: None }
    }

    /// Sets the clock to `now` seconds.
    pub fn at(&mut self, now: u64) -> &mut Case {
        self.now = now;
        self
    }

    /// Commits a command, alone and without the changes by time.
    pub fn ask(&mut self, command: Command) -> Result<Outcome, Rejected> {
        self.commit(|draft| apply(draft, &Request { id: None, command }))
    }

    /// Commits a command that is accepted.
    pub fn run(&mut self, command: Command) -> Outcome {
        let asked = format!("{command:?}");
        self.ask(command).unwrap_or_else(|refused| panic!("{asked}: {refused}"))
    }

    /// Commits the changes by time.
    pub fn pass(&mut self) {
        self.commit(expire);
    }

    /// Commits what `change` drafts.
    pub fn commit<R>(&mut self, change: impl FnOnce(&mut Draft<'_>) -> R) -> R {
        let before = self.state.clone();
        let mut draft = Draft::new(&before, &self.limits, Timestamp::new(self.now * 1000));
        let result = change(&mut draft);
        let transition = draft.finish();
        self.state.replay(&transition);
        self.last = Some(transition);
        result
    }

    pub fn unit(&self, name: &str) -> &Unit {
        self.state.unit(&unit(name)).unwrap()
    }

    pub fn has_unit(&self, name: &str) -> bool {
        self.state.unit(&unit(name)).is_some()
    }

    /// Returns the status of a unit under its empty component.
    pub fn status(&self, name: &str, key: &str, kind: Kind) -> Option<Status> {
        let key = StatusKey::new(unit(name), PartName::default(), part(key), kind);
        self.state.status(&key).map(|status| (**status).clone())
    }

    /// Returns the level and the message of the application.
    pub fn shown(&self) -> (Level, &str) {
        let summary = &self.state.head().summary;
        (summary.level, &summary.message)
    }
}

/// Returns the name of a unit, or with `""` that of the application itself.
pub fn unit(name: &str) -> UnitName {
    match name {
        "" => UnitName::application(),
        name => UnitName::new(name).unwrap(),
    }
}

pub fn part(name: &str) -> PartName {
    PartName::new(name).unwrap()
}

pub fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Returns the given time in seconds.
pub fn time(seconds: u64) -> Timestamp {
    Timestamp::new(seconds * 1000)
}

/// Returns an application in which statuses pass to successors.
pub fn handing_over() -> Case {
    let mut case = Case::new();
    let hand_over = Some(Some("".into()));
    case.run(configure(ConfigPatch { hand_over, ..ConfigPatch::default() }));
    case
}

/// Returns a custom rule without conditions: each error meets it.
pub fn rule_for_all(name: &str, class: Class) -> Rule {
    Rule { name: name.into(), class, remedy: "act".into(), ..Rule::default() }
}

/// Returns an error that the peer answered, with nothing else known.
pub fn evidence(system: &str, code: &str, message: &str) -> Evidence {
    Evidence {
        system: system.into(),
        code: code.into(),
        origin: ErrorOrigin::Peer,
        outcome: None,
        domain: "".into(),
        reason: "".into(),
        message: message.into(),
        retry_after: None,
        hints: Hints::default(),
    }
}

/// Returns what the tables say about such an error.
pub fn find(system: &str, code: &str, message: &str) -> Finding {
    classify(&Rules::default(), &evidence(system, code, message))
}

/// Returns a sender outside of any session, without an incarnation.
pub fn reporter(name: &str) -> Reporter {
    Reporter::new(unit(name), None)
}

/// Returns a unit that begins or continues an incarnation.
pub fn newcomer(name: &str, incarnation: Option<u64>) -> Newcomer {
    Newcomer { unit: unit(name), incarnation, stateless: false, labels: BTreeMap::new() }
}

/// Returns a unit that begins, and hands over its pushed statuses.
pub fn stateless(name: &str) -> Newcomer {
    Newcomer { stateless: true, ..newcomer(name, None) }
}

pub fn session(number: u64) -> SessionId {
    SessionId { replica: ReplicaId(1), number }
}

pub fn new_status(key: &str, level: Level, ttl: Option<u64>) -> NewStatus {
    let report = Report { level, ttl: ttl.map(seconds), ..Report::default() };
    NewStatus {
        component: PartName::default(),
        key: part(key),
        report: Arc::new(report),
        observe_time: None,
    }
}

/// Returns the report of one pushed status.
pub fn push(name: &str, level: Level, ttl: Option<u64>) -> Command {
    Command::Report(reporter(name), Kind::Push, new_status("", level, ttl))
}

/// Returns a pull set of one status for each key.
pub fn pull(name: &str, keys: &[&str]) -> Command {
    let set = keys.iter().map(|key| new_status(key, Level::Active, None));
    Command::Replace(reporter(name), None, set.collect())
}

pub fn configure(patch: ConfigPatch) -> Command {
    Command::Configure(Box::new(patch))
}

/// Returns an upgrade of the application.
pub fn new_operation() -> NewOperation {
    NewOperation {
        unit: unit(""),
        kind: OperationKind::Upgrade,
        from_version: "v1".into(),
        target_version: "v2".into(),
        payload: Payload::default(),
        bytes: None,
        deterministic: true,
        reversible: false,
        attempts_max: 3,
        interruptions_max: 0,
        deadline: Some(time(100)),
        lease_duration: seconds(10),
        supersede: false,
        note: "".into(),
    }
}

/// Returns a failure of a class that says no more.
pub fn failure(class: Class) -> Failure {
    let text = || "".into();
    Failure {
        class,
        component: text(),
        target: text(),
        system: text(),
        code: text(),
        domain: text(),
        reason: text(),
        message: "no".into(),
        tried_again: None,
    }
}
