//! The cases of `leadership-and-data.yaml`: steps on a clock that is moved by hand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::command::{Command, Request};
use bellwether::domain::data::DataPatch;
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::leadership::Claim;
use bellwether::domain::leadership::status::{Mode, NewApplicationStatus};
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{AppName, UnitName};
use bellwether::domain::policy::ConfigPatch;
use bellwether::domain::rejected::Rejected;
use bellwether::domain::revision::Revision;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::{Newcomer, Reporter};
use serde::Deserialize;

use super::level;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[allow(dead_code)]
    source: String,
    config: Config,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    lease_ms: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: u64,
    r#do: String,
    unit: Option<String>,
    to: Option<String>,
    #[serde(default)]
    epoch: u64,
    #[serde(default)]
    set: BTreeMap<String, Value>,
    #[serde(default)]
    delete: Vec<String>,
    etag: Option<Etag>,
    level: Option<String>,
    message: Option<String>,
    mode: Option<String>,
    ttl_ms: Option<u64>,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Repeated { repeat: String, count: usize },
}

impl Value {
    fn bytes(&self) -> Bytes {
        match self {
            Value::Text(text) => text.clone().into(),
            Value::Repeated { repeat, count } => repeat.repeat(*count).into(),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Etag {
    After { after_step: usize },
    Text(String),
}

/// A field that is left out is not checked; one that is null is checked to be nobody.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    ok: Option<bool>,
    code: Option<String>,
    reason: Option<String>,
    #[serde(default, deserialize_with = "present")]
    leader: Option<Option<String>>,
    epoch: Option<u64>,
    data: Option<BTreeMap<String, Value>>,
    level: Option<String>,
    event: Option<bool>,
    revision_moved: Option<bool>,
}

#[allow(clippy::option_option)]
fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(d).map(Some)
}

/// Where the clock of a case is 0.
const START: u64 = 1_800_000_000_000;

struct World {
    state: AppState,
    limits: Limits,
    etags: Vec<String>,
}

impl World {
    fn new(case: &Case) -> World {
        let state = AppState::empty(AppName::new("", "app").unwrap(), Revision(0));
        let mut world = World { state, limits: Limits::default(), etags: Vec::new() };
        let lease_duration = Some(Duration::from_millis(case.config.lease_ms));
        let patch = ConfigPatch { lease_duration, ..ConfigPatch::default() };
        world.commit(0, Some(Command::Configure(Box::new(patch)))).unwrap();
        for step in &case.steps {
            for name in [&step.unit, &step.to].into_iter().flatten() {
                if world.state.unit(&unit(name)).is_none() {
                    let (incarnation, labels) = (None, BTreeMap::new());
                    let who = Newcomer { unit: unit(name), incarnation, stateless: false, labels };
                    world.commit(0, Some(Command::Register(who, None))).unwrap();
                }
            }
        }
        world
    }

    /// One commit at a time of the case's clock: what time has done, and a command.
    fn commit(&mut self, at: u64, command: Option<Command>) -> Result<(), Rejected> {
        let mut draft = Draft::new(&self.state, &self.limits, Timestamp::new(START + at));
        expire(&mut draft);
        let outcome = match command {
            Some(command) => apply(&mut draft, &Request { id: None, command }).map(|_| ()),
            None => Ok(()),
        };
        let transition = draft.finish();
        let mut replica = self.state.clone();
        replica.replay(&transition);
        self.state.replay(&transition);
        assert_eq!(replica, self.state);
        outcome
    }

    fn leader(&self) -> Option<&str> {
        self.state.head().leader().map(|unit| unit.as_str())
    }

    fn data(&self) -> BTreeMap<String, Bytes> {
        self.state.data().iter().map(|(k, v)| (k.to_string(), v.clone())).collect()
    }

    fn command(&self, step: &Step) -> Option<Command> {
        let name = || unit(step.unit.as_deref().unwrap());
        let claim = || Claim { unit: name(), lease_epoch: step.epoch, decided_outside: false };
        Some(match step.r#do.as_str() {
            "claim" => Command::ClaimLeadership(Reporter::new(name(), None), None),
            "renew" => Command::RenewLeadership(claim()),
            "release" => Command::ReleaseLeadership(claim()),
            "transfer" => Command::TransferLeadership(unit(step.to.as_deref().unwrap())),
            "remove_unit" => Command::RemoveUnit(name()),
            "set_data" => Command::UpdateData(claim(), self.patch(step)),
            "set_status" => Command::SetApplicationStatus(claim(), status(step)),
            "clear_status" => Command::ClearApplicationStatus(claim()),
            // A unit that is being drained is as any other, until it is removed.
            "check" | "get_data" | "drain_unit" => return None,
            other => panic!("no step {other}"),
        })
    }

