//! Every case of `tests/vectors/` through the pure core. The runner reads all cases in the files.

#[path = "vectors/leadership.rs"]
mod leadership;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::classify::finding::{ErrorOrigin, ErrorOutcome, Evidence, Hints};
use bellwether::domain::classify::own::GonePair;
use bellwether::domain::classify::{Rules, classify};
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::draft::Draft;
use bellwether::domain::leadership::Claim;
use bellwether::domain::leadership::status::{Mode, NewApplicationStatus};
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::policy::{ConfigPatch, LostUnits, Policy};
use bellwether::domain::revision::Revision;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::{Details, Report};
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::Reporter;
use serde::Deserialize;

#[path = "vectors/operations.rs"]
mod operations;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    #[allow(dead_code)]
    source: String,
    policy: String,
    leader: Option<String>,
    lost_units: Option<String>,
    r#override: Option<Override>,
    statuses: Vec<Given>,
    #[serde(default)]
    lost: Vec<String>,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Override {
    mode: String,
    level: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    unit: String,
    component: String,
    #[serde(default)]
    key: String,
    kind: String,
    level: String,
    message: String,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    precedence: i32,
    since: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    level: String,
    message: Option<String>,
    message_prefix: Option<String>,
    unit: Option<String>,
    component: Option<String>,
}

/// Later than any `since` of a case.
const NOW: Timestamp = Timestamp::new(1_800_000_000_000);

fn level(word: &str) -> Level {
    let found = Level::ALL.into_iter().find(|l| l.word() == word);
    found.unwrap_or_else(|| panic!("no level {word}"))
}

fn commands(case: &Case) -> Vec<Command> {
    let mut commands = vec![Command::Configure(Box::new(ConfigPatch {
        policy: Some(match case.policy.as_str() {
            "juju" => Policy::Juju,
            "openstack" => Policy::OpenStack,
            "strict" => Policy::Strict,
            other => panic!("{}: no policy {other}", case.id),
        }),
        lost_units: case.lost_units.as_deref().map(|word| match word {
            "ignore" => LostUnits::Ignore,
            "waiting" => LostUnits::Waiting,
            "blocked" => LostUnits::Blocked,
            other => panic!("{}: no lost_units {other}", case.id),
        }),
        external_leader: Some(Some(match &case.leader {
            Some(unit) => UnitName::new(unit).unwrap(),
            None => UnitName::application(),
        })),
        ..ConfigPatch::default()
    }))];
    if let Some(given) = &case.r#override {
        let claim = Claim {
            unit: case
                .leader
                .as_ref()
                .map_or_else(UnitName::application, |unit| UnitName::new(unit).unwrap()),
            lease_epoch: 0,
            decided_outside: false,
        };
        commands.push(Command::SetApplicationStatus(
            claim,
            NewApplicationStatus {
                mode: match given.mode.as_str() {
                    "override" => Mode::Override,
                    "contribute" => Mode::Contribute,
                    other => panic!("{}: no mode {other}", case.id),
                },
                level: level(&given.level),
                message: given.message.as_str().into(),
                reason: "".into(),
                action: "".into(),
                ttl: None,
                observe_time: None,
            },
        ));
    }
    commands.extend(case.statuses.iter().map(|given| {
        Command::Report(
            Reporter::new(UnitName::new(&given.unit).unwrap(), None),
            match given.kind.as_str() {
                "pull" => Kind::Pull,
                "push" => Kind::Push,
                other => panic!("{}: no kind {other}", case.id),
            },
            NewStatus {
                component: PartName::new(&given.component).unwrap(),
                key: PartName::new(&given.key).unwrap(),
                report: Arc::new(report_of(given)),
                observe_time: given.since.map(Timestamp::new),
            },
        )
    }));
    commands
}

fn report_of(given: &Given) -> Report {
    let (level, message) = (level(&given.level), given.message.as_str().into());
    let details =
        Details { priority: given.priority, precedence: given.precedence, ..Details::default() };
    Report { level, message, ..Report::default() }.with(details)
}

/// Runs a case; `one_commit` puts all of it into one draft, otherwise each command is a commit of
/// its own.
/// its own.
fn run(case: &Case, one_commit: bool) -> AppState {
    let limits = Limits::default();
    let mut state = AppState::empty(AppName::new("", "app").unwrap(), Revision(0));
    let mut commands = commands(case);
    let lost: Vec<UnitName> = case.lost.iter().map(|u| UnitName::new(u).unwrap()).collect();
    let batches = match one_commit {
        true => vec![std::mem::take(&mut commands)],
        false => commands.into_iter().map(|c| vec![c]).collect(),
    };
    let last = batches.len() - 1;
    for (n, batch) in batches.into_iter().enumerate() {
        let mut draft = Draft::new(&state, &limits, NOW);
        for command in batch {
            apply(&mut draft, &Request { id: None, command }).unwrap();
        }
        if n == last {
            lost.iter().for_each(|unit| lose_unit(&mut draft, unit));
        }
        let transition = draft.finish();
        state.replay(&transition);
    }
    state
}

