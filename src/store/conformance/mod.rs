//! The conformance suite: the contract of [`Store`] as tests that every backend runs.
//!
//! A backend implements [`Deployment`] in its tests, and calls each function that its kind of store
//! needs. `make` returns a new deployment, because each part of the suite begins without data. A
//! part that fails panics.
//!
//! | Function | For |
//! |---|---|
//! | [`test_all`] | every backend, on stores with one bucket |
//! | [`test_applications`] | the part of it for stores with several buckets |
//! | [`test_shared`] | stores that several processes share |
//! | [`test_link`] | stores behind a connection that breaks, see [`FaultyLink`] |
//! | [`test_failover`] | stores that may lose acknowledged writes, see [`Failover`] |
//! | [`test_clock`] | stores whose data have a clock of their own, see [`SetClock`] |
//!
//! `tests/conformance.rs` runs the suite from outside of the crate. The parts are written with
//! [`driver`], which the tests of a backend may use too.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::domain::app::Head;
use crate::domain::command::Command;
use crate::domain::level::Level;
use crate::domain::replay::Records;
use crate::domain::revision::Revision;

use super::{Applied, CommitError, ConflictCause, Retention, Store};

pub use deployment::{Deployment, Failover, FaultyLink, SetClock};

use deployment::Pair;
use driver::{Driver, Recorder, mk_app, mk_conflict, mk_report, mk_reporter, mk_status};

mod deployment;
pub mod driver;
mod ends;
mod failover;
mod faults;
pub mod full;
mod history;
mod leader;
mod link;
pub mod many;
mod operations;
mod order;
mod outage;
mod quiet;
mod replay;
mod restart;
mod shared;

/// Tests stores with one bucket: one writer orders all changes.
pub async fn test_all<D: Deployment>(make: impl AsyncFn(Retention) -> D) {
    test_applications(&make).await;
    let usual = Retention::default;
    alone(&make, usual(), order::followers_are_told_in_order_before_commit_returns).await;
    alone(&make, usual(), order::following_in_the_middle_leaves_nothing_out).await;
    let two = Retention { tombstones_max: 2, ..usual() };
    alone(&make, two, order::tombstones_are_forgotten).await;
}

/// Tests stores with any number of buckets.
pub async fn test_applications<D: Deployment>(make: impl AsyncFn(Retention) -> D) {
    let usual = Retention::default;
    alone(&make, usual(), an_unknown_application_is_empty).await;
    alone(&make, usual(), a_commit_at_another_revision_is_refused).await;
    alone(&make, usual(), a_reader_sees_whole_commits).await;
    alone(&make, usual(), order::a_deletion_leaves_a_tombstone).await;
    let none = || Retention { tombstones_max: 0, ..usual() };
    alone(&make, none(), order::no_tombstone_need_be_kept).await;
    alone(&make, none(), leader::counts_rise_after_a_tombstone_is_pruned).await;
    alone(&make, usual(), history::history_is_paged_and_outlives_its_subjects).await;
    let few = Retention { events_max: 5, own_events_max: 3, ..usual() };
    alone(&make, few, history::each_kind_of_event_is_bounded_in_number).await;
    alone(&make, usual(), history::noise_of_a_unit_evicts_no_event_of_its_application).await;
    let age = Duration::from_secs(60);
    let minute = Retention { event_age_max: age, own_event_age_max: 2 * age, ..usual() };
    alone(&make, minute, history::history_is_bounded_in_age).await;
    alone(&make, usual(), time_does_not_go_back).await;
    alone(&make, usual(), replay::writers_of_one_application_take_turns).await;
    alone(&make, usual(), replay::many_applications_at_once).await;
    alone(&make, usual(), replay::repeats_are_kept_and_told_to_nobody).await;
    alone(&make, usual(), ends::a_moved_end_is_kept_and_removes_the_status).await;
    alone(&make, usual(), replay::what_is_loaded_is_what_was_replayed).await;
    alone(&make, usual(), faults::what_is_open_is_there_after_a_reload).await;
    alone(&make, usual(), quiet::swings_are_kept_and_told_to_nobody).await;
    alone(&make, usual(), quiet::an_answer_after_a_deletion_keeps_what_outlives_it).await;
    alone(&make, usual(), operations::every_field_of_an_operation_comes_back).await;
    alone(&make, usual(), operations::a_renewed_lease_is_kept).await;
    alone(&make, usual(), operations::a_deletion_leaves_what_was_open_without_its_payload).await;
    alone(&make, usual(), leader::leadership_and_data_are_kept).await;
    alone(&make, usual(), leader::who_waits_in_line_is_not_forgotten).await;
    alone(&make, usual(), a_closed_store_takes_nothing).await;
    let one = Retention { tombstones_max: 1, ..usual() };
    restart::everything_is_there_for_the_next_process(make(one).await).await;
    outage::restarts_move_a_deadline_by_the_time_down_alone(make(usual()).await).await;
    many::sets_of_any_size_come_back(make(usual()).await).await;
}

