//! The quorum: a naive model that sorts all contributions into two lists, cases of other systems,
//! and random fleets.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether::domain::command::Command;
use bellwether::domain::derive::derive;
use bellwether::domain::leadership::Claim;
use bellwether::domain::level::Level;
use bellwether::domain::name::UnitName;
use bellwether::domain::policy::{ConfigPatch, LostUnits, Policy};
use bellwether::domain::quorum::Quorum;
use bellwether::domain::rank::Origin;
use bellwether::domain::silence::lose_unit;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Details;
use bellwether::domain::summary::Rule;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Deserialize;

use crate::case::{Case, configure, new_status, push, reporter, unit};
use crate::model::{Contribution, Model};

/// Where the quorum of the model stands.
pub struct Counted {
    pub active: u32,
    known: u32,
    needed: u32,
}

impl Counted {
    fn is_met(&self) -> bool {
        self.needed <= self.known && self.needed <= self.active
    }

    pub fn words(&self) -> String {
        let verb = if self.needed == 1 { "is" } else { "are" };
        let Counted { active, known, needed } = self;
        format!("{active} of {known} units are active, {needed} {verb} needed")
    }
}

impl Model {
    /// Counts the units for the quorum, if there is one.
    pub fn quorum(&self) -> Option<Counted> {
        let quorum = self.config.quorum?;
        let known = self.units.len() as u32;
        let active = self.units.iter().filter(|unit| self.is_counted(&unit.name)).count() as u32;
        let needed = match quorum {
            Quorum::Units(units) => units,
            // The least number of units that is this share.
            Quorum::Percent(p) => (1..).find(|n| u64::from(known * p) <= n * 100).unwrap() as u32,
        };
        Some(Counted { active, known, needed })
    }

    /// Returns whether a unit is fresh and active.
    fn is_counted(&self, name: &str) -> bool {
        let Some(unit) = self.unit(name) else { return false };
        let is_silent = !unit.is_believed() || unit.quiet_since.is_some();
        let is_stale = self.of(name).any(|status| status.stale || self.is_outlived(status));
        let all = self.contributions();
        let worst = all.iter().find(|one| one.unit == name);
        !is_silent && !is_stale && worst.is_some_and(|one| one.level == Level::Active)
    }

    /// Returns every contribution by the quorum, the strongest first.
    pub fn ordered(&self) -> Vec<Contribution> {
        let all = self.contributions();
        if !self.quorum().is_some_and(|quorum| quorum.is_met()) {
            return all;
        }
        let mut ordered = Vec::new();
        for same in all.chunk_by(|a, b| a.precedence == b.precedence) {
            let is_within = |one: &&Contribution| one.unit.is_empty() || self.is_counted(&one.unit);
            let (within, beyond): (Vec<_>, Vec<_>) = same.iter().partition(is_within);
            ordered.extend(within.into_iter().chain(beyond).cloned());
        }
        ordered
    }

    /// Returns where the quorum stands, in words, if the application waits for it.
    pub fn missed_quorum(&self) -> Option<String> {
        let missed = self.quorum().filter(|quorum| !quorum.is_met())?;
        let all = self.contributions();
        let is_worse = all.first().is_some_and(|worst| {
            worst.level != Level::Active && self.rank(worst.level) <= self.rank(Level::Waiting)
        });
        (!is_worse).then(|| missed.words())
    }

    /// Returns whether the status is another one than without the quorum.
    pub fn is_decided_by_quorum(&self) -> bool {
        self.missed_quorum().is_some() || self.ordered().first() != self.contributions().first()
    }

    /// Returns whether a contribution would beat the winner without the quorum.
    pub fn loses_by_quorum(&self, one: &Contribution) -> bool {
        let (all, ordered) = (self.contributions(), self.ordered());
        let place = |one: &Contribution| all.iter().position(|other| other == one);
        ordered.first().is_some_and(|winner| place(one) < place(winner))
    }
}

// === cases of other systems ===

#[derive(Deserialize)]
struct Cases {
    cases: Vec<Known>,
    derived: Vec<Known>,
}

#[derive(Deserialize)]
struct Known {
    id: String,
    quorum: Needed,
    units: BTreeMap<String, String>,
    #[serde(default)]
    stale: Vec<String>,
    #[serde(default)]
    lost: Vec<String>,
    application: Option<String>,
    expect: Expected,
}

#[derive(Deserialize)]
struct Needed {
    min_units: Option<u32>,
    min_percent: Option<u32>,
}

#[derive(Deserialize)]
struct Expected {
    level: String,
    unit: Option<String>,
    reason: Option<String>,
    met: bool,
    active: Option<u32>,
    known: Option<u32>,
    needed: Option<u32>,
}

fn level(word: &str) -> Level {
    Level::ALL.into_iter().find(|level| level.word() == word).unwrap()
}

fn with_quorum(quorum: Quorum) -> ConfigPatch {
    ConfigPatch { quorum: Some(Some(quorum)), ..ConfigPatch::default() }
}

