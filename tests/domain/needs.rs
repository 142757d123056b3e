//! The needs that an application states, beside a naive list of those of its contributions.

use std::sync::Arc;
use std::time::Duration;

use bellwether::domain::app::AppState;
use bellwether::domain::apply::apply;
use bellwether::domain::command::{Command, NewStatus, Request};
use bellwether::domain::draft::Draft;
use bellwether::domain::expire::expire;
use bellwether::domain::level::Level;
use bellwether::domain::limits::Limits;
use bellwether::domain::name::{AppName, PartName, UnitName};
use bellwether::domain::need::{Need, Needs};
use bellwether::domain::revision::Revision;
use bellwether::domain::stated::{STATED_NEEDS_BYTES_MAX, STATED_NEEDS_MAX};
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::{Details, Report};
use bellwether::domain::time::Timestamp;
use bellwether::domain::unit::Reporter;

/// Checks the stated needs of a state against its contributions, the strongest first.
pub fn check(state: &AppState) {
    let mut expected: Vec<(Need, String)> = Vec::new();
    for rank in state.ranked() {
        let unit = state.unit(&rank.key.unit);
        let is_believed = unit.is_none_or(|unit| unit.is_believed());
        let needs = match (&rank.fault, state.status(&rank.key)) {
            (Some(key), _) if is_believed => state.faults().get(key).map(|f| &f.needs),
            (None, Some(status)) if is_believed && is_reported(rank.origin) => {
                let is_outlived = unit.is_some_and(|unit| unit.has_outlived(&rank.key, status));
                let is_fresh = !status.stale && !is_outlived;
                Some(status.report.needs()).filter(|_| is_fresh && rank.level.is_unwell())
            }
            _ => None,
        };
        let mut needs: Vec<&Need> = needs.into_iter().flat_map(Needs::iter).collect();
        needs.sort();
        for need in needs {
            if !expected.iter().any(|(known, _)| known == need) {
                expected.push((need.clone(), rank.key.unit.to_string()));
            }
        }
    }
    let stated = state.head().needs.as_deref().cloned().unwrap_or_default();
    let count = stated.needs.len() + stated.rest_count as usize;
    let listed = stated.needs.iter();
    let listed = listed.map(|one| (one.need.clone(), one.stated_by.unit.to_string()));
    let listed: Vec<_> = listed.collect();
    assert_eq!((&listed[..], count), (&expected[..listed.len()], expected.len()));
}

fn is_reported(origin: bellwether::domain::rank::Origin) -> bool {
    matches!(origin, bellwether::domain::rank::Origin::Reported(_))
}

fn app(name: &str) -> Need {
    Need::application(AppName::new("", name).unwrap(), Vec::new())
}

fn outside(text: &str) -> Need {
    Need::Outside(text.into())
}

/// An application whose units report.
struct Bench(AppState);

impl Bench {
    fn new() -> Bench {
        let name = AppName::new("", "web").unwrap();
        Bench(AppState::empty(name, Revision::default()))
    }

    fn at(&mut self, now: u64, command: Option<Command>) {
        let (limits, before) = (Limits::default(), self.0.clone());
        let mut draft = Draft::new(&before, &limits, Timestamp::new(now));
        expire(&mut draft);
        if let Some(command) = command {
            apply(&mut draft, &Request { id: None, command }).unwrap();
        }
        self.0.replay(&draft.finish());
        check(&self.0);
    }

    fn report(&mut self, now: u64, unit: &str, level: Level, needs: Vec<Need>) {
        self.report_for(now, unit, level, needs, None);
    }

    fn report_for(
        &mut self,
        now: u64,
        unit: &str,
        level: Level,
        needs: Vec<Need>,
        ttl: Option<u64>,
    ) {
        let details = Details { needs: needs.into_iter().collect(), ..Details::default() };
        let ttl = ttl.map(Duration::from_secs);
        let report = Report { level, ttl, ..Report::default() }.with(details);
        let new = NewStatus {
            component: PartName::default(),
            key: PartName::default(),
            report: Arc::new(report),
            observe_time: None,
        };
        let reporter = Reporter::new(UnitName::new(unit).unwrap(), None);
        self.at(now, Some(Command::Report(reporter, Kind::Push, new)));
    }

