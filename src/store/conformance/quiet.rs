//! Quiet commits are stored, and a replica that does not know them cannot undo them.

use std::sync::Arc;

use crate::domain::command::Command;
use crate::domain::level::Level;
use crate::domain::policy::{ConfigPatch, Damping, Scope};
use crate::domain::status::Kind;
use crate::store::{CommitError, ConflictCause, Store, Version};

use super::driver::{Driver, Recorder, mk_reporter, mk_status};

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

pub(super) async fn what_was_written_quietly_is_not_undone(store: Arc<dyn Store>) {
    if !store.is_shared() {
        return;
    }
    let mut web = flapping(&store).await;
    let mut other = Driver::new(&store, "web").await;
    web.run(swing(8)).await;
    let late = other.draft(swing(9));
    let (current, cause) = (web.revision(), ConflictCause::QuietCommits);
    let conflict = Err(CommitError::Conflict { current, cause });
    assert_eq!(other.commit(late).await, conflict);
    // A transition without writes is refused too, and so is one that moves the revision.
    let repeat = other.draft(swing(7));
    assert!(!repeat.is_durable());
    let version = Version::of(&other.state);
    let confirmed = store.confirm(&other.state.name, version).await;
    assert_eq!(confirmed, conflict);
    let version = Version::of(&web.state);
    assert_eq!(store.confirm(&web.state.name, version).await, Ok(()));
    assert_eq!(other.commit(repeat).await, conflict);
    let calm = other.draft(Command::Configure(Box::new(ConfigPatch {
        damping: Some(Damping::default()),
        ..ConfigPatch::default()
    })));
    assert_eq!(other.commit(calm).await, conflict);
    let mut other = Driver::new(&store, "web").await;
    other.run(swing(9)).await;
    other.check().await;

    // A deletion keeps the count, so that a transition based on an earlier count stays refused.
    other.delete().await;
    let late = web.draft(swing(10));
    assert!(matches!(web.commit(late).await, Err(CommitError::Conflict { .. })));
    let mut again = Driver::new(&store, "web").await;
    assert_eq!(again.state.head().quiet_commits, 3);
    again.run(swing(0)).await;
    again.check().await;
}
