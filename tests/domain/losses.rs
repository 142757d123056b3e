//! Single cases of a loss: what an application shows before its units are marked.

use bellwether::domain::command::Command;
use bellwether::domain::data_loss::uncertain_head;
use bellwether::domain::leadership::Claim;
use bellwether::domain::leadership::status::{Mode, NewApplicationStatus};
use bellwether::domain::level::Level;
use bellwether::domain::policy::ConfigPatch;
use bellwether::domain::summary::Summary;

use crate::case::{Case, configure, push, reporter, time, unit};

/// Until the application has marked its units after a loss.
#[test]
fn the_head_after_a_loss_is_waiting_and_counts_its_units() {
    let mut case = Case::new();
    case.run(push("web/0", Level::Blocked, None));
    let before = case.state.head().clone();
    assert_eq!(before.summary.totals.units, 1);
    let shown = uncertain_head(before.clone(), 1, 0, time(9));
    let expected = Summary {
        level: Level::Waiting,
        message: "the store may have lost the last reports of its units".into(),
        reason: "Uncertain".into(),
        since: time(9),
        totals: before.summary.totals.clone(),
        ..Summary::default()
    };
    assert_eq!(*shown.summary, expected);
    // A second loss keeps the time since when it waits.
    assert_eq!(uncertain_head(shown, 2, 0, time(10)).summary.since, time(9));
    // A status of the leader in place of the units, and an application without units, stay.
    let claim = Claim { unit: unit("web/0"), lease_epoch: 1, decided_outside: false };
    case.run(Command::ClaimLeadership(reporter("web/0"), None));
    let status = NewApplicationStatus {
        mode: Mode::Override,
        level: Level::Active,
        message: "upgraded".into(),
        reason: "".into(),
        action: "".into(),
        ttl: None,
        observe_time: None,
    };
    case.run(Command::SetApplicationStatus(claim, status));
    let mut empty = Case::new();
    empty.run(configure(ConfigPatch::default()));
    for case in [case, empty] {
        let head = case.state.head().clone();
        assert_eq!(uncertain_head(head.clone(), 1, 0, time(9)).summary, head.summary);
    }
}