fn check(case: &Case, state: &AppState) {
    let got = &state.head().summary;
    let id = &case.id;
    assert_eq!(got.level.word(), case.expect.level, "{id}: level");
    if let Some(message) = &case.expect.message {
        assert_eq!(&*got.message, message, "{id}: message");
    }
    if let Some(prefix) = &case.expect.message_prefix {
        assert!(got.message.starts_with(prefix), "{id}: {:?}", got.message);
    }
    let winner = got.winner.as_ref();
    if let Some(unit) = &case.expect.unit {
        assert_eq!(winner.map(|w| w.unit.as_str()), Some(unit.as_str()), "{id}: unit");
    }
    if let Some(component) = &case.expect.component {
        let won = winner.map(|w| w.component.as_str());
        assert_eq!(won, Some(component.as_str()), "{id}: component");
    }
}

/// Returns all cases of a file.
fn read<T: serde::de::DeserializeOwned>(file: &str) -> Vec<T> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let cases: Vec<T> = yaml_serde::from_str(&text).unwrap();
    assert!(!cases.is_empty());
    cases
}

#[test]
fn aggregation() {
    let cases: Vec<Case> = read("aggregation.yaml");
    for case in &cases {
        check(case, &run(case, true));
        check(case, &run(case, false));
    }
    println!("{} aggregation cases hold", cases.len());
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorCase {
    id: String,
    #[allow(dead_code)]
    source: String,
    input: ErrorInput,
    expect: ErrorExpect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorInput {
    system: String,
    code: String,
    origin: String,
    outcome: Option<String>,
    #[serde(default)]
    domain: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    registered: bool,
    retry_after_ms: Option<u64>,
    own_shutdown: Option<bool>,
    user_input: Option<bool>,
    own_request: Option<bool>,
    quota: Option<bool>,
    machine_resolvable: Option<bool>,
    deadline_passed: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorExpect {
    class: String,
    action: String,
    counts_as_attempt: bool,
    status_effect: String,
}

fn evidence(id: &str, input: &ErrorInput) -> Evidence {
    Evidence {
        system: input.system.as_str().into(),
        code: input.code.as_str().into(),
        origin: match input.origin.as_str() {
            "PEER" => ErrorOrigin::Peer,
            "TRANSPORT" => ErrorOrigin::Transport,
            "LOCAL" => ErrorOrigin::Local,
            other => panic!("{id}: no origin {other}"),
        },
        outcome: input.outcome.as_deref().map(|word| match word {
            "NOT_APPLIED" => ErrorOutcome::NotApplied,
            "UNKNOWN" => ErrorOutcome::Unknown,
            "REJECTED" => ErrorOutcome::Rejected,
            other => panic!("{id}: no outcome {other}"),
        }),
        domain: input.domain.as_str().into(),
        reason: input.reason.as_str().into(),
        message: "".into(),
        retry_after: input.retry_after_ms.map(Duration::from_millis),
        hints: Hints {
            user_input: input.user_input,
            own_request: input.own_request,
            quota: input.quota,
            machine_resolvable: input.machine_resolvable,
            deadline_passed: input.deadline_passed,
            own_shutdown: input.own_shutdown,
        },
    }
}

#[test]
fn error_classes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/error-classes.yaml");
    let text = std::fs::read_to_string(path).unwrap();
    let cases: Vec<ErrorCase> = yaml_serde::from_str(&text).unwrap();
    assert!(!cases.is_empty());
    for ErrorCase { id, input, expect, .. } in &cases {
        let mut rules = Rules::default();
        if input.registered {
            let (domain, reason) = (input.domain.as_str().into(), input.reason.as_str().into());
            rules.gone.insert(GonePair { domain, reason });
        }
        let found = classify(&rules, &evidence(id, input));
        let effect = found.class.level_at_once().map_or("none", Level::word);
        assert_eq!(found.class.word(), expect.class, "{id}: class, by {}", found.rule);
        assert_eq!(found.action.word(), expect.action, "{id}: action");
        assert_eq!(found.class.counts_as_attempt(), expect.counts_as_attempt, "{id}: attempt");
        assert_eq!(effect, expect.status_effect, "{id}: effect");
    }
    println!("{} error cases hold", cases.len());
}
