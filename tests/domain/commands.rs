//! Generators of commands with few names, so that they collide, and of steps that split them into
//! batches.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::leadership::Claim;
use bellwether::domain::leadership::status::{Mode, NewApplicationStatus};
use bellwether::domain::level::Level;
use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::need::{Need, Needs};
use bellwether::domain::policy::{ConfigPatch, Damping, Latch, LostUnits, Policy, Scope};
use bellwether::domain::quorum::Quorum;
use bellwether::domain::request::RequestId;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::{Details, Report};
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::presence::{ReplicaId, SessionId};
use bellwether::domain::unit::{Newcomer, Reporter, Topic};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// A step of a test run.
#[derive(Debug, Clone)]
pub enum Step {
    /// Time passes.
    Pass(u64),
    /// A batch, with or without an expiry of due changes first.
    Commit(bool, Vec<Request>),
    /// Repeats a known status, once or more, perhaps with another status of it in the same batch.
    Again(usize, Option<Report>),
    /// Applies the changes by time.
    Expire,
    /// Another replica has found that a unit is lost.
    Lose(UnitName),
    /// A data loss with this loss count; the requests of the batch come after it.
    Doubt(u32, Vec<Request>),
    Delete(Option<RequestId>),
    /// Reloads the state from the store, while other replicas continued.
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
        2 => Just(Step::Restart),
    ];
    // Most runs start with latches or damping.
    let first = (latches(), damping()).prop_map(|(latches, damping)| {
        let patch = ConfigPatch {
            latches: Some(latches),
            damping: Some(damping),
            ..ConfigPatch::default()
        };
        Step::Commit(
            false,
            vec![Request { id: None, command: Command::Configure(Box::new(patch)) }],
        )
    });
    (option::weighted(0.7, first), vec(step, 1..40))
        .prop_map(|(first, steps)| first.into_iter().chain(steps).collect())
}

fn request() -> impl Strategy<Value = Request> {
    (option::weighted(0.3, id()), command()).prop_map(|(id, command)| Request { id, command })
}

fn id() -> impl Strategy<Value = RequestId> {
    select(vec!["r1", "r2", "r3"]).prop_map(RequestId::from)
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        12 => (reporter(), kind(), new_status()).prop_map(|(s, k, n)| Command::Report(s, k, n)),
        4 => (reporter(), option::of(component()), vec(new_status(), 0..4)).prop_map(replace),
        3 => (reporter(), option::of(component()), option::of(key()), option::of(kind()))
            .prop_map(|(reporter, component, key, kind)| Command::Clear {
                reporter,
                component,
                key,
                kind,
            }),
        2 => patch().prop_map(|patch| Command::Configure(Box::new(patch))),
        2 => (claim(), application_status())
            .prop_map(|(c, s)| Command::SetApplicationStatus(c, s)),
        1 => claim().prop_map(Command::ClearApplicationStatus),
        3 => (claim(), option::of(component()), vec(new_status(), 0..4)).prop_map(replace_own),
        1 => unit().prop_map(Command::RemoveUnit),
        2 => (reporter(), vec((kind(), new_status()), 0..4))
            .prop_map(|(s, set)| Command::ReportAll(s, set)),
        12 => coming_or_going(),
    ]
}

