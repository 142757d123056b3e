//! The end of a status: a repeat moves it, which every process has before it judges the end.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::command::Command;
use crate::domain::draft::Draft;
use crate::domain::expire::expire;
use crate::domain::history::Cause;
use crate::domain::level::Level;
use crate::domain::limits::Limits;
use crate::domain::status::Kind;
use crate::domain::status::report::{Details, Report};
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::store::{ConflictCause, Store};

use super::deployment::Pair;
use super::driver::{Driver, Recorder, mk_conflict, mk_reporter, mk_status};

const MINUTE: Duration = Duration::from_secs(60);

fn mk_ending() -> Command {
    let mut status = mk_status("job", Level::Waiting, "later");
    let details = Details { end_after: Some(MINUTE), since_unknown: true, ..Details::default() };
    status.report = Arc::new(Report::clone(&status.report).with(details));
    Command::Report(mk_reporter("web/0"), Kind::Push, status)
}

async fn report_at(web: &mut Driver, now: Timestamp) {
    let request = crate::domain::command::Request { id: None, command: mk_ending() };
    let transition = web.draft_requests([request], now);
    web.commit(transition).await.unwrap();
}

/// Returns the changes that are due at a moment.
fn due(web: &Driver, now: Timestamp) -> Transition {
    let limits = Limits::default();
    let mut draft = Draft::new(&web.state, &limits, now);
    expire(&mut draft);
    draft.finish()
}

pub(super) async fn a_moved_end_is_kept_and_removes_the_status(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    let recorder = Recorder::on(&store);
    let start = store.now();
    report_at(&mut web, start).await;
    let notified = recorder.notified();
    report_at(&mut web, start.after(MINUTE / 60)).await;
    assert_eq!(recorder.notified(), notified);
    let ends = start.after(MINUTE / 60).after(MINUTE);
    let records = store.load(&web.state.name).await.unwrap();
    assert_eq!(records.statuses[0].1.end_time, Some(ends));
    assert!(records.statuses[0].1.report.details().since_unknown);
    assert_eq!(records.head.next_due, Some(ends));
    web.check().await;

    let mut web = Driver::new(&store, "web").await;
    assert!(!due(&web, start.after(MINUTE)).is_durable());
    let over = due(&web, ends);
    web.commit(over).await.unwrap();
    web.check().await;
    assert_eq!(recorder.last("web"), Some((web.revision().0, false)));
    let records = store.load(&web.state.name).await.unwrap();
    assert_eq!((records.statuses.len(), records.head.next_due), (0, None));
    assert_eq!(web.state.head().summary.level, Level::Unknown);
    let events = web.events().await;
    let causes: Vec<Cause> = events.iter().map(|event| event.event.cause).collect();
    assert!(causes.contains(&Cause::Ended), "{causes:?}");
}

pub(super) async fn a_process_that_is_behind_ends_no_status([one, other]: Pair) {
    let mut web = Driver::new(&one, "web").await;
    let start = one.now();
    report_at(&mut web, start).await;
    let mut behind = Driver::new(&other, "web").await;
    report_at(&mut web, start.after(MINUTE / 2)).await;
    let early = due(&behind, start.after(MINUTE));
    assert!(early.moves_revision());
    let conflict = mk_conflict(web.revision(), ConflictCause::QuietCommits);
    assert_eq!(behind.commit(early).await, conflict);
    let mut behind = Driver::new(&other, "web").await;
    assert!(!due(&behind, start.after(MINUTE)).is_durable());
    let over = due(&behind, start.after(MINUTE / 2).after(MINUTE));
    behind.commit(over).await.unwrap();
    behind.check().await;
}
