//! Uptime: histories of another system, and random ones beside a model that looks at each second.

use std::time::Duration;

use bellwether::domain::level::Level;
use bellwether::domain::time::Timestamp;
use bellwether::domain::uptime::span::Span;
use bellwether::domain::uptime::{LevelChange, Timeline, uptime};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::Deserialize;

use crate::case::time;

#[derive(Deserialize)]
struct Scenarios {
    scenarios: Vec<Scenario>,
    derived: Vec<Scenario>,
}

#[derive(Deserialize)]
struct Scenario {
    id: String,
    events: Vec<Event>,
    current: Option<String>,
    planned: Vec<Range>,
    range: Range,
    expect: Expected,
}

#[derive(Deserialize)]
struct Event {
    at: u64,
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct Range {
    start: u64,
    end: u64,
}

#[derive(Deserialize)]
struct Expected {
    percent: Option<f64>,
    well: u64,
    not_well: u64,
    planned: u64,
    unknown: u64,
}

fn level(word: &str) -> Option<Level> {
    Level::ALL.into_iter().find(|level| level.word() == word)
}

fn span(start: u64, end: u64) -> Span {
    Span { start: time(start), end: time(end) }
}

fn check(scenario: &Scenario) {
    let Scenario { id, range, expect, .. } = scenario;
    let changes = scenario.events.iter();
    let changes =
        changes.map(|e| LevelChange { at: time(e.at), from: level(&e.from), to: level(&e.to) });
    let timeline = Timeline {
        changes: changes.collect(),
        current: scenario.current.as_deref().and_then(level),
        planned: scenario.planned.iter().map(|p| span(p.start, p.end)).collect(),
        ..Timeline::default()
    };
    let found = uptime(span(range.start, range.end), &timeline, &[]);
    let seconds = [found.well, found.not_well, found.planned, found.unknown()];
    let expected = [expect.well, expect.not_well, expect.planned, expect.unknown];
    assert_eq!(seconds.map(|length| length.as_secs()), expected, "{id}");
    match (found.percent(), expect.percent) {
        (Some(found), Some(expected)) => assert!((found - expected).abs() < 0.000_05, "{id}"),
        (found, expected) => assert_eq!(found, expected, "{id}"),
    }
}

#[test]
fn histories_of_another_system_have_the_uptime_that_the_rules_give() {
    let known: Scenarios = yaml_serde::from_str(include_str!("../data/uptime.yaml")).unwrap();
    assert_eq!((known.scenarios.len(), known.derived.len()), (16, 7));
    known.scenarios.iter().chain(&known.derived).for_each(check);
}

/// What one second counts as.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Second {
    Planned,
    Unknown,
    Well,
    NotWell,
}

fn spans() -> impl Strategy<Value = Vec<(u64, u64)>> {
    vec((0..60u64, 0..15u64), 0..4).prop_map(|given| {
        given.into_iter().map(|(start, length)| (start, start + length)).collect()
    })
}

fn within(spans: &[(u64, u64)], second: u64) -> bool {
    spans.iter().any(|(start, end)| (*start..*end).contains(&second))
}

/// Returns the level in one second.
fn level_in(changes: &[LevelChange], current: Option<Level>, second: u64) -> Option<Level> {
    let known = |level: Option<Level>| level.filter(|level| *level != Level::Unknown);
    let (before, after): (Vec<&LevelChange>, Vec<&LevelChange>) =
        changes.iter().partition(|change| change.at <= time(second));
    match (before.last(), after.first()) {
        (_, Some(next)) if known(next.from).is_none() => None,
        (Some(last), _) => known(last.to),
        (None, Some(next)) => known(next.from),
        (None, None) => known(current),
    }
}

proptest! {
    #[test]
    fn each_second_counts_as_one_thing(
        given in vec((0..60u64, select(Level::ALL.to_vec()), select(Level::ALL.to_vec())), 0..8),
        current in select(Level::ALL.to_vec()),
        planned in spans(), silent in spans(), uncertain in spans(),
        known_since in 0..20u64,
        (start, length) in (0..40u64, 1..30u64),
        serves in any::<bool>(),
    ) {
        let mut given = given;
        given.sort_by_key(|(at, ..)| *at);
        let changes = given.iter();
        let changes: Vec<LevelChange> = changes
            .map(|(at, from, to)| LevelChange { at: time(*at), from: Some(*from), to: Some(*to) })
            .collect();
        let all = |given: &[(u64, u64)]| given.iter().map(|(a, b)| span(*a, *b)).collect();
        let timeline = Timeline {
            changes: changes.clone(),
            current: Some(current),
            known_since: time(known_since),
            planned: all(&planned),
            silent: all(&silent),
            uncertain: all(&uncertain),
        };
        let serving = if serves { vec![Level::Waiting] } else { Vec::new() };
        let found = uptime(span(start, start + length), &timeline, &serving);
        let judged = (start..start + length).map(|second| {
            if within(&planned, second) {
                return Second::Planned;
            }
            let is_known = known_since <= second && !within(&uncertain, second);
            match level_in(&changes, Some(current), second).filter(|_| is_known) {
                None => Second::Unknown,
                Some(level) if level != Level::Unknown && within(&silent, second) => {
                    Second::NotWell
                }
                Some(Level::Active | Level::Terminated) => Second::Well,
                Some(Level::Waiting) if serves => Second::Well,
                Some(_) => Second::NotWell,
            }
        });
        let judged: Vec<Second> = judged.collect();
        let count = |part| judged.iter().filter(|second| **second == part).count() as u64;
        let parts = [Second::Well, Second::NotWell, Second::Planned, Second::Unknown].map(count);
        let lengths = [found.well, found.not_well, found.planned, found.unknown()];
        prop_assert_eq!(lengths.map(|length| length.as_secs()), parts);
        let episodes = judged.chunk_by(|a, b| a == b).filter(|same| same[0] == Second::NotWell);
        let episodes: Vec<u64> = episodes.map(|same| same.len() as u64).collect();
        prop_assert_eq!(found.episodes as usize, episodes.len());
        let longest = episodes.into_iter().max().unwrap_or_default();
        prop_assert_eq!(found.longest, Duration::from_secs(longest));
        let outside: Duration = found.levels.iter().sum();
        prop_assert_eq!(outside + found.planned, Duration::from_secs(length));
        prop_assert!(found.silent <= found.not_well);
    }
}

#[test]
fn a_range_without_any_event_is_unknown() {
    let range = Span { start: Timestamp::new(0), end: Timestamp::new(u64::MAX) };
    let found = uptime(range, &Timeline::default(), &[]);
    assert_eq!((found.unknown(), found.percent()), (range.end.since(range.start), None));
}
