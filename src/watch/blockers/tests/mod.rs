//! Graphs of needs: small ones by name, random ones beside a naive closure, and worlds with planted
//! causes.

mod random;
mod worlds;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::domain::app::Head;
use crate::domain::level::Level;
use crate::domain::name::{PartName, UnitName};
use crate::domain::need::Need;
use crate::domain::revision::Revision;
use crate::domain::stated::{StatedBy, StatedNeed, StatedNeeds};
use crate::domain::summary::Summary;
use crate::store::{Bucket, Change, Observer, Position};
use crate::watch::{Entry, Limits};

/// The time of every evaluation. Levels and needs begin at 0 unless said otherwise.
const NOW: u64 = 60_000;

/// A fleet in words: `web waiting needs db, outside quota`.
#[derive(Debug, Default)]
struct Fleet {
    heads: BTreeMap<AppName, Head>,
    hidden: BTreeSet<AppName>,
}

fn mk_app(name: &str) -> AppName {
    let (namespace, name) = name.split_once('/').unwrap_or(("prod", name));
    AppName::new(namespace, name).unwrap()
}

fn mk_need(text: &str) -> Need {
    if let Some(words) = text.strip_prefix("outside ") {
        return Need::Outside(words.into());
    }
    let (name, levels) = text.split_once('=').unwrap_or((text, "active"));
    let levels = levels.split('|').map(level).collect();
    Need::application(mk_app(name), levels)
}

fn level(word: &str) -> Level {
    Level::ALL.into_iter().find(|level| level.word() == word).unwrap()
}

impl Fleet {
    /// Reads a fleet, one application a line: name, level, then any of `silent`, `since=SECONDS`,
    /// `hidden`, `do ACTION` and `needs NEED, NEED`.
    fn of(text: &str) -> Fleet {
        let mut fleet = Fleet::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (facts, needs) = line.split_once(" needs ").unwrap_or((line, ""));
            let (facts, action) = facts.split_once(" do ").unwrap_or((facts, ""));
            let mut words = facts.split(' ');
            let app = mk_app(words.next().unwrap());
            let mut head = Head { revision: Revision(1), ..Head::default() };
            let mut summary = Summary { level: level(words.next().unwrap()), ..Summary::default() };
            summary.action = action.into();
            for word in words {
                match word.split_once('=') {
                    Some(("since", seconds)) => {
                        summary.since = Timestamp::new(1000 * seconds.parse::<u64>().unwrap());
                    }
                    _ if word == "silent" => summary.totals.lost_units = 1,
                    _ if word == "hidden" => drop(fleet.hidden.insert(app.clone())),
                    _ => panic!("{word}"),
                }
            }
            let needs = needs.split(", ").filter(|need| !need.is_empty());
            let needs: Vec<StatedNeed> = needs.map(|need| stated(mk_need(need))).collect();
            head.needs =
                (!needs.is_empty()).then(|| Arc::new(StatedNeeds { needs, rest_count: 0 }));
            head.summary = Arc::new(summary);
            fleet.heads.insert(app, head);
        }
        fleet
    }

    fn may_read(&self, app: &AppName) -> bool {
        !self.hidden.contains(app)
    }

    fn entries(&self) -> Vec<Arc<Entry>> {
        let entry = |(app, head): (&AppName, &Head)| {
            let change = Change {
                bucket: Bucket::default(),
                position: Position(1),
                app: app.clone(),
                head: Arc::new(head.clone()),
                packed: None,
                transition: None,
            };
            let clock = crate::watch::entry::StoreClock::default();
            Arc::new(Entry::after(None, &change, clock, Instant::now()))
        };
        self.heads.iter().map(entry).collect()
    }

    fn evaluate(&self) -> Evaluation {
        let may_read = |app: &AppName| self.may_read(app);
        Evaluation::of(&self.entries(), Timestamp::new(NOW), &may_read).unwrap()
    }

    /// Lists what blocks, a line each: state, objects, frees and blocks.
    fn blockers(&self, namespace: Option<&str>) -> String {
        let evaluation = self.evaluate();
        let listing = evaluation.list(namespace.map(Arc::from));
        let mut text = String::new();
        for row in evaluation.page(&listing, 0, usize::MAX) {
            let objects: Vec<String> = row.objects.iter().map(Object::name).collect();
            let objects = objects.join(" + ");
            let Blocker { state, frees, blocks, .. } = row;
            writeln!(text, "{state:?} {objects} frees {frees} blocks {blocks}").unwrap();
        }
        match listing.self_healing {
            0 => text,
            count => text + &format!("{count} heal\n"),
        }
    }

    /// Follows the needs of one application: a line for each, indented by its depth.
    fn why(&self, app: &str) -> String {
        let entries: BTreeMap<AppName, Arc<Entry>> =
            self.entries().into_iter().map(|entry| (entry.app.clone(), entry)).collect();
        let find = |app: &AppName| entries.get(app).cloned();
        let may_read = |app: &AppName| self.may_read(app);
        let chain = Chain::of(&mk_app(app), &find, Timestamp::new(NOW), &may_read);
        let mut text = String::new();
        for line in chain.lines {
            let indent = "  ".repeat(line.depth as usize - 1);
            let (name, state) = (line.object.name(), line.state);
            let repeated = if line.is_repeated { " above" } else { "" };
            let frees = if line.frees_this { " alone" } else { "" };
            writeln!(text, "{indent}{state:?} {name}{repeated}{frees}").unwrap();
        }
        text
    }
}