/// Returns the report of a status of the application itself, while no unit leads.
fn own_status(level: Level) -> Command {
    let outside = Claim { unit: unit(""), lease_epoch: 0, decided_outside: false };
    Command::ReplaceApplicationStatuses(outside, None, vec![new_status("", level, None)])
}

impl Known {
    fn play(&self) -> Case {
        let mut case = Case::new();
        let quorum = match self.quorum {
            Needed { min_units: Some(units), .. } => Quorum::Units(units),
            Needed { min_percent, .. } => Quorum::Percent(min_percent.unwrap()),
        };
        let nobody = Some(Some(UnitName::application()));
        let patch = ConfigPatch { external_leader: nobody, ..with_quorum(quorum) };
        case.run(configure(patch));
        for (name, word) in &self.units {
            let ttl = self.stale.contains(name).then_some(1);
            case.run(push(name, level(word), ttl));
        }
        for name in &self.lost {
            case.commit(|draft| lose_unit(draft, &unit(name)));
        }
        if let Some(word) = &self.application {
            case.run(own_status(level(word)));
        }
        case.at(10).pass();
        case
    }

    fn check(&self) {
        let Known { id, expect, .. } = self;
        let case = self.play();
        let (head, derived) = (case.state.head(), derive(&case.state, 100));
        assert_eq!(head.summary.level, level(&expect.level), "{id}");
        let winner = head.summary.winner.as_ref().unwrap();
        assert_eq!(derived.winner.as_ref().unwrap().rank.key.unit, winner.unit, "{id}");
        if let Some(name) = &expect.unit {
            assert_eq!(winner.unit.as_str(), name, "{id}");
            assert_ne!(winner.origin, Origin::Quorum, "{id}");
        }
        if let Some(reason) = &expect.reason {
            assert_eq!(&*head.summary.reason, reason, "{id}");
            assert_eq!(winner.origin, Origin::Quorum, "{id}");
        }
        let turnout = head.turnout().unwrap();
        assert_eq!(turnout.is_met(), expect.met, "{id}");
        let found = [turnout.active, turnout.known, turnout.needed];
        for (found, expected) in found.into_iter().zip([expect.active, expect.known, expect.needed])
        {
            assert!(expected.is_none_or(|expected| expected == found), "{id}: {turnout:?}");
        }
    }
}

#[test]
fn fleets_of_other_systems_have_the_status_that_their_quorum_gives() {
    let cases: Cases = yaml_serde::from_str(include_str!("../data/quorum.yaml")).unwrap();
    assert_eq!((cases.cases.len(), cases.derived.len()), (21, 15));
    cases.cases.iter().chain(&cases.derived).for_each(Known::check);
}

// === random fleets ===

/// A unit: its level, whether its report is stale, whether the unit is lost, and its precedence.
type Member = (Level, bool, bool, i32);

fn member() -> impl Strategy<Value = Member> {
    let level = prop_oneof![2 => Just(Level::Active), 1 => select(Level::ALL.to_vec())];
    let rarely = || proptest::bool::weighted(0.1);
    (level, rarely(), rarely(), select(vec![0, 0, 0, 0, 0, 0, 1]))
}

/// Returns the level that a fleet has, by counting.
fn counted(
    quorum: Quorum,
    policy: &Policy,
    lost_units: LostUnits,
    own: Option<Level>,
    fleet: &[Member],
) -> Level {
    let order = policy.order();
    // Lost units: what they say is gone unless it is final, and they contribute as configured.
    let mut said: Vec<(i32, Level, bool)> = Vec::new();
    let (mut active, known) = (0, fleet.len());
    for &(level, is_stale, is_lost, precedence) in fleet {
        let is_final = matches!(level, Level::Error | Level::Terminated);
        let counts = level == Level::Active && !is_stale && !is_lost;
        active += usize::from(counts);
        if !is_lost || is_final {
            said.push((precedence, level, counts));
        }
        let instead = lost_units.level().filter(|_| is_lost);
        said.extend(instead.map(|level| (0, level, false)));
    }
    said.extend(own.map(|level| (0, level, true)));
    let enough = match quorum {
        Quorum::Units(units) => units as usize <= active,
        Quorum::Percent(percent) => known * percent as usize <= active * 100 && 0 < known,
    };
    let highest = said.iter().map(|(precedence, ..)| *precedence).max();
    let first = said.iter().filter(|(precedence, ..)| Some(*precedence) == highest);
    let levels: Vec<Level> = match enough && first.clone().any(|(.., within)| *within) {
        true => first.filter(|(.., within)| *within).map(|(_, level, _)| *level).collect(),
        false => first.map(|(_, level, _)| *level).collect(),
    };
    let worst = order.into_iter().find(|level| levels.contains(level));
    let at_least = |level: Level| {
        let milder = order.iter().skip_while(|one| **one != Level::Waiting).skip(1);
        if level == Level::Active || milder.clone().any(|one| *one == level) {
            Level::Waiting
        } else {
            level
        }
    };
    match worst {
        Some(level) if enough => level,
        worst => worst.map_or(Level::Waiting, at_least),
    }
}

