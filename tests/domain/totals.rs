//! Limits on all applications together: counted when records are added and removed, rejected by
//! name, and never an obstacle for commands that replace or remove.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::classify::finding::Class;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::data::DataPatch;
use bellwether::domain::draft::Draft;
use bellwether::domain::leadership::Claim;
use bellwether::domain::level::Level;
use bellwether::domain::limits::{LEASE_DEFAULT, LimitExceeded, Limits};
use bellwether::domain::mark::{MarkKind, Until};
use bellwether::domain::name::{OperationId, PartName, UnitName};
use bellwether::domain::operation::command::{NewOperation, OperationAction, OperationCommand};
use bellwether::domain::operation::{Kind as OperationKind, Payload};
use bellwether::domain::rejected::Rejected;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::{Newcomer, Reporter};
use bellwether::domain::usage::Usage;

use crate::faults::mk_error;
use crate::world::app_name;

struct App {
    state: AppState,
    limits: Limits,
    others: Usage,
    now: u64,
}

fn unit(name: &str) -> UnitName {
    UnitName::new(name).unwrap()
}

fn report(name: &str, key: &str, message: &str) -> Command {
    let new = NewStatus {
        component: PartName::default(),
        key: PartName::new(key).unwrap(),
        report: Arc::new(Report {
            level: Level::Active,
            message: message.into(),
            ..Report::default()
        }),
        observe_time: None,
    };
    Command::Report(Reporter::new(unit(name), None), Kind::Push, new)
}

fn replace(name: &str, messages: &[&str]) -> Command {
    let set = messages.iter().enumerate().map(|(n, message)| {
        let report =
            Report { level: Level::Active, message: (*message).into(), ..Report::default() };
        let key = PartName::new(&n.to_string()).unwrap();
        let (component, report) = (PartName::default(), Arc::new(report));
        NewStatus { component, key, report, observe_time: None }
    });
    Command::Replace(Reporter::new(unit(name), None), None, set.collect())
}

fn register(name: &str) -> Command {
    let (unit, labels) = (unit(name), Default::default());
    Command::Register(Newcomer { unit, incarnation: None, stateless: false, labels }, None)
}

fn fault(name: &str, target: &str) -> Command {
    Command::ReportError {
        reporter: Reporter::new(unit(name), None),
        component: PartName::default(),
        target: target.into(),
        error: Box::new(mk_error(Class::Fatal, None)),
    }
}

fn order(action: OperationAction) -> Command {
    let id = OperationId::new("up").unwrap();
    Command::Operate(OperationCommand { id, by: unit("web/0"), action })
}

fn begin(bytes: usize) -> Command {
    order(OperationAction::Begin(Box::new(NewOperation {
        unit: UnitName::application(),
        kind: OperationKind::Upgrade,
        from_version: "".into(),
        target_version: "v2".into(),
        payload: Payload { uri: "".into(), digest: "".into() },
        bytes: Some(Bytes::from(vec![0; bytes])),
        deterministic: true,
        reversible: false,
        attempts_max: 3,
        interruptions_max: 3,
        deadline: None,
        lease_duration: LEASE_DEFAULT,
        supersede: false,
        note: "".into(),
    })))
}

impl App {
    fn new(total: Usage, others: Usage) -> App {
        let limits = Limits { total, ..Limits::default() };
        App { state: AppState::empty(app_name(), Revision(0)), limits, others, now: 0 }
    }

    fn ask(&mut self, command: Command) -> Result<(), Rejected> {
        self.now += 1;
        let mut draft = Draft::new(&self.state, &self.limits, Timestamp::new(self.now));
        draft.set_usage_of_others(self.others, Usage::default());
        let outcome = apply(&mut draft, &Request { id: None, command });
        let transition = draft.finish();
        self.state.replay(&transition);
        let kept = self.state.head().counts.unwrap_or_default();
        assert_eq!(kept, self.state.recount(), "what is counted is what is there");
        outcome.map(|_| ())
    }

    fn refuses(&mut self, command: Command, limit: &str) {
        let before = self.state.clone();
        match self.ask(command) {
            Err(Rejected::LimitExceeded(LimitExceeded { limit: found, .. })) => {
                assert_eq!(found, limit)
            }
            other => panic!("{limit}: {other:?}"),
        }
        assert_eq!(self.state.head().usage(), before.head().usage());
    }
}

fn all(value: u64) -> Usage {
    Usage {
        units: value,
        statuses: value,
        faults: value,
        operations: value,
        marks: value,
        data_bytes: value,
        record_bytes: value,
        history_bytes: value,
    }
}

/// The total is at the limit, most of it used by other applications.
#[test]
fn each_count_over_all_applications_is_bounded_and_removal_frees_it() {
    let many = all(1 << 40);
    let others = all(1000);
    let mut app = App::new(Usage { units: 1001, statuses: 1002, ..many }, others);
    app.ask(register("web/0")).unwrap();
    for command in [
        register("web/1"),
        report("web/1", "a", ""),
        fault("web/1", "x"),
        Command::ClaimLeadership(Reporter::new(unit("web/1"), None), None),
    ] {
        app.refuses(command, "units_total_max");
    }
    app.ask(replace("web/0", &["", ""])).unwrap();
    app.refuses(report("web/0", "c", ""), "statuses_total_max");
    app.refuses(replace("web/0", &["", "", ""]), "statuses_total_max");
    app.ask(replace("web/0", &["x", "y"])).unwrap();
    app.ask(Command::RemoveUnit(unit("web/0"))).unwrap();
    app.ask(register("web/1")).unwrap();

    let mut app = App::new(Usage { faults: 1001, operations: 1001, ..many }, others);
    app.ask(fault("web/0", "x")).unwrap();
    app.ask(fault("web/0", "x")).unwrap();
    app.refuses(fault("web/0", "y"), "faults_total_max");
    app.ask(begin(1)).unwrap();
    app.ask(order(OperationAction::Complete { fence: 1 })).unwrap();
    let other = OperationId::new("other").unwrap();
    let Command::Operate(next) = begin(1) else { unreachable!() };
    app.refuses(Command::Operate(OperationCommand { id: other, ..next }), "operations_total_max");

    let mut app = App::new(Usage { marks: 1001, ..many }, others);
    app.ask(register("web/0")).unwrap();
    let mark = |id: &str| {
        let hour = Until::After(Duration::from_secs(3600));
        Command::SetMark(Box::new(crate::marks::mark(id, MarkKind::Planned, "web/0", hour)))
    };
    app.ask(mark("a")).unwrap();
    app.refuses(mark("b"), "marks_total_max");
    app.ask(Command::RemoveMark("a".into())).unwrap();
    app.ask(mark("b")).unwrap();
}