    fn patch(&self, step: &Step) -> DataPatch {
        let set = step.set.iter().map(|(key, value)| (Arc::from(&**key), value.bytes()));
        let etag = step.etag.as_ref().map(|etag| match etag {
            Etag::After { after_step } => self.etags[after_step - 1].clone().into(),
            Etag::Text(text) => text.clone().into(),
        });
        let delete = step.delete.iter().map(|key| Arc::from(&**key)).collect();
        DataPatch { set: set.collect(), delete, etag }
    }
}

fn unit(name: &str) -> UnitName {
    UnitName::new(name).unwrap()
}

fn status(step: &Step) -> NewApplicationStatus {
    NewApplicationStatus {
        mode: match step.mode.as_deref() {
            Some("override") => Mode::Override,
            _ => Mode::Contribute,
        },
        level: level(step.level.as_deref().unwrap()),
        message: step.message.as_deref().unwrap_or_default().into(),
        reason: "".into(),
        action: "".into(),
        ttl: step.ttl_ms.map(Duration::from_millis),
        observe_time: None,
    }
}

fn wire(rejected: &Rejected) -> (&'static str, &'static str) {
    match rejected {
        Rejected::NotLeader(_) => ("FAILED_PRECONDITION", "NOT_LEADER"),
        Rejected::LeaseHeld(_) => ("FAILED_PRECONDITION", "LEASE_HELD"),
        Rejected::EtagMismatch(_) => ("ABORTED", "ETAG_MISMATCH"),
        Rejected::ValueTooLarge(_) => ("INVALID_ARGUMENT", "VALUE_TOO_LARGE"),
        other => panic!("{other:?}"),
    }
}

fn run(case: &Case) {
    let mut world = World::new(case);
    for (n, step) in case.steps.iter().enumerate() {
        let place = format!("{} step {}", case.id, n + 1);
        let (revision, data) = (world.state.head().revision, world.state.head().data.version);
        let outcome = world.commit(step.at, world.command(step));
        let is_leader = world.leader() == step.unit.as_deref();
        let is_ok = outcome.is_ok() && (step.r#do != "check" || is_leader);
        let Expect { ok, code, reason, leader, epoch, level, event, revision_moved, .. } =
            &step.expect;
        let refused = outcome.as_ref().err().map(wire);
        assert!(ok.is_none_or(|ok| ok == is_ok), "{place}: {outcome:?}");
        assert!(code.is_none() || code.as_deref() == refused.map(|r| r.0), "{place}: {outcome:?}");
        let is_reason = reason.is_none() || reason.as_deref() == refused.map(|r| r.1);
        assert!(is_reason, "{place}: {outcome:?}");
        if let Some(leader) = leader {
            assert_eq!(world.leader(), leader.as_deref(), "{place}");
        }
        let head = world.state.head();
        assert!(epoch.is_none_or(|epoch| epoch == head.lease_epoch), "{place}: {head:?}");
        if let Some(expected) = &step.expect.data {
            let expected: BTreeMap<_, _> =
                expected.iter().map(|(key, value)| (key.clone(), value.bytes())).collect();
            assert!(world.data() == expected, "{place}: {:?}", world.data());
        }
        let found = head.summary.level.word();
        assert!(level.as_ref().is_none_or(|level| level == found), "{place}: {found}");
        let woken = head.data.version != data;
        assert!(event.is_none_or(|event| event == woken), "{place}: woken {woken}");
        let moved = head.revision != revision;
        assert!(revision_moved.is_none_or(|m| m == moved), "{place}: moved {moved}");
        world.etags.push(head.data.etag());
    }
}

#[test]
fn leadership_and_data() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("tests/vectors/leadership-and-data.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let cases: Vec<Case> = yaml_serde::from_str(&text).unwrap();
    assert!(!cases.is_empty());
    cases.iter().for_each(run);
    println!("{} cases of leadership and data hold", cases.len());
}