fn stated(need: Need) -> StatedNeed {
    let stated_by = StatedBy {
        unit: UnitName::new("web/0").unwrap(),
        component: PartName::default(),
        key: PartName::default(),
        kind: None,
        target: "".into(),
    };
    StatedNeed { need, stated_by, since: Timestamp::new(0) }
}

#[track_caller]
fn check(fleet: &str, expected: &str) {
    let lines = expected.lines().map(str::trim).filter(|line| !line.is_empty());
    let expected: Vec<&str> = lines.collect();
    assert_eq!(Fleet::of(fleet).blockers(None).lines().collect::<Vec<_>>(), expected, "{fleet}");
}

#[test]
fn first_causes_are_listed_by_what_they_free() {
    check(
        "postgresql blocked do juju integrate postgresql s3
         web waiting needs postgresql
         shop waiting needs web
         api waiting needs postgresql, outside quota
         idle active
         gone terminated",
        "Person prod/postgresql frees 2 blocks 3
         Outside quota frees 0 blocks 1",
    );
}

#[test]
fn the_next_application_is_not_blamed_for_what_it_waits_for() {
    // A and B are pending, C waits for both: kro#1071.
    check("a maintenance\nb maintenance\nc waiting needs a, b", "2 heal");
    assert_eq!(
        Fleet::of("a maintenance\nb blocked\nc waiting needs a, b\nd waiting needs c").why("d"),
        "Waiting prod/c\n  Person prod/b\n  Busy prod/a\n",
    );
}

#[test]
fn a_circle_is_named_and_those_outside_it_are_not_harmed() {
    let fleet =
        "main waiting needs data\ndata waiting needs main\nother blocked\nweb waiting needs main
                 fine active\nx waiting needs other";
    check(
        fleet,
        "Deadlock prod/data + prod/main frees 3 blocks 3
         Person prod/other frees 1 blocks 1",
    );
    assert_eq!(
        Fleet::of(fleet).why("web"),
        "Deadlock prod/main alone\n  Deadlock prod/data alone\n    Deadlock prod/main above \
         alone\n",
    );
}

#[test]
fn a_young_circle_is_no_deadlock() {
    check("main waiting needs data\ndata waiting since=51 needs main", "1 heal");
    check(
        "main waiting needs data\ndata waiting since=50 needs main",
        "Deadlock prod/data + prod/main frees 2 blocks 2",
    );
}

#[test]
fn healthy_applications_that_name_each_other_are_in_no_list() {
    check("a active needs b\nb active needs c\nc active needs a", "");
    assert_eq!(Fleet::of("a active needs b\nb blocked").why("a"), "");
}

#[test]
fn a_need_is_met_by_one_of_its_levels_if_no_unit_is_silent() {
    check("web waiting needs dns=active|waiting\ndns waiting", "2 heal");
    check("web waiting needs dns\ndns active silent", "Silent prod/dns frees 1 blocks 1");
    check("web waiting needs dns=waiting\ndns active", "1 heal");
    assert_eq!(Fleet::of("web waiting needs dns\ndns active").why("web"), "Met prod/dns\n");
}

