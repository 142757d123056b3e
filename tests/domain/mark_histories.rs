//! Random histories of marks and quorums, beside a twin without marks and a model that recomputes
//! every mark, the quorum and the winner from all contributions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::command::{Command, NewStatus};
use bellwether::domain::derive::derive;
use bellwether::domain::leadership::Claim;
use bellwether::domain::leadership::status::{Mode, NewApplicationStatus};
use bellwether::domain::level::Level;
use bellwether::domain::mark::{Cover, MarkId, MarkKind, NewMark, Until, WELL_FOR};
use bellwether::domain::name::{PartName, UnitName};
use bellwether::domain::policy::{ConfigPatch, LostUnits, Policy};
use bellwether::domain::quorum::{Quorum, Turnout};
use bellwether::domain::rank::{Origin, Rank};
use bellwether::domain::status::Freshness;
use bellwether::domain::status::report::{Details, Report};
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::Reporter;
use proptest::prelude::*;

use crate::marks::{Fleet, mark, report, reported};

/// What random histories do.
#[derive(Debug, Clone)]
enum Do {
    Pass(u64),
    Apply(Vec<Command>),
    Set(NewMark),
    Unmark(MarkId),
    Lose(&'static str),
    Connect(&'static str),
    Disconnect(&'static str),
    Restart,
}

const UNITS: [&str; 3] = ["web/0", "web/1", "web/2"];

fn mk_report() -> impl Strategy<Value = Command> {
    let level = prop::sample::select(Level::ALL.to_vec());
    let parts = (0..3usize, prop::sample::select(vec!["", "disk"]), level, -1..2i32, 0..4u8);
    parts.prop_map(|(unit, component, level, precedence, ttl)| {
        let details = Details { precedence, ..Details::default() };
        let ttl = (ttl == 0).then(|| Duration::from_secs(90));
        let report = Report { level, ttl, ..Report::default() }.with(details);
        reported(UNITS[unit], component, report)
    })
}

fn mk_mark() -> impl Strategy<Value = NewMark> {
    let covers = prop::sample::select(vec!["", "web/0", "web/1", "web/0 disk", "web/1 disk"]);
    let kind = prop::sample::select(MarkKind::ALL.to_vec());
    let times = (prop::option::of(1..600u64), 30..4000u64);
    (0..4u8, kind, covers, times, any::<bool>()).prop_map(
        |(id, kind, covers, (ahead, length), well)| {
            let start = ahead.filter(|_| kind == MarkKind::Planned);
            NewMark {
                // Replaced by the time at which it is set.
                start: start.map(Timestamp::new),
                ends_when_well: well || kind == MarkKind::Acknowledged,
                ..mark(&format!("m{id}"), kind, covers, Until::After(Duration::from_secs(length)))
            }
        },
    )
}

/// Returns the report of an operator for the application itself: no unit leads it.
fn outside() -> Claim {
    Claim { unit: UnitName::application(), lease_epoch: 0, decided_outside: false }
}

/// Statuses of the application itself, one or a set, or none any more.
fn mk_own() -> impl Strategy<Value = Command> {
    let level = prop::sample::select(Level::ALL.to_vec());
    let mode = prop::sample::select(vec![Mode::Contribute, Mode::Contribute, Mode::Override]);
    (0..6u8, level, mode, -1..2i32).prop_map(|(what, level, mode, precedence)| match what {
        0 => Command::ClearApplicationStatus(outside()),
        1 => Command::ReplaceApplicationStatuses(outside(), None, Vec::new()),
        2 => Command::SetApplicationStatus(
            outside(),
            NewApplicationStatus {
                mode,
                level,
                message: "".into(),
                reason: "".into(),
                action: "".into(),
                ttl: None,
                observe_time: None,
            },
        ),
        _ => {
            let details = Details { precedence, ..Details::default() };
            let ttl = (what == 3).then(|| Duration::from_secs(90));
            let new = NewStatus {
                component: PartName::default(),
                key: PartName::default(),
                report: Arc::new(Report { level, ttl, ..Report::default() }.with(details)),
                observe_time: None,
            };
            Command::ReplaceApplicationStatuses(outside(), None, vec![new])
        }
    })
}

/// What decides the status of the application beside its contributions.
fn mk_patch() -> impl Strategy<Value = ConfigPatch> {
    let policy = prop_oneof![
        3 => prop::sample::select(vec![Policy::Juju, Policy::OpenStack, Policy::Strict]),
        1 => Just(Level::ALL).prop_shuffle().prop_map(Policy::Custom),
    ];
    let quorum = prop_oneof![
        1 => Just(None),
        3 => (1..4u32).prop_map(|units| Some(Quorum::Units(units))),
        1 => (1..101u32).prop_map(|percent| Some(Quorum::Percent(percent))),
    ];
    let lost = vec![LostUnits::Ignore, LostUnits::Waiting, LostUnits::Blocked];
    prop_oneof![
        2 => policy.prop_map(|policy| ConfigPatch {
            policy: Some(policy),
            ..ConfigPatch::default()
        }),
        3 => quorum.prop_map(|quorum| ConfigPatch {
            quorum: Some(quorum),
            ..ConfigPatch::default()
        }),
        1 => prop::sample::select(lost).prop_map(|lost| ConfigPatch {
            lost_units: Some(lost),
            ..ConfigPatch::default()
        }),
    ]
}

fn mk_history() -> impl Strategy<Value = Vec<Do>> {
    let configure = mk_patch().prop_map(|patch| Command::Configure(Box::new(patch)));
    let unit = || prop::sample::select(UNITS.to_vec());
    let remove = unit().prop_map(|unit| Command::RemoveUnit(UnitName::new(unit).unwrap()));
    let clear = unit().prop_map(|unit| {
        let reporter = Reporter::new(UnitName::new(unit).unwrap(), None);
        Command::Clear { reporter, component: None, key: None, kind: None }
    });
    let one = |command| Do::Apply(vec![command]);
    let step = prop_oneof![
        8 => prop::collection::vec(mk_report(), 1..4).prop_map(Do::Apply),
        4 => (1..700_000u64).prop_map(Do::Pass),
        4 => mk_mark().prop_map(Do::Set),
        1 => (0..4u8).prop_map(|id| Do::Unmark(format!("m{id}").into())),
        1 => unit().prop_map(Do::Lose),
        1 => unit().prop_map(Do::Connect),
        1 => unit().prop_map(Do::Disconnect),
        1 => Just(Do::Restart),
        3 => configure.prop_map(one),
        2 => mk_own().prop_map(one),
        1 => remove.prop_map(one),
        1 => clear.prop_map(one),
    ];
    prop::collection::vec(step, 1..40)
}

/// A mark as the model keeps it.
#[derive(Debug, Clone)]
struct Known {
    kind: MarkKind,
    cover: Cover,
    start: u64,
    end: u64,
    worst: Level,
    ends_when_well: bool,
    begun: bool,
    well_since: Option<u64>,
}

/// The marks, recomputed from all contributions after each step.
#[derive(Debug, Default)]
struct Model(BTreeMap<String, Known>);

impl Model {
    /// Judges every mark by the state after a commit at `now`.
    fn judge(&mut self, state: &AppState, now: u64) {
        let policy = state.head().config.policy.clone();
        let severity = |level| policy.severity(level);
        self.0.retain(|_, known| {
            if !known.begun || !known.ends_when_well {
                return true;
            }
            let (worst, is_well) = covered(state, &known.cover);
            if known.kind == MarkKind::Acknowledged && severity(worst) < severity(known.worst) {
                return false;
            }
            known.well_since = is_well.then(|| known.well_since.unwrap_or(now));
            true
        });
    }

    /// Begins and ends what is due by now.
    fn pass(&mut self, now: u64) {
        let well_for = WELL_FOR.as_millis() as u64;
        self.0.retain(|_, known| {
            let is_well_for_long = known.well_since.is_some_and(|since| since + well_for <= now);
            now < known.end && !(known.begun && is_well_for_long)
        });
        self.0.values_mut().for_each(|known| known.begun |= known.start <= now);
    }

    fn next(&self) -> Option<u64> {
        let well_for = WELL_FOR.as_millis() as u64;
        let times = self.0.values().flat_map(|known| {
            let start = (!known.begun).then_some(known.start);
            let well = known.well_since.filter(|_| known.begun).map(|since| since + well_for);
            [start, Some(known.end), well]
        });
        times.flatten().min()
    }

    /// Returns as which level a contribution counts.
    fn counts_as(&self, policy: &Policy, rank: &Rank) -> Level {
        let is_planned = |known: &Known| {
            known.begun && known.kind == MarkKind::Planned && known.cover.has(&rank.key)
        };
        let maintenance = policy.severity(Level::Maintenance);
        // Where maintenance is milder than active, it would make the application active.
        let is_worse = policy.severity(rank.level) < maintenance;
        let may_be = maintenance < policy.severity(Level::Active);
        match self.0.values().any(is_planned) && is_worse && may_be {
            true => Level::Maintenance,
            false => rank.level,
        }
    }

    fn remove_unit(&mut self, unit: &UnitName) {
        self.0.retain(|_, known| known.cover.unit != *unit);
    }
}

/// Returns the worst level of what is covered, at least active, and whether all of it is well.
fn covered(state: &AppState, cover: &Cover) -> (Level, bool) {
    let policy = &state.head().config.policy;
    let all = state.contributions_from_scratch();
    let ranks = all.iter().filter(|rank| cover.has(&rank.key));
    let mut worst = Level::Active;
    let mut is_well = true;
    for rank in ranks {
        if policy.severity(rank.level) < policy.severity(worst) {
            worst = rank.level;
        }
        is_well &= matches!(rank.level, Level::Active | Level::Terminated);
        let unit = state.unit(&rank.key.unit);
        let status = state.status(&rank.key);
        is_well &= !status.is_some_and(|status| {
            status.stale || unit.is_some_and(|unit| unit.has_outlived(&rank.key, status))
        });
    }
    for (name, unit) in state.units_after(None) {
        if cover.is_all() || cover.unit == *name {
            is_well &= match cover.component {
                None => unit.freshness() == Freshness::Fresh,
                Some(_) => unit.is_believed(),
            };
        }
    }
    (worst, is_well)
}

/// Sets a mark, in the fleet and in the model.
fn set(fleet: &mut Fleet, model: &mut Model, new: &NewMark) {
    let start = new.start.map(|ahead| Timestamp::new(fleet.now + 1000 * ahead.millis()));
    let new = NewMark { start, ..new.clone() };
    let set = fleet.apply(&[Command::SetMark(Box::new(new.clone()))]).remove(0);
    let Until::After(length) = new.until else { unreachable!() };
    let now = fleet.now;
    if set.is_ok() {
        let start = start.map_or(now, Timestamp::millis);
        let fresh = || Known {
            kind: new.kind,
            cover: new.cover.clone(),
            start,
            end: 0,
            worst: covered(&fleet.state, &new.cover).0,
            ends_when_well: new.ends_when_well,
            begun: false,
            well_since: None,
        };
        let known = model.0.entry(new.id.to_string()).or_insert_with(fresh);
        if !known.begun {
            known.start = start;
        }
        known.end = known.start + length.as_millis() as u64;
        known.begun |= known.start <= now;
    }
}

fn play(history: &[Do]) {
    let (mut fleet, mut twin, mut model) = (Fleet::new("web"), Fleet::new("web"), Model::default());
    // One report that no random step removes the application with.
    let no_leader = Some(Some(UnitName::application()));
    let patch = ConfigPatch { external_leader: no_leader, ..ConfigPatch::default() };
    for fleet in [&mut fleet, &mut twin] {
        fleet.apply(&[
            report("web/9", "", Level::Active),
            Command::Configure(Box::new(patch.clone())),
        ]);
    }
    for step in history {
        match step {
            Do::Pass(time) => {
                let end = fleet.now + time;
                // In the order of time: what the fleet does and what a mark does.
                loop {
                    let due = fleet.state.next_due().map(|due| due.millis());
                    let other = twin.state.next_due().map(|due| due.millis());
                    let next = [due, other, model.next()].into_iter().flatten().min();
                    let Some(next) = next.filter(|next| *next <= end) else { break };
                    fleet.pass(next);
                    twin.pass(next);
                    model.pass(next);
                    model.judge(&fleet.state, next.max(fleet.now));
                }
                fleet.pass(end);
                twin.pass(end);
            }
            Do::Apply(commands) => {
                fleet.apply(commands);
                twin.apply(commands);
                for command in commands {
                    if let Command::RemoveUnit(unit) = command
                        && fleet.state.unit(unit).is_none()
                    {
                        model.remove_unit(unit);
                    }
                }
            }
            Do::Set(new) => set(&mut fleet, &mut model, new),
            Do::Unmark(id) => {
                fleet.apply(&[Command::RemoveMark(id.clone())]);
                model.0.remove(&**id);
            }
            Do::Lose(unit) => {
                if fleet.state.unit(&UnitName::new(unit).unwrap()).is_some() {
                    fleet.lose(unit);
                    twin.lose(unit);
                }
            }
            Do::Connect(unit) => {
                fleet.connect(unit);
                twin.connect(unit);
            }
            Do::Disconnect(unit) => {
                fleet.disconnect(unit);
                twin.disconnect(unit);
            }
            Do::Restart => {
                fleet.restart();
                twin.restart();
            }
        }
        model.judge(&fleet.state, fleet.now);
        compare(&fleet, &twin, &model);
    }
}

fn compare(fleet: &Fleet, twin: &Fleet, model: &Model) {
    let marks: BTreeMap<String, (bool, Option<u64>)> = fleet
        .state
        .marks()
        .iter()
        .map(|(id, mark)| (id.to_string(), (mark.begun, mark.well_since.map(Timestamp::millis))))
        .collect();
    let known = model.0.iter().map(|(id, known)| (id.clone(), (known.begun, known.well_since)));
    assert_eq!(marks, known.collect());
    let expected = expect(&fleet.state, model);
    expected.check(&fleet.state);
    let without = expect(&twin.state, &Model::default());
    without.check(&twin.state);
    assert_eq!(fleet.without(), without.level, "as a server without marks");
    assert_eq!(expected.turnout, without.turnout, "a mark changes who counts for the quorum");
    assert!(expected.level != Level::Active || without.level == Level::Active);
    let winner = expected.winner.as_ref();
    let covers = |kind: MarkKind| {
        let is = |known: &&Known| known.begun && known.kind == kind;
        let bad = winner.is_some_and(|winner| winner.level.is_unwell());
        let has = |known: &Known| winner.is_some_and(|winner| known.cover.has(&winner.key));
        bad && model.0.values().filter(is).any(has)
    };
    assert_eq!(fleet.says(|m| m.acknowledged), covers(MarkKind::Acknowledged));
    assert_eq!(fleet.says(|m| m.planned), covers(MarkKind::Planned));
    // A mark removes nothing from a count.
    let contributions = |fleet: &Fleet| fleet.state.head().summary.totals.contributions;
    assert_eq!(contributions(fleet), contributions(twin));
}

/// What an application shows by all its contributions.
struct Expected {
    level: Level,
    /// The contribution that decides; none if the leader or the lack of a quorum does.
    winner: Option<Rank>,
    /// Whether the application waits for its quorum.
    waits: bool,
    turnout: Option<Turnout>,
}

impl Expected {
    /// Compares it with the head, and with the explanation that reads the index.
    fn check(&self, state: &AppState) {
        let head = state.head();
        assert_eq!(head.summary.level, self.level);
        assert_eq!(head.turnout(), self.turnout);
        assert!(self.turnout.is_some() || head.summary.totals.active_units == 0);
        let derived = derive(state, 100).winner.map(|winner| winner.rank);
        if self.waits {
            let (rank, turnout) = (derived.unwrap(), self.turnout.unwrap());
            assert_eq!((rank.origin, rank.level), (Origin::Quorum, Level::Waiting));
            let words = (turnout.words(), turnout.reason());
            assert_eq!((head.summary.message.to_string(), &*head.summary.reason), words);
            return;
        }
        assert_eq!(derived, self.winner);
        let place = |rank: &Rank| (rank.key.unit.clone(), rank.key.component.clone());
        let shown = head.summary.winner.as_ref().filter(|_| self.winner.is_some());
        let shown = shown.map(|winner| (winner.unit.clone(), winner.component.clone()));
        assert_eq!(shown, self.winner.as_ref().map(place));
    }
}

/// Returns what an application must show: the strongest contribution by precedence and by its level
/// under planned work, if the quorum is met among those of units that count and of the application.
fn expect(state: &AppState, model: &Model) -> Expected {
    let head = state.head();
    let policy = &head.config.policy;
    let all: Vec<Rank> = state.contributions_from_scratch().into_iter().collect();
    let turnout = head.config.quorum.map(|quorum| turnout(state, quorum, &all));
    let overrides = head.application_status.as_ref().filter(|own| own.mode == Mode::Override);
    if let Some(own) = overrides {
        return Expected { level: own.level, winner: None, waits: false, turnout };
    }
    let counts = |rank: &Rank| model.counts_as(policy, rank);
    let place = |rank: &&Rank| (-i64::from(rank.precedence), policy.severity(counts(rank)));
    let mut winner = all.iter().min_by_key(place);
    let level = winner.map_or(Level::Unknown, counts);
    let is_met = turnout.is_none_or(|turnout| turnout.needed <= turnout.active);
    let is_worse = policy.severity(level) <= policy.severity(Level::Waiting);
    if !is_met && (winner.is_none() || level == Level::Active || !is_worse) {
        return Expected { level: Level::Waiting, winner: None, waits: true, turnout };
    }
    if let Some(first) = winner.filter(|_| is_met && turnout.is_some()) {
        let within = all.iter().filter(|rank| rank.precedence == first.precedence).filter(|rank| {
            let unit = &rank.key.unit;
            unit.is_application() || is_counted(state, &all, unit)
        });
        winner = within.min_by_key(place).or(winner);
    }
    let level = winner.map_or(Level::Unknown, counts);
    Expected { level, winner: winner.cloned(), waits: false, turnout }
}

/// Counts the units of an application for its quorum.
fn turnout(state: &AppState, quorum: Quorum, all: &[Rank]) -> Turnout {
    let units = || state.units_after(None).map(|(name, _)| name);
    let known = units().count() as u32;
    let active = units().filter(|name| is_counted(state, all, name)).count() as u32;
    let needed = match quorum {
        Quorum::Units(units) => units,
        // The least number of units that is this share.
        Quorum::Percent(p) => (1..).find(|needed| known * p <= needed * 100).unwrap(),
    };
    Turnout { active, known, needed }
}

/// Returns whether a unit is fresh, and active by its own levels: marks change nothing of it.
fn is_counted(state: &AppState, all: &[Rank], name: &UnitName) -> bool {
    let Some(unit) = state.unit(name) else { return false };
    let is_stale = state
        .statuses()
        .iter()
        .any(|(key, status)| key.unit == *name && (status.stale || unit.has_outlived(key, status)));
    let severity = |level| state.head().config.policy.severity(level);
    let of_unit = all.iter().filter(|rank| rank.key.unit == *name);
    let own = of_unit.min_by_key(|rank| (-i64::from(rank.precedence), severity(rank.level)));
    let is_active = own.is_some_and(|own| own.level == Level::Active);
    unit.is_believed() && unit.quiet_since.is_none() && !is_stale && is_active
}

proptest! {
    #[test]
    fn random_histories_of_marks_are_as_recomputed(history in mk_history()) {
        play(&history);
    }
}

#[test]
fn planned_work_changes_no_level_where_maintenance_is_milder_than_active() {
    let (mut fleet, hour) = (Fleet::new("web"), Until::After(Duration::from_secs(3600)));
    let mut order = Policy::Juju.order();
    order.sort_by_key(|level| *level == Level::Maintenance);
    let policy = Some(Policy::Custom(order));
    let configure = ConfigPatch { policy, ..ConfigPatch::default() };
    let quorum = ConfigPatch { quorum: Some(Some(Quorum::Units(2))), ..ConfigPatch::default() };
    fleet.apply(&[
        Command::Configure(Box::new(configure)),
        report("web/0", "", Level::Blocked),
        report("web/0", "disk", Level::Active),
        report("web/1", "", Level::Active),
        Command::SetMark(Box::new(mark("m", MarkKind::Planned, "web/0", hour))),
    ]);
    let shown = |fleet: &Fleet| fleet.state.head().summary.level;
    assert_eq!((shown(&fleet), fleet.without()), (Level::Blocked, Level::Blocked));
    assert!(fleet.says(|marks| marks.planned), "the mark is shown all the same");
    // The unit counts for a quorum by its own levels.
    fleet.apply(&[Command::Configure(Box::new(quorum))]);
    assert_eq!(fleet.state.head().turnout().unwrap().active, 1);
    assert_eq!(shown(&fleet), Level::Blocked);
}

#[test]
fn a_new_incarnation_of_a_unit_ends_the_ten_minutes_of_a_mark_of_its_component() {
    let (mut fleet, hour) = (Fleet::new("web"), Until::After(Duration::from_secs(3600)));
    fleet.apply(&[
        report("web/0", "disk", Level::Active),
        Command::SetMark(Box::new(mark("m", MarkKind::Acknowledged, "web/0 disk", hour))),
    ]);
    let well_since = |fleet: &Fleet| fleet.state.marks().get("m").unwrap().well_since;
    assert_eq!(well_since(&fleet), Some(Timestamp::new(fleet.now)));
    fleet.now += 1000;
    fleet.connect("web/0");
    assert_eq!(well_since(&fleet), None, "the status is of the incarnation before");
    fleet.now += 1000;
    fleet.apply(&[report("web/0", "disk", Level::Active)]);
    assert_eq!(well_since(&fleet), Some(Timestamp::new(fleet.now)));
}