fn random_fleets(cases: u32) {
    let quorum =
        prop_oneof![(1..8u32).prop_map(Quorum::Units), (1..=100u32).prop_map(Quorum::Percent)];
    let policy = select(vec![Policy::Juju, Policy::OpenStack, Policy::Strict]);
    let lost_units = select(vec![LostUnits::Ignore, LostUnits::Waiting, LostUnits::Blocked]);
    let own = proptest::option::weighted(0.2, select(Level::ALL.to_vec()));
    // Some units say something else first, so that they move into the quorum and out of it.
    let fleet = vec((member(), proptest::option::weighted(0.3, member())), 0..8);
    let given = (quorum, policy, lost_units, own, fleet, any::<bool>());
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&given, |(quorum, policy, lost_units, own, fleet, is_late)| {
        let mut case = Case::new();
        let patch = ConfigPatch {
            policy: Some(policy.clone()),
            lost_units: Some(lost_units),
            external_leader: Some(Some(UnitName::application())),
            ..ConfigPatch::default()
        };
        case.run(configure(patch));
        let begin = configure(with_quorum(quorum));
        if !is_late {
            case.run(begin.clone());
        }
        let name = |n: usize| format!("app/{n}");
        let report = |n: usize, (level, is_stale, _, precedence): Member| {
            let mut new = new_status("", level, is_stale.then_some(1));
            let details = Details { precedence, ..Details::default() };
            new.report = Arc::new((*new.report).clone().with(details));
            Command::Report(reporter(&name(n)), Kind::Push, new)
        };
        for (n, (last, first)) in fleet.iter().enumerate() {
            for said in first.iter().chain([last]) {
                case.run(report(n, *said));
            }
        }
        if let Some(level) = own {
            case.run(own_status(level));
        }
        if is_late {
            case.run(begin);
        }
        case.at(10).pass();
        for (n, _) in fleet.iter().enumerate().filter(|(_, (member, _))| member.2) {
            case.commit(|draft| lose_unit(draft, &unit(&name(n))));
        }
        let fleet: Vec<Member> = fleet.into_iter().map(|(member, _)| member).collect();
        let expected = counted(quorum, &policy, lost_units, own, &fleet);
        let head = case.state.head();
        prop_assert_eq!(head.summary.level, expected);
        // The explanation, which reads the index, has the same winner.
        let derived = derive(&case.state, 100);
        prop_assert_eq!(derived.winner.map(|winner| winner.rank.level), Some(expected));
        Ok(())
    });
    result.unwrap();
}

#[test]
fn random_fleets_have_the_level_that_counting_gives() {
    random_fleets(2_000);
}

#[test]
#[ignore = "minutes; run it after a change of the quorum"]
fn a_hundred_thousand_random_fleets_have_the_level_that_counting_gives() {
    random_fleets(100_000);
}

// === single rules ===

#[test]
fn those_beyond_a_quorum_say_why_they_lost() {
    let mut case = Case::new();
    case.run(configure(with_quorum(Quorum::Units(2))));
    for (name, level) in [
        ("app/0", Level::Error),
        ("app/1", Level::Active),
        ("app/2", Level::Active),
        ("app/3", Level::Terminated),
    ] {
        case.run(push(name, level, None));
    }
    let derived = derive(&case.state, 100);
    assert_eq!(derived.winner.unwrap().rank.key.unit.as_str(), "app/1");
    let others = derived.others.iter().map(|o| (o.rank.key.unit.as_str(), o.beaten_by.as_str()));
    let expected =
        [("app/2", "later unit"), ("app/0", "within the quorum"), ("app/3", "lower level")];
    assert_eq!(others.collect::<Vec<_>>(), expected);
    let head = case.state.head();
    let rule = head.summary.rule.words(&head.config.policy);
    assert_eq!(rule, "quorum: 2 of 4 units are active, 2 are needed");
    // Where it decides nothing, the rule is the ordinary one.
    case.run(push("app/0", Level::Active, None));
    assert!(matches!(case.state.head().summary.rule, Rule::Beat { .. }));
}

#[test]
fn an_application_that_lacks_its_quorum_has_waited_since_then() {
    let mut case = Case::new();
    case.run(configure(with_quorum(Quorum::Units(2))));
    assert_eq!(case.shown(), (Level::Waiting, "0 of 0 units are active, 2 are needed"));
    case.at(5).run(push("app/0", Level::Active, None));
    case.run(push("app/1", Level::Active, None));
    assert_eq!(case.shown().0, Level::Active);
    case.at(7).run(push("app/1", Level::Terminated, None));
    assert_eq!(case.shown(), (Level::Waiting, "1 of 2 units are active, 2 are needed"));
    let summary = case.state.head().summary.clone();
    assert_eq!((&*summary.reason, summary.since.millis()), ("QuorumNotMet", 7000));
    let derived = derive(&case.state, 100);
    assert_eq!((derived.others.len(), derived.others_count), (2, 2));
    assert!(derived.others.iter().all(|other| other.beaten_by == "the quorum is not met"));
    case.at(9).run(configure(ConfigPatch { quorum: Some(None), ..ConfigPatch::default() }));
    assert_eq!((case.shown().0, case.state.head().turnout()), (Level::Active, None));
    assert_eq!(case.state.head().summary.totals.active_units, 0);
}
