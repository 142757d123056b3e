//! A status that ends: its end counts the time in which a replica can act, and a unit without a
//! status that has a ttl is not silent.

use std::sync::Arc;

use bellwether::domain::command::Command;
use bellwether::domain::level::Level;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::{Details, Report};

use crate::case::{Case, push, seconds, time, unit};
use crate::outages::outages;

/// A pushed status with a ttl, or without one, that ends after so many seconds.
fn ending(of: &str, ttl: Option<u64>, after: u64) -> Command {
    let Command::Report(reporter, kind, mut new) = push(of, Level::Waiting, ttl) else {
        panic!("no report");
    };
    let details = Details { end_after: Some(seconds(after)), ..Details::default() };
    new.report = Arc::new(Report::clone(&new.report).with(details));
    Command::Report(reporter, kind, new)
}

fn is_there(case: &Case) -> bool {
    case.status("web/0", "", Kind::Push).is_some()
}

#[test]
fn an_end_moves_by_an_outage_and_by_no_more() {
    let mut case = Case::new();
    case.ask(ending("web/0", None, 60)).unwrap();
    let begin = case.now;
    case.state.note_outages(&outages(begin + 10, begin + 110));
    case.now = begin + 159;
    case.pass();
    assert!(is_there(&case));
    let status = case.status("web/0", "", Kind::Push).unwrap();
    assert_eq!(case.state.deadlines().of_end(&status), Some(time(begin + 160)));
    case.now = begin + 160;
    case.pass();
    assert!(!is_there(&case));
}

#[test]
fn a_unit_whose_last_ttl_ended_is_not_silent() {
    let mut case = Case::new();
    case.ask(ending("web/0", Some(10), 60)).unwrap();
    let begin = case.now;
    case.now = begin + 10;
    case.pass();
    assert!(case.state.unit(&unit("web/0")).unwrap().silence_ends.is_some());
    case.now = begin + 60;
    case.pass();
    assert_eq!(case.state.unit(&unit("web/0")).unwrap().silence_ends, None);
    assert_eq!(case.state.next_due(), None);
    assert_eq!(case.state.head().summary.level, Level::Unknown);
}

/// Other replicas may have taken repeats of a ttl that they did not write. They write each one of
/// an end.
#[test]
fn a_restart_allows_for_no_repeats_of_a_status_that_ends() {
    let mut case = Case::new();
    case.ask(ending("web/0", Some(30), 60)).unwrap();
    let begin = case.now;
    case.state.allow_for_repeats();
    let status = case.status("web/0", "", Kind::Push).unwrap();
    assert_eq!(status.expire_time, Some(time(begin + 30)));
    assert_eq!(status.end_time, Some(time(begin + 60)));
}