fn coming_or_going() -> impl Strategy<Value = Command> {
    prop_oneof![
        4 => (newcomer(), session()).prop_map(|(who, session)| Command::Connect(who, session)),
        // Before all other sessions, or after all: a batch and single commits agree on these alone.
        2 => (newcomer(), session(), select(vec![0, 1_000_000])).prop_map(
            |(who, session, since)| Command::Reconnect(who, session, Revision(since))
        ),
        2 => (newcomer(), ttl()).prop_map(|(who, ttl)| Command::Register(who, ttl)),
        3 => (unit(), session(), patience(), any::<bool>()).prop_map(
            |(unit, session, ttl, silent)| Command::Disconnect { unit, session, ttl, silent }
        ),
        2 => (reporter(), patience()).prop_map(|(reporter, ttl)| Command::Depart { reporter, ttl }),
        1 => (replica(), patience())
            .prop_map(|(replica, ttl)| Command::EndSessions { replica, ttl }),
        2 => (unit(), topic(), at(), select(vec!["", "op"])).prop_map(
            |(unit, topic, at, operation)| Command::AddCallback {
                unit,
                topic,
                at,
                operation_id: operation.into(),
            }
        ),
        1 => (unit(), topic()).prop_map(|(unit, topic)| Command::CancelCallback { unit, topic }),
        2 => (reporter(), key(), option::weighted(0.7, patience())).prop_map(
            |(reporter, key, after)| Command::RequestCallback {
                reporter,
                topic: Topic::requested(PartName::default(), key),
                after,
                reason: "later".into(),
            }
        ),
    ]
}

/// Generates a unit that begins or continues an incarnation.
fn newcomer() -> impl Strategy<Value = Newcomer> {
    let incarnation = prop_oneof![3 => Just(None), 1 => (1..4u64).prop_map(Some)];
    let labels = select(vec![None, Some("a"), Some("a"), Some("b")]);
    (unit(), incarnation, any::<bool>(), labels).prop_map(
        |(unit, incarnation, stateless, label)| {
            let labels = label.map(|value| ("line".into(), value.into()));
            Newcomer { unit, incarnation, stateless, labels: labels.into_iter().collect() }
        },
    )
}

fn replica() -> impl Strategy<Value = ReplicaId> {
    (1..3u64).prop_map(ReplicaId)
}

fn session() -> impl Strategy<Value = SessionId> {
    (replica(), 0..2u64).prop_map(|(replica, number)| SessionId { replica, number })
}

fn topic() -> impl Strategy<Value = Topic> {
    (component(), select(vec!["", "db"]))
        .prop_map(|(component, target)| Topic::retry(component, target))
}

/// Generates a time from long ago to later than most steps take.
fn at() -> impl Strategy<Value = Timestamp> {
    prop_oneof![0..20_000u64, 0..2_000_000u64].prop_map(Timestamp::new)
}

fn patience() -> impl Strategy<Value = Duration> {
    select(vec![1000, 3000, 30_000]).prop_map(Duration::from_millis)
}

/// Normalizes a set: it has each (component, key) once, and only the replaced component, as the
/// conversion of requests guarantees.
fn replace(
    (reporter, component, mut set): (Reporter, Option<PartName>, Vec<NewStatus>),
) -> Command {
    normalize(component.as_ref(), &mut set);
    Command::Replace(reporter, component, set)
}

fn replace_own((claim, component, mut set): (Claim, Option<PartName>, Vec<NewStatus>)) -> Command {
    normalize(component.as_ref(), &mut set);
    Command::ReplaceApplicationStatuses(claim, component, set)
}