#[test]
fn bytes_over_all_applications_are_bounded_and_replacing_goes_on() {
    let many = all(1 << 40);
    let total = Usage { record_bytes: 1100, data_bytes: 1010, ..many };
    let mut app = App::new(total, all(1000));
    app.ask(report("web/0", "a", &"x".repeat(100))).unwrap();
    app.refuses(report("web/0", "b", "more"), "record_bytes_total_max");
    app.refuses(replace("web/0", &["more"]), "record_bytes_total_max");
    app.refuses(fault("web/0", "x"), "record_bytes_total_max");
    app.refuses(begin(1), "record_bytes_total_max");
    // A replacement of the same size, or a smaller one; and a status without a text.
    app.ask(report("web/0", "a", &"y".repeat(100))).unwrap();
    app.ask(report("web/0", "a", &"y".repeat(40))).unwrap();
    app.ask(report("web/0", "b", "")).unwrap();
    app.ask(begin(20)).unwrap();
    let heartbeat = |bytes| {
        let checkpoint = Some(Bytes::from(vec![0; bytes]));
        order(OperationAction::Heartbeat { fence: 1, checkpoint, progress: None })
    };
    app.ask(heartbeat(38)).unwrap();
    app.refuses(heartbeat(39), "record_bytes_total_max");
    app.ask(heartbeat(38)).unwrap();

    app.ask(Command::ClaimLeadership(Reporter::new(unit("web/0"), None), None)).unwrap();
    let update = |value: &str| {
        let claim = Claim { unit: unit("web/0"), lease_epoch: 1, decided_outside: false };
        let set = [(Arc::from("key"), Bytes::from(value.as_bytes().to_vec()))].into();
        Command::UpdateData(claim, DataPatch { set, ..DataPatch::default() })
    };
    app.ask(update("1234567")).unwrap();
    app.refuses(update("12345678"), "data_bytes_total_max");
    app.others.data_bytes = 2000;
    app.ask(update("123")).unwrap();
    // Over the limit, as after it was lowered: commands that free something are accepted.
    app.others = all(5000);
    app.ask(report("web/0", "a", "less")).unwrap();
    app.ask(update("")).unwrap();
    app.ask(order(OperationAction::Complete { fence: 1 })).unwrap();
    app.ask(Command::RemoveUnit(unit("web/0"))).unwrap();
    assert_eq!(app.state.head().usage().statuses, 0);
}

/// No command is rejected because of the history; the events lose their texts instead.
#[test]
fn a_full_history_keeps_its_lines_without_their_texts() {
    let total = Usage { history_bytes: 10_000, ..all(1 << 40) };
    let mut app = App::new(total, Usage { history_bytes: 9_500, ..Usage::default() });
    let mut messages = Vec::new();
    for n in 0..6 {
        app.now += 1;
        let mut draft = Draft::new(&app.state, &app.limits, Timestamp::new(app.now));
        draft.set_usage_of_others(app.others, Usage::default());
        let word = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"][n];
        let command = report("web/0", "a", word);
        apply(&mut draft, &Request { id: None, command }).unwrap();
        let transition = draft.finish();
        messages.extend(transition.events.iter().map(|event| event.message.to_string()));
        app.state.replay(&transition);
    }
    assert_eq!(messages.first().map(String::as_str), Some("alpha"));
    assert!(3 < messages.len() && messages.ends_with(&[String::new()]), "{messages:?}");
}

/// The count of bytes covers as many events as are stored, however many were written.
#[test]
fn a_long_history_counts_no_more_than_what_is_kept_of_it() {
    let mut app = App::new(all(1 << 40), Usage::default());
    (app.limits.events_max, app.limits.own_events_max) = (10, 10);
    let mut at_most = 0;
    for n in 0..200 {
        app.ask(report("web/0", "a", ["here", "there"][n % 2])).unwrap();
        at_most = at_most.max(app.state.head().usage().history_bytes);
    }
    assert!(1000 < at_most && at_most < 3000, "{at_most}");
}

#[test]
fn a_limit_of_a_namespace_counts_its_other_applications() {
    let limits = Limits { namespace: all(10), ..Limits::default() };
    for (units, is_refused) in [(9, false), (10, true)] {
        let state = AppState::empty(app_name(), Revision(0));
        let mut draft = Draft::new(&state, &limits, Timestamp::new(1));
        let in_namespace = Usage { units, ..Usage::default() };
        draft.set_usage_of_others(Usage::default(), in_namespace);
        let answer = apply(&mut draft, &Request { id: None, command: register("web/0") });
        assert_eq!(answer.is_err(), is_refused, "{units}: {answer:?}");
    }
}
