//! Contributions that are equal in all but their origin or their target.

use std::sync::Arc;

use bellwether::domain::classify::finding::Class;
use bellwether::domain::command::Command;
use bellwether::domain::derive::derive;
use bellwether::domain::level::Level;
use bellwether::domain::status::Kind;

use crate::case::{Case, new_status, part, reporter};
use crate::faults::mk_error;

#[test]
fn a_push_comes_after_a_pull() {
    let mut case = Case::new();
    for kind in [Kind::Push, Kind::Pull] {
        let status = new_status("", Level::Active, None);
        case.run(Command::Report(reporter("web/0"), kind, status));
    }
    let derived = derive(&case.state, 10);
    let (kind, why) = (derived.others[0].rank.key.kind, &*derived.others[0].beaten_by);
    assert_eq!((kind, why), (Kind::Push, "push after pull"));
}

#[test]
fn two_errors_have_the_order_of_their_targets() {
    let mut case = Case::new();
    for target in ["b", "a"] {
        let (component, target) = (part("db"), Arc::from(target));
        let (reporter, error) = (reporter("web/0"), mk_error(Class::Fatal, None).into());
        case.run(Command::ReportError { reporter, component, target, error });
    }
    let derived = derive(&case.state, 10);
    assert_eq!(derived.winner.unwrap().rank.fault.unwrap().target.as_ref(), "a");
    assert_eq!(derived.others[0].beaten_by, "later target");
}