fn normalize(component: Option<&PartName>, set: &mut Vec<NewStatus>) {
    if let Some(component) = component {
        set.iter_mut().for_each(|new| new.component = component.clone());
    }
    let mut seen = std::collections::BTreeSet::new();
    set.retain(|new| seen.insert((new.component.clone(), new.key.clone())));
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

fn reporter() -> impl Strategy<Value = Reporter> {
    let incarnation = prop_oneof![4 => Just(None), 1 => (0..3u64).prop_map(Some)];
    let session = option::weighted(0.2, session());
    (unit(), incarnation, session).prop_map(|(unit, incarnation, session)| Reporter {
        unit,
        incarnation,
        session,
    })
}

fn ttl() -> impl Strategy<Value = Option<Duration>> {
    select(vec![None, None, Some(1000), Some(3000), Some(30_000)])
        .prop_map(|ttl| ttl.map(Duration::from_millis))
}

fn end_after() -> impl Strategy<Value = Option<Duration>> {
    select(vec![None, None, None, Some(2000), Some(20_000)])
        .prop_map(|end| end.map(Duration::from_millis))
}

/// Generates needs in few combinations; most reports have none.
fn needs() -> impl Strategy<Value = Needs> {
    let app = |name| Need::application(AppName::new("", name).unwrap(), vec![Level::Active]);
    let outside = || Need::Outside("quota".into());
    select(vec![
        vec![],
        vec![],
        vec![],
        vec![app("db")],
        vec![app("db"), outside()],
        vec![outside(), app("cache")],
    ])
    .prop_map(Needs::from_iter)
}

fn message() -> impl Strategy<Value = Box<str>> {
    select(vec!["", "try 1", "try 2", "other"]).prop_map(Box::from)
}

/// Generates reports with few differences, so that repeats happen.
fn report() -> impl Strategy<Value = Report> {
    let number = || select(vec![0, 0, 0, 0, 1, -1]);
    let action = select(vec!["", "", "act"]).prop_map(Box::from);
    let unknown = select(vec![false, false, true]);
    (level(), message(), action, number(), number(), ttl(), end_after(), needs(), unknown).prop_map(
        |(level, message, action, priority, precedence, ttl, end_after, needs, since_unknown)| {
            let numbers = Details { priority, precedence, ..Details::default() };
            let details = Details { action, end_after, needs, since_unknown, ..numbers };
            Report { level, message, ttl, ..Report::default() }.with(details)
        },
    )
}

pub fn new_status() -> impl Strategy<Value = NewStatus> {
    let observed = prop_oneof![
        3 => Just(None),
        1 => (0..2000u64).prop_map(|t| Some(Timestamp::new(t))),
        1 => Just(Some(Timestamp::new(u64::MAX))),
    ];
    (component(), key(), report(), observed).prop_map(|(component, key, report, observe_time)| {
        NewStatus { component, key, report: Arc::new(report), observe_time }
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
        option::of(select(vec![None, Some(""), Some("line")])),
        option::of(latches()),
        option::of(damping()),
        option::of(quorum()),
    )
        .prop_map(
            |(
                policy,
                lost_units,
                default_ttl,
                lost_after,
                external_leader,
                hand_over,
                latches,
                damping,
                quorum,
            )| {
                ConfigPatch {
                    hand_over: hand_over.map(|label| label.map(Box::from)),
                    policy,
                    lost_units,
                    default_ttl,
                    lost_after,
                    external_leader,
                    latches,
                    damping,
                    quorum,
                    ..ConfigPatch::default()
                }
            },
        )
}

fn quorum() -> impl Strategy<Value = Option<Quorum>> {
    let percent = select(vec![1, 25, 26, 50, 100]).prop_map(Quorum::Percent);
    option::weighted(0.8, prop_oneof![(1..4u32).prop_map(Quorum::Units), percent])
}

fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![2 => Just(Scope::All), 3 => component().prop_map(Scope::Component)]
}

fn latches() -> impl Strategy<Value = Vec<Latch>> {
    vec((scope(), 2..4u32), 0..3).prop_map(|latches| {
        let latch = |(scope, good_count)| Latch { scope, good_count };
        latches.into_iter().map(latch).collect()
    })
}

/// Generates thresholds so low that few swings exceed them.
fn damping() -> impl Strategy<Value = Damping> {
    let percents = select(vec![(5, 4), (5, 5), (11, 10), (11, 5), (15, 10)]);
    let calm_after = select(vec![1000, 20_000]).prop_map(Duration::from_millis);
    (vec(scope(), 0..3), percents, calm_after).prop_map(|(scopes, percents, calm_after)| {
        let (start_percent, stop_percent) = percents;
        Damping { scopes, start_percent, stop_percent, calm_after }
    })
}

fn claim() -> impl Strategy<Value = Claim> {
    let unit = prop_oneof![4 => unit(), 1 => Just(UnitName::application())];
    (unit, option::weighted(0.2, Just(()))).prop_map(|(unit, outside)| {
        let decided_outside = outside.is_some() && !unit.is_application();
        Claim { unit, lease_epoch: 0, decided_outside }
    })
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