    /// Returns the stated needs, each with its author and start.
    fn stated(&self) -> Vec<(Need, String, u64)> {
        let stated = self.0.head().needs.iter().flat_map(|stated| &stated.needs);
        let line = stated.map(|s| (s.need.clone(), s.stated_by.unit.to_string(), s.since.millis()));
        line.collect()
    }
}

#[test]
fn a_need_is_stated_by_the_strongest_contribution_since_it_was_stated_first() {
    let mut bench = Bench::new();
    bench.report(1, "web/1", Level::Waiting, vec![app("db"), app("db")]);
    bench.report(2, "web/0", Level::Blocked, vec![app("db"), outside("quota")]);
    let both = [(app("db"), "web/0".into(), 1), (outside("quota"), "web/0".into(), 2)];
    assert_eq!(bench.stated(), both);
    // A report that does not change the needs keeps their start.
    bench.report(3, "web/0", Level::Waiting, vec![outside("quota"), app("db")]);
    assert_eq!(bench.stated(), both);
    bench.report(4, "web/0", Level::Active, vec![app("db")]);
    assert_eq!(bench.stated(), [(app("db"), "web/1".into(), 1)]);
    bench.report(5, "web/1", Level::Active, Vec::new());
    assert_eq!(bench.stated(), []);
    assert!(bench.0.needs().contains(&of("web/0")), "a status that is well keeps its needs");
    bench.report(6, "web/0", Level::Error, vec![app("db")]);
    assert_eq!(bench.stated(), [(app("db"), "web/0".into(), 6)]);
}

fn of(unit: &str) -> bellwether::domain::stated::index::RecordKey {
    let part = PartName::default;
    let unit = UnitName::new(unit).unwrap();
    let key = bellwether::domain::status::StatusKey::new(unit, part(), part(), Kind::Push);
    bellwether::domain::stated::index::RecordKey::Status(Arc::new(key))
}

#[test]
fn a_stale_status_states_nothing_until_it_is_repeated() {
    let mut bench = Bench::new();
    bench.report_for(0, "web/0", Level::Waiting, vec![app("db")], Some(10));
    bench.at(10_000, None);
    assert_eq!(bench.stated(), []);
    bench.report_for(11_000, "web/0", Level::Waiting, vec![app("db")], Some(10));
    assert_eq!(bench.stated(), [(app("db"), "web/0".into(), 11_000)]);
    // Lost: its statuses contribute no more.
    bench.at(1_000_000, None);
    assert_eq!(bench.stated(), []);
}

#[test]
fn the_head_lists_the_first_needs_and_counts_the_others() {
    let mut bench = Bench::new();
    for unit in 0..5 {
        let needs = (0..8).map(|n| app(&format!("a{unit}-{n}"))).collect();
        bench.report(unit, &format!("web/{unit}"), Level::Waiting, needs);
    }
    let stated = bench.0.head().needs.clone().unwrap();
    assert_eq!((stated.needs.len(), stated.rest_count), (STATED_NEEDS_MAX, 8));
    let mut bench = Bench::new();
    for unit in 0..3 {
        let long = "x".repeat(250);
        let needs = (0..8).map(|n| outside(&format!("{unit}{n}{long}"))).collect();
        bench.report(unit, &format!("web/{unit}"), Level::Waiting, needs);
    }
    let stated = bench.0.head().needs.clone().unwrap();
    let bytes: usize = stated.needs.iter().map(|stated| stated.need.size()).sum();
    assert!(bytes <= STATED_NEEDS_BYTES_MAX);
    assert_eq!((stated.needs.len(), stated.rest_count), (16, 8));
}
