//! Single cases of what time alone changes.

use std::sync::Arc;

use bellwether::domain::level::Level;
use bellwether::domain::status::Kind;
use bellwether::domain::transition::Write;

use crate::case::{Case, push, time};

#[test]
fn a_status_past_its_ttl_keeps_its_times_but_that_of_its_record() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Active, Some(10)));
    let before = case.status("web/0", "", Kind::Push).unwrap();
    assert_eq!((before.since, before.update_time), (time(1), time(1)));
    case.at(15).pass();
    let after = case.status("web/0", "", Kind::Push).unwrap();
    assert!(after.stale);
    assert_eq!((after.since, after.update_time), (time(1), time(15)));
    assert_eq!((after.expire_time, after.report), (Some(time(11)), before.report));
}

/// A transition that another replica decoded has no such field.
#[test]
fn a_replayed_status_knows_the_deadline_of_its_record() {
    let mut case = Case::new();
    let mut elsewhere = case.state.clone();
    case.run(push("web/0", Level::Active, Some(10)));
    let mut transition = case.last.unwrap();
    for write in &mut transition.writes {
        if let Write::Status(_, Some(status)) = write {
            Arc::make_mut(status).expire_time_written = None;
        }
    }
    elsewhere.replay(&transition);
    assert_eq!(elsewhere, case.state);
}
