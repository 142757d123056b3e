//! Quiet commits are stored, and a process that does not know them cannot undo them.

use std::sync::Arc;

use crate::domain::command::{Command, Request};
use crate::domain::level::Level;
use crate::domain::policy::{ConfigPatch, Damping, Scope};
use crate::domain::status::Kind;
use crate::domain::transition::Transition;
use crate::store::{CommitError, ConflictCause, Store};

use super::deployment::Pair;
use super::driver::{Driver, Recorder, mk_conflict, mk_report, mk_reporter, mk_status};

fn configure() -> Command {
    Command::Configure(Box::new(ConfigPatch {
        damping: Some(Damping { scopes: vec![Scope::All], ..Damping::default() }),
        ..ConfigPatch::default()
    }))
}

fn swing(n: usize) -> Command {
    let (level, message) = [(Level::Active, "up"), (Level::Blocked, "down")][n % 2];
    Command::Report(mk_reporter("web/0"), Kind::Push, mk_status("db", level, message))
}

/// Returns a client of a flapping application.
async fn flapping(store: &Arc<dyn Store>) -> Driver {
    let mut web = Driver::new(store, "web").await;
    web.run(configure()).await;
    for n in 0..8 {
        web.run(swing(n)).await;
    }
    assert_eq!(web.state.head().summary.totals.flapping, 1);
    web
}

pub(super) async fn swings_are_kept_and_told_to_nobody(store: Arc<dyn Store>) {
    let mut web = flapping(&store).await;
    let recorder = Recorder::on(&store);
    let (notified, revision) = (recorder.notified(), web.revision());
    for n in 8..17 {
        web.run(swing(n)).await;
        web.check().await;
    }
    assert_eq!(recorder.notified(), notified);
    assert_eq!(web.revision(), revision);
    // One quiet commit happened before, after the flapping had begun.
    assert_eq!(web.state.head().quiet_commits, 1 + 9);
    let first = web.state.ranked().next().unwrap().key.clone();
    let stored = web.reload().await;
    let status = stored.status(&first).unwrap();
    let words = (&*status.report.message, &*status.latest().unwrap().message);
    assert_eq!(words, ("down", "up"));
}

pub(super) async fn what_was_written_quietly_is_not_undone([one, other]: Pair) {
    let mut web = flapping(&one).await;
    let mut behind = Driver::new(&other, "web").await;
    web.run(swing(8)).await;
    let conflict = mk_conflict(web.revision(), ConflictCause::QuietCommits);
    let late = behind.draft(swing(9));
    assert_eq!(behind.commit(late).await, conflict);
    // A transition without writes is refused too, and so is one that moves the revision.
    let repeat = behind.draft(swing(7));
    assert!(!repeat.is_durable());
    assert_eq!(behind.confirm().await, conflict);
    assert_eq!(web.confirm().await, Ok(()));
    assert_eq!(behind.commit(repeat).await, conflict);
    let calm = behind.draft(Command::Configure(Box::new(ConfigPatch {
        damping: Some(Damping::default()),
        ..ConfigPatch::default()
    })));
    assert_eq!(behind.commit(calm).await, conflict);
    let mut behind = Driver::new(&other, "web").await;
    behind.run(swing(9)).await;
    behind.check().await;

    // A deletion keeps the count, so that a transition based on an earlier count stays refused.
    behind.delete().await;
    let late = web.draft(swing(10));
    assert!(matches!(web.commit(late).await, Err(CommitError::Conflict { .. })));
    let mut again = Driver::new(&one, "web").await;
    assert_eq!(again.state.head().quiet_commits, 3);
    again.run(swing(0)).await;
    again.check().await;
}

pub(super) async fn an_answer_after_a_deletion_keeps_what_outlives_it(store: Arc<dyn Store>) {
    let request = |id: &str, command| [Request { id: Some(id.into()), command }];
    let mut web = Driver::new(&store, "web").await;
    let first = web.draft_requests(request("first", mk_report("web/0", "here")), store.now());
    web.commit(first).await.unwrap();
    web.delete().await;
    let resolve = Command::ResolveError {
        reporter: mk_reporter("web/0"),
        component: None,
        target: None,
        generation: String::new().into(),
    };
    let second = web.draft_requests(request("second", resolve), store.now());
    assert!(second.is_durable() && !second.moves_revision() && second.head.deleted);
    web.commit(second).await.unwrap();
    let records = store.load(&web.state.name).await.unwrap();
    let mut ids: Vec<&str> = records.requests.iter().map(|(id, _)| &**id).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["first", "second"]);
    web.check().await;
}

/// One process answers a request, makes a quiet commit, and moves the revision. With each step one
/// more comparison fails for the other one.
pub(super) async fn the_first_comparison_that_fails_is_named([one, other]: Pair) {
    let ask = |n| [Request { id: Some("once".into()), command: swing(n) }];
    let mut web = flapping(&one).await;
    let behind = Driver::new(&other, "web").await;
    let mut late = behind.draft_requests(ask(8), other.now());
    let repeat = web.draft_requests(ask(7), one.now());
    assert!(repeat.is_durable() && !repeat.moves_revision());
    web.commit(repeat).await.unwrap();
    let refuse = async |late: &Transition| other.commit(Arc::new(late.clone())).await;
    let revision = web.revision();
    assert_eq!(refuse(&late).await, mk_conflict(revision, ConflictCause::Request));
    web.run(swing(8)).await;
    assert_eq!(refuse(&late).await, mk_conflict(revision, ConflictCause::QuietCommits));
    web.report("web/1", "here").await;
    assert_eq!(refuse(&late).await, mk_conflict(revision.next(), ConflictCause::Revision));
    late.epoch_floor += 1;
    assert_eq!(refuse(&late).await, mk_conflict(revision.next(), ConflictCause::Master));

    assert_eq!(one.epoch_floor(&web.state.name), other.epoch_floor(&web.state.name));
    assert_eq!(web.state.epoch_floor, one.epoch_floor(&web.state.name));
    let mut elsewhere = Driver::new(&other, "web").await;
    elsewhere.state.epoch_floor += 1;
    assert_eq!(elsewhere.confirm().await, mk_conflict(revision.next(), ConflictCause::Master));
    web.check().await;
}