#[test]
fn an_object_that_is_unknown_or_over_is_a_cause() {
    check("web waiting needs bd", "NotKnown prod/bd frees 1 blocks 1");
    check("web waiting needs db\ndb unknown", "NotKnown prod/db frees 1 blocks 1");
    check("web waiting needs db\ndb terminated", "Person prod/db frees 1 blocks 1");
    check("web waiting needs db\ndb error", "Failed prod/db frees 1 blocks 1");
}

#[test]
fn an_application_with_an_action_is_a_cause_beside_what_it_needs() {
    check(
        "web waiting needs mid\nmid blocked do act needs db\ndb error",
        "Failed prod/db frees 0 blocks 2\nPerson prod/mid frees 0 blocks 1",
    );
    assert_eq!(
        Fleet::of("web waiting needs mid\nmid blocked do act needs db\ndb error").why("web"),
        "Person prod/mid\n  Failed prod/db\n",
    );
}

#[test]
fn equal_actions_of_one_namespace_are_one_row() {
    check(
        "a blocked do renew\nb blocked do renew\ninfra/c blocked do renew
         x waiting needs a, b\ny waiting needs infra/c",
        "Person infra/c frees 1 blocks 1
         Person prod/a + prod/b frees 1 blocks 1",
    );
}

#[test]
fn a_namespace_counts_its_own_applications_and_lists_causes_elsewhere() {
    let fleet = Fleet::of(
        "infra/dns blocked\nweb waiting needs infra/dns\ninfra/api waiting needs infra/dns
         infra/own error\nlab/x error",
    );
    assert_eq!(fleet.blockers(Some("prod")), "Person infra/dns frees 1 blocks 1\n");
    assert_eq!(
        fleet.blockers(Some("infra")),
        "Person infra/dns frees 1 blocks 1\nFailed infra/own frees 0 blocks 0\n",
    );
    assert_eq!(fleet.blockers(Some("nothing")), "");
}

#[test]
fn an_unreadable_application_is_a_cause_whatever_its_level() {
    for level in ["active", "blocked do act", "error silent", "waiting needs web"] {
        let fleet = format!("db {level}\nweb waiting needs db").replace(" do", " hidden do");
        let fleet = match fleet.contains("hidden") {
            true => fleet,
            false => fleet
                .replacen("db active", "db active hidden", 1)
                .replacen("db error", "db error hidden", 1)
                .replacen("db waiting", "db waiting hidden", 1),
        };
        check(&fleet, "NotReadable prod/db frees 1 blocks 1");
        assert_eq!(Fleet::of(&fleet).why("web"), "NotReadable prod/db alone\n");
    }
    // An application that does not exist looks like one that does.
    let mut fleet = Fleet::of("web waiting needs bd");
    fleet.hidden.insert(mk_app("bd"));
    assert_eq!(fleet.blockers(None), "NotReadable prod/bd frees 1 blocks 1\n");
}

#[test]
fn a_long_chain_takes_no_stack_and_is_cut() {
    let mut text = String::from("a0 blocked\n");
    for n in 1..100_000 {
        writeln!(text, "a{n} waiting needs a{}", n - 1).unwrap();
    }
    let fleet = Fleet::of(&text);
    assert_eq!(fleet.blockers(None), "Person prod/a0 frees 99999 blocks 99999\n");
    assert_eq!(fleet.why("a99999").lines().count(), 64);
}

#[test]
fn an_evaluation_of_the_hub_sees_what_the_store_has_sent() {
    let epoch = crate::store::Epoch { store_id: 1, losses: 0 };
    let hub = Hub::new(epoch, 1, false, Limits::default());
    let fleet = Fleet::of("db blocked\nweb waiting needs db");
    for (n, (app, head)) in fleet.heads.iter().enumerate() {
        hub.on_change(&Change {
            bucket: Bucket::default(),
            position: Position(n as u64 + 1),
            app: app.clone(),
            head: Arc::new(head.clone()),
            packed: None,
            transition: None,
        });
    }
    let now = Timestamp::new(NOW).after(Duration::from_secs(1));
    let evaluation = hub.evaluate(now, &|_| true).unwrap();
    assert_eq!(evaluation.list(None).len(), 1);
    assert_eq!(hub.count_causes(now), Some([1, 0, 0, 0, 0, 0]));
    assert_eq!(hub.causes(&mk_app("web"), now, &|_| true).lines.len(), 1);
}
