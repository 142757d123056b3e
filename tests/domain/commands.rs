//! Commands made up from few names, so that they collide, and steps that cut them into batches.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::Mode;
use bellwether::domain::command::{
    Claim, Command, NewApplicationStatus, NewStatus, Request, Speaker,
};
use bellwether::domain::name::{PartName, UnitName};
use bellwether::domain::policy::{ConfigPatch, LostUnits, Policy};
use bellwether::domain::status::{Kind, Level, Report};
use bellwether::domain::time::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// What happens next.
#[derive(Debug, Clone)]
pub enum Step {
    /// Time passes.
    Pass(u64),
    /// A batch, with or without looking at the clock first.
    Commit(bool, Vec<Request>),
    /// What is known is said again, and maybe in the same batch something else of it.
    Again(usize, Option<Report>),
    /// Time alone.
    Expire,
    /// Somebody else has found that a unit is gone.
    Lose(UnitName),
    /// The store may have lost writes, for this time; who speaks in the batch spoke after.
    Doubt(u32, Vec<Request>),
    Delete(Option<Arc<str>>),
    /// Back from what the store has.
    Restart,
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pass = prop_oneof![
        6 => 0..4000u64,
        3 => 4000..200_000u64,
        1 => select(vec![1000, 3000, 10_000, 30_000, 600_000]),
    ];
    let step = prop_oneof![
        4 => pass.prop_map(Step::Pass),
        8 => (any::<bool>(), vec(request(), 1..5)).prop_map(|(e, r)| Step::Commit(e, r)),
        5 => (any::<usize>(), option::of(report())).prop_map(|(n, r)| Step::Again(n, r)),
        3 => Just(Step::Expire),
        1 => unit().prop_map(Step::Lose),
        1 => (0..6u32, vec(request(), 0..3)).prop_map(|(losses, r)| Step::Doubt(losses, r)),
        1 => option::of(id()).prop_map(Step::Delete),
        1 => Just(Step::Restart),
    ];
    vec(step, 1..40)
}

fn request() -> impl Strategy<Value = Request> {
    (option::weighted(0.3, id()), command()).prop_map(|(id, command)| Request { id, command })
}

fn id() -> impl Strategy<Value = Arc<str>> {
    select(vec!["r1", "r2", "r3"]).prop_map(Arc::from)
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        12 => (speaker(), kind(), new_status()).prop_map(|(s, k, n)| Command::Report(s, k, n)),
        4 => (speaker(), option::of(component()), vec(new_status(), 0..4)).prop_map(replace),
        3 => (speaker(), option::of(component()), option::of(key()), option::of(kind()))
            .prop_map(|(speaker, component, key, kind)| Command::Clear {
                speaker,
                component,
                key,
                kind,
            }),
        2 => patch().prop_map(Command::Configure),
        2 => (claim(), application_status())
            .prop_map(|(c, s)| Command::SetApplicationStatus(c, s)),
        1 => claim().prop_map(Command::ClearApplicationStatus),
        1 => unit().prop_map(Command::RemoveUnit),
    ]
}

/// A set names each (component, key) once, and only the component it replaces: who converts has
/// checked that.
fn replace((speaker, component, mut set): (Speaker, Option<PartName>, Vec<NewStatus>)) -> Command {
    if let Some(component) = &component {
        set.iter_mut().for_each(|new| new.component = component.clone());
    }
    let mut seen = std::collections::BTreeSet::new();
    set.retain(|new| seen.insert((new.component.clone(), new.key.clone())));
    Command::Replace(speaker, component, set)
}

pub fn unit() -> impl Strategy<Value = UnitName> {
    select(vec!["web/2", "web/10", "web/02", "a"]).prop_map(|name| UnitName::new(name).unwrap())
}

fn component() -> impl Strategy<Value = PartName> {
    select(vec!["", "c10", "c2"]).prop_map(|name| PartName::new(name).unwrap())
}

fn key() -> impl Strategy<Value = PartName> {
    select(vec!["", "k1", "k2"]).prop_map(|name| PartName::new(name).unwrap())
}

fn kind() -> impl Strategy<Value = Kind> {
    select(vec![Kind::Push, Kind::Pull])
}

fn level() -> impl Strategy<Value = Level> {
    select(Level::ALL.to_vec())
}

fn speaker() -> impl Strategy<Value = Speaker> {
    let incarnation = prop_oneof![4 => Just(None), 1 => (0..3u64).prop_map(Some)];
    (unit(), incarnation).prop_map(|(unit, incarnation)| Speaker::new(unit, incarnation))
}

fn ttl() -> impl Strategy<Value = Option<Duration>> {
    select(vec![None, None, Some(1000), Some(3000), Some(30_000)])
        .prop_map(|ttl| ttl.map(Duration::from_millis))
}

fn message() -> impl Strategy<Value = Box<str>> {
    select(vec!["", "try 1", "try 2", "other"]).prop_map(Box::from)
}

/// A report of few differences, so that repeats happen.
fn report() -> impl Strategy<Value = Report> {
    let number = || select(vec![0, 0, 0, 0, 1, -1]);
    let action = select(vec!["", "", "act"]).prop_map(Box::from);
    (level(), message(), action, number(), number(), ttl()).prop_map(
        |(level, message, action, priority, precedence, ttl)| Report {
            level,
            message,
            action,
            priority,
            precedence,
            ttl,
            ..Report::default()
        },
    )
}

pub fn new_status() -> impl Strategy<Value = NewStatus> {
    let observed = prop_oneof![
        3 => Just(None),
        1 => (0..2000u64).prop_map(|t| Some(Timestamp(t))),
        1 => Just(Some(Timestamp(u64::MAX))),
    ];
    (component(), key(), report(), observed).prop_map(|(component, key, report, observe_time)| {
        NewStatus { component, key, report, observe_time }
    })
}

pub fn patch() -> impl Strategy<Value = ConfigPatch> {
    let custom = Just(Level::ALL.to_vec()).prop_shuffle();
    let custom = custom.prop_map(|order| Policy::Custom(order.try_into().unwrap()));
    let policy =
        prop_oneof![Just(Policy::Juju), Just(Policy::OpenStack), Just(Policy::Strict), custom,];
    let lost_units = select(vec![LostUnits::Ignore, LostUnits::Waiting, LostUnits::Blocked]);
    let lost_after = select(vec![1000, 20_000]).prop_map(Duration::from_millis);
    let leader = prop_oneof![
        3 => unit().prop_map(Some),
        1 => Just(Some(UnitName::application())),
        1 => Just(None),
    ];
    (
        option::of(policy),
        option::of(lost_units),
        option::of(ttl()),
        option::of(lost_after),
        option::of(leader),
    )
        .prop_map(|(policy, lost_units, default_ttl, lost_after, external_leader)| {
            ConfigPatch {
                policy,
                lost_units,
                default_ttl,
                lost_after,
                external_leader,
                ..ConfigPatch::default()
            }
        })
}

fn claim() -> impl Strategy<Value = Claim> {
    let unit = prop_oneof![4 => unit(), 1 => Just(UnitName::application())];
    unit.prop_map(|unit| Claim { unit, lease_epoch: 0 })
}

fn application_status() -> impl Strategy<Value = NewApplicationStatus> {
    let mode = select(vec![Mode::Contribute, Mode::Override]);
    let action = select(vec!["", "act"]).prop_map(Box::from);
    (mode, level(), message(), action, ttl()).prop_map(|(mode, level, message, action, ttl)| {
        NewApplicationStatus {
            mode,
            level,
            message,
            reason: "".into(),
            action,
            ttl,
            observe_time: None,
        }
    })
}