/// Tests stores that several processes share, with any number of buckets.
pub async fn test_shared<D: Deployment>(make: impl AsyncFn(Retention) -> D) {
    let usual = Retention::default;
    together(&make, usual(), shared::each_process_has_an_id_and_beats).await;
    together(&make, usual(), shared::a_broadcast_reaches_both_after_what_was_committed).await;
    together(&make, usual(), shared::a_process_that_is_behind_is_refused_and_catches_up).await;
    together(&make, usual(), shared::a_released_application_is_the_same_for_both).await;
    together(&make, usual(), shared::two_writers_lose_nothing_and_make_one_order).await;
    together(&make, usual(), many::sets_of_two_writers_are_all_kept).await;
    let none = Retention { tombstones_max: 0, ..usual() };
    together(&make, none, shared::a_prune_reaches_both).await;
    together(&make, usual(), replay::a_request_is_answered_once).await;
    together(&make, usual(), quiet::what_was_written_quietly_is_not_undone).await;
    together(&make, usual(), ends::a_process_that_is_behind_ends_no_status).await;
    together(&make, usual(), quiet::the_first_comparison_that_fails_is_named).await;
    together(&make, usual(), operations::a_renewed_lease_is_not_overlooked).await;
    outage::restarts_beside_another_process_are_no_outage(make(usual()).await).await;
}

/// Tests shared stores whose processes may lose their connection.
pub async fn test_link<D: FaultyLink>(make: impl AsyncFn(Retention) -> D) {
    let make = async || make(Retention::default()).await;
    link::a_commit_without_an_answer_is_applied_once(make().await).await;
    link::a_process_that_was_cut_off_catches_up(make().await).await;
    outage::a_process_that_is_cut_off_judges_no_deadline(make().await).await;
}

/// Tests shared stores that may lose acknowledged writes.
pub async fn test_failover<D: Failover>(make: impl AsyncFn(Retention) -> D) {
    let make = async || make(Retention::default()).await;
    failover::a_failover_that_keeps_everything_is_no_data_loss(make().await).await;
    failover::applications_that_are_lost_leave_tombstones(make().await).await;
    failover::observers_receive_what_the_new_master_has(make().await).await;
    failover::a_lost_deletion_is_repeated_for_those_that_missed_it(make().await).await;
    failover::a_process_that_returns_late_finds_the_data_loss(make().await).await;
    failover::states_of_the_former_master_are_refused(make().await).await;
}

/// Tests shared stores whose data have a clock of their own.
pub async fn test_clock<D: SetClock>(make: impl AsyncFn(Retention) -> D) {
    outage::a_clock_that_is_set_moves_nothing(make(Retention::default()).await).await;
}

/// Runs a part of the suite as one process.
async fn alone<D: Deployment>(
    make: &impl AsyncFn(Retention) -> D,
    retention: Retention,
    part: impl AsyncFnOnce(Arc<dyn Store>),
) {
    let deployment = make(retention).await;
    part(deployment.open().await).await;
}

/// Runs a part of the suite as two processes.
async fn together<D: Deployment>(
    make: &impl AsyncFn(Retention) -> D,
    retention: Retention,
    part: impl AsyncFnOnce(Pair),
) {
    let deployment = make(retention).await;
    part([deployment.open().await, deployment.open().await]).await;
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

    let conflict = mk_conflict(Revision(1), ConflictCause::Revision);
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
                let messages = records.statuses.iter().map(|(_, s)| &*s.report.message);
                let messages: BTreeSet<&str> = messages.collect();
                // Each commit writes the revision before it into every status.
                let expected = (records.head.revision.0 - 1).to_string();
                assert_eq!(messages, BTreeSet::from([&*expected]));
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
    for refused in [web.commit(transition).await, web.confirm().await] {
        let is_refused =
            matches!(refused, Err(CommitError::Unavailable { applied: Applied::No, .. }));
        assert!(is_refused, "{refused:?}");
    }
}
