//! The conformance suite: what every store must guarantee, as functions over any store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::app::Head;
use crate::domain::command::Command;
use crate::domain::level::Level;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;

use super::{CommitError, ConflictCause, Retention, Store};

use driver::{Driver, Recorder, mk_app, mk_report, mk_reporter, mk_status};

pub mod driver;
mod faults;
pub mod full;
mod history;
mod leader;
mod operations;
mod order;
mod quiet;
mod replay;

/// Runs the tests for stores that other processes may commit to, in addition to the others.
pub async fn test_shared(make: impl Fn(Retention) -> Arc<dyn Store>) {
    replay::a_request_is_answered_once(make(Retention::default())).await;
}

/// Runs the whole suite, each part on a store of its own with one bucket.
pub async fn test_all(make: impl Fn(Retention) -> Arc<dyn Store>) {
    test_applications(&make).await;
    let usual = || make(Retention::default());
    order::followers_are_told_in_order_before_commit_returns(usual()).await;
    order::following_in_the_middle_leaves_nothing_out(usual()).await;
    order::tombstones_are_forgotten(make(Retention { tombstones_max: 2, ..Retention::default() }))
        .await;
}

/// Runs the tests for stores with any number of buckets.
pub async fn test_applications(make: impl Fn(Retention) -> Arc<dyn Store>) {
    let usual = || make(Retention::default());
    an_unknown_application_is_empty(usual()).await;
    a_commit_at_another_revision_is_refused(usual()).await;
    a_reader_sees_whole_commits(usual()).await;
    order::a_deletion_leaves_a_tombstone(usual()).await;
    order::no_tombstone_need_be_kept(make(Retention { tombstones_max: 0, ..Retention::default() }))
        .await;
    history::history_is_paged_and_outlives_its_subjects(usual()).await;
    history::history_is_bounded_in_number(make(Retention {
        events_max: 5,
        ..Retention::default()
    }))
    .await;
    history::history_is_bounded_in_age(make(Retention {
        event_age_max: Duration::from_secs(60),
        ..Retention::default()
    }))
    .await;
    time_does_not_go_back(usual()).await;
    replay::writers_of_one_application_take_turns(usual()).await;
    replay::many_applications_at_once(usual()).await;
    replay::repeats_are_kept_and_told_to_nobody(usual()).await;
    replay::what_is_loaded_is_what_was_replayed(usual()).await;
    faults::what_is_open_is_there_after_a_reload(usual()).await;
    quiet::swings_are_kept_and_told_to_nobody(usual()).await;
    quiet::what_was_written_quietly_is_not_undone(usual()).await;
    operations::every_field_of_an_operation_comes_back(usual()).await;
    operations::a_renewed_lease_is_kept_and_not_overlooked(usual()).await;
    operations::a_deletion_leaves_what_was_open_without_its_payload(usual()).await;
    leader::leadership_and_data_are_kept(usual()).await;
    leader::who_waits_in_line_is_not_forgotten(usual()).await;
    a_closed_store_takes_nothing(usual()).await;
}

async fn an_unknown_application_is_empty(store: Arc<dyn Store>) {
    let records = store.load(&mk_app("nobody")).await.unwrap();
    let empty = Records::of_head(Head::empty(Revision(0)));
    assert_eq!(records, empty);
    let events = store.events(&mk_app("nobody"), None, 10).await.unwrap();
    assert!(events.is_empty());
    let recorder = Recorder::on(&store);
    assert_eq!(recorder.notified(), []);
    assert_eq!(store.health(), Ok(()));
}

async fn a_commit_at_another_revision_is_refused(store: Arc<dyn Store>) {
    let mut first = Driver::new(&store, "web").await;
    let mut second = Driver::new(&store, "web").await;
    first.report("web/0", "one").await;
    let recorder = Recorder::on(&store);
    let before = (recorder.notified(), first.events().await);

    let cause = ConflictCause::Revision;
    let conflict = Err(CommitError::Conflict { current: Revision(1), cause });
    let late = second.draft(mk_report("web/1", "late"));
    assert_eq!(second.commit(late).await, conflict);
    let mut early = first.draft(mk_report("web/1", "early"));
    early.base = Revision(7);
    assert_eq!(store.commit(Arc::new(early)).await, conflict);
    let nothing_to_write = second.draft_all([]);
    assert!(!nothing_to_write.is_durable());
    assert_eq!(second.commit(nothing_to_write).await, conflict);
    assert_eq!(first.commit(first.draft_all([])).await, Ok(()));

    assert_eq!((recorder.notified(), first.events().await), before);
    first.check().await;
}

async fn a_reader_sees_whole_commits(store: Arc<dyn Store>) {
    let mut writer = Driver::new(&store, "web").await;
    writer.report("web/0", "0").await;
    let reading = tokio::spawn({
        let store = store.clone();
        async move {
            for _ in 0..50 {
                let records = store.load(&mk_app("web")).await.unwrap();
                let said = records.statuses.iter().map(|(_, s)| &*s.report.message);
                let said: BTreeSet<&str> = said.collect();
                // Each commit writes the revision before it into every status.
                let expected = (records.head.revision.0 - 1).to_string();
                assert_eq!(said, BTreeSet::from([&*expected]));
            }
        }
    });
    for n in 1..50 {
        let message = n.to_string();
        let set = ["a", "b", "c"].map(|part| mk_status(part, Level::Active, &message));
        let pull = Command::Replace(mk_reporter("web/1"), None, set.to_vec());
        let both = writer.draft_all([mk_report("web/0", &message), pull]);
        writer.commit(both).await.unwrap();
    }
    reading.await.unwrap();
    writer.check().await;
}

async fn time_does_not_go_back(store: Arc<dyn Store>) {
    let readers = (0..4).map(|_| {
        let store = store.clone();
        std::thread::spawn(move || {
            let times: Vec<_> = (0..1000).map(|_| store.now()).collect();
            assert!(times.is_sorted());
            times.last().copied()
        })
    });
    let latest = readers.collect::<Vec<_>>().into_iter();
    let latest = latest.map(|reader| reader.join().unwrap()).max().unwrap();
    assert!(latest <= Some(store.now()));
}

async fn a_closed_store_takes_nothing(store: Arc<dyn Store>) {
    let mut web = Driver::new(&store, "web").await;
    web.report("web/0", "one").await;
    let transition = web.draft(mk_report("web/0", "two"));
    store.close().await;
    store.close().await;
    assert!(store.health().is_err());
    let refused = web.commit(transition).await;
    assert!(matches!(refused, Err(CommitError::Unavailable { .. })), "{refused:?}");
}
