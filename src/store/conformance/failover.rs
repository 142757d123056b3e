//! Tests of a store whose master is replaced, by one that may lack acknowledged writes.

use std::sync::Arc;

use crate::domain::command::Command;
use crate::domain::name::UnitName;
use crate::store::{CommitError, ConflictCause, Epoch, Store, Takeover};

use super::deployment::Failover;
use super::driver::{
    Driver, Record, Recorder, insist, mk_app, mk_conflict, mk_report, mk_reporter, until,
};
use super::leader::claim;

fn step_back(unit: &str) -> Command {
    Command::StepBack(mk_reporter(unit))
}

/// Loads an application as soon as the store works again.
async fn recovered(store: &Arc<dyn Store>, name: &str) -> Driver {
    until("the store works", async || {
        store.load(&mk_app(name)).await.is_ok() && store.health().is_ok()
    })
    .await;
    Driver::new(store, name).await
}

/// Asks until the store answers.
async fn answer(mut ask: impl AsyncFnMut() -> Result<(), CommitError>) -> Result<(), CommitError> {
    let mut answered = Ok(());
    until("the store answers", async || {
        answered = ask().await;
        !matches!(answered, Err(CommitError::Unavailable { .. }))
    })
    .await;
    answered
}

pub(super) async fn a_failover_that_keeps_everything_is_no_data_loss(deployment: impl Failover) {
    let store = deployment.open().await;
    let recorder = Recorder::on(&store);
    let epoch = store.epoch();
    insist(&store, "web", "before").await;
    deployment.secure().await;
    deployment.fail_over().await;
    insist(&store, "web", "after").await;
    assert_eq!(recorder.last("web"), Some((2, false)));
    let record = recorder.record();
    assert_eq!((record.changes.len(), record.data_losses), (2, vec![]));
    assert_eq!(store.epoch(), epoch);
}

pub(super) async fn applications_that_are_lost_leave_tombstones(deployment: impl Failover) {
    let stores = [deployment.open().await, deployment.open().await];
    let recorders = [Recorder::on(&stores[0]), Recorder::on(&stores[1])];
    for n in 0..10 {
        insist(&stores[n % 2], &format!("app-{n}"), "here").await;
    }
    let expected = Epoch { losses: 1, ..stores[0].epoch() };
    deployment.fail_over().await;
    for (store, recorder) in stores.iter().zip(&recorders) {
        until("the tombstones arrive", async || {
            (0..10).all(|n| matches!(recorder.last(&format!("app-{n}")), Some((2.., true))))
        })
        .await;
        until("the data loss arrives", async || !recorder.record().data_losses.is_empty()).await;
        assert_eq!(store.epoch(), expected);
        assert!(recorder.record().data_losses.iter().all(|(_, epoch)| *epoch == expected));
        recorder.check_order();
    }
    // Revisions continue, so that none names two states.
    let again = insist(&stores[0], "app-3", "again").await;
    assert!(2 < again.revision().0);
    until("the other process has it", async || {
        recorders[1].last("app-3") == Some((again.revision().0, false))
    })
    .await;
    again.check().await;
    // The loss is counted only once.
    let third = deployment.open().await;
    assert_eq!([&stores[0], &stores[1], &third].map(|store| store.epoch()), [expected; 3]);
    // The processes that found the loss may end before their observers have handled it.
    let late = Recorder::on(&third).record().data_losses;
    assert!(!late.is_empty() && late.iter().all(|(_, epoch)| *epoch == expected), "{late:?}");
}

pub(super) async fn observers_receive_what_the_new_master_has(deployment: impl Failover) {
    let stores = [deployment.open().await, deployment.open().await];
    let recorders = [Recorder::on(&stores[0]), Recorder::on(&stores[1])];
    insist(&stores[0], "kept", "one").await;
    insist(&stores[0], "changed", "one").await;
    let mut gone = insist(&stores[0], "revived", "one").await;
    deployment.secure().await;
    insist(&stores[0], "changed", "two").await;
    insist(&stores[0], "new", "one").await;
    gone.delete().await;
    deployment.fail_over().await;
    for (store, recorder) in stores.iter().zip(&recorders) {
        until("what was lost arrives", async || {
            matches!(recorder.last("changed"), Some((3.., false)))
                && matches!(recorder.last("new"), Some((2.., true)))
                && matches!(recorder.last("revived"), Some((3.., false)))
        })
        .await;
        until("the data loss arrives", async || !recorder.record().data_losses.is_empty()).await;
        assert_eq!(recorder.last("kept"), Some((1, false)));
        assert_eq!(store.epoch().losses, 1);
        recorder.check_order();
    }
    let changed = recovered(&stores[1], "changed").await;
    let unit = UnitName::new("u/0").unwrap();
    let (_, status) = changed.state.statuses().of(&unit, None).next().unwrap();
    assert_eq!(&*status.report.message, "one");
    insist(&stores[1], "changed", "three").await.check().await;
}

/// One process has read an application and its deletion, the other one the application alone.
pub(super) async fn a_lost_deletion_is_repeated_for_those_that_missed_it(
    deployment: impl Failover,
) {
    let (near, far) = (deployment.open().await, deployment.open_linked().await);
    let recorders = [Recorder::on(&near), Recorder::on(&far)];
    let mut web = insist(&near, "web", "one").await;
    until("the far process has it", async || recorders[1].last("web") == Some((1, false))).await;
    deployment.cut();
    web.delete().await;
    deployment.fail_over().await;
    until("the loss arrives", async || !recorders[0].record().data_losses.is_empty()).await;
    deployment.heal();
    until("both have a tombstone after the deletion", async || {
        recorders.iter().all(|recorder| matches!(recorder.last("web"), Some((3.., true))))
    })
    .await;
    let again = insist(&far, "web", "again").await;
    assert!(3 < again.revision().0);
    recorders.iter().for_each(|recorder| recorder.check_order());
}

/// Another process commits on the new master before the one that knows the lost writes returns.
pub(super) async fn a_process_that_returns_late_finds_the_data_loss(deployment: impl Failover) {
    let (near, far) = (deployment.open().await, deployment.open_linked().await);
    let recorder = Recorder::on(&far);
    insist(&near, "web", "one").await;
    let lost = insist(&near, "web", "two").await;
    until("the far process has it", async || recorder.last("web") == Some((2, false))).await;
    deployment.cut();
    near.close().await;
    deployment.fail_over().await;
    // This process does not know the lost writes, and commits as many.
    let fresh = deployment.open().await;
    insist(&fresh, "web", "three").await;
    let other = insist(&fresh, "web", "four").await;
    assert_eq!(other.revision(), lost.revision());
    let lost = Driver { store: far.clone(), state: lost.state };
    deployment.heal();
    // Also before the two masters are compared.
    let confirmed = answer(async || lost.confirm().await).await;
    assert!(matches!(confirmed, Err(CommitError::Conflict { .. })), "{confirmed:?}");
    insist(&fresh, "web", "five").await;
    until("the data loss arrives", async || {
        !recorder.record().data_losses.is_empty()
            && matches!(recorder.last("web"), Some((3.., false)))
    })
    .await;
    recorder.check_order();
    until("both count the data loss", async || fresh.epoch() == far.epoch()).await;
    let web = recovered(&far, "web").await;
    assert_eq!(recorder.last("web"), Some((web.revision().0, false)));
    let confirmed = lost.confirm().await;
    assert!(matches!(confirmed, Err(CommitError::Conflict { .. })), "{confirmed:?}");
}

/// No data is lost, but a process cannot know that before it has compared the two masters.
pub(super) async fn states_of_the_former_master_are_refused(deployment: impl Failover) {
    let mut stores = vec![deployment.open().await, deployment.open().await];
    let recorders = [Recorder::on(&stores[0]), Recorder::on(&stores[1])];
    let mut web = Driver::new(&stores[0], "web").await;
    web.report("web/0", "up").await;
    web.run(claim("web/0")).await;
    let given = web.state.head().lease_epoch;
    let before = Recorder::on(&stores[0]).record().changes.pop().expect("web was reported");
    deployment.secure().await;
    deployment.fail_over().await;
    let conflict = mk_conflict(web.revision(), ConflictCause::Master);
    assert_eq!(answer(async || web.confirm().await).await, conflict);
    for late in [mk_report("web/0", "still up"), step_back("web/0")] {
        let late = Arc::new(web.draft(late));
        assert_eq!(answer(async || stores[0].commit(late.clone()).await).await, conflict);
    }

    // All processes continue above one floor, which rises once for each master.
    stores.push(deployment.open().await);
    let mut last = None;
    for store in stores.iter().chain(&stores) {
        let mut web = recovered(store, "web").await;
        let floor = store.epoch_floor(&web.state.name);
        assert!(given < floor, "{given} was given before {floor}");
        web.run(step_back("web/0")).await;
        web.run(claim("web/0")).await;
        let epoch = web.state.head().lease_epoch;
        assert_eq!(epoch, last.unwrap_or(floor) + 1);
        last = Some(epoch);
        web.check().await;
        let Record { epoch_floors: floors, takeovers, .. } = Recorder::on(store).record();
        assert!(floors.iter().any(|(_, sent)| *sent == floor), "{floors:?}");
        let takeover = Takeover { epoch_floor: floor, last: before.position };
        assert_eq!(takeovers[&before.bucket].last(), Some(&takeover), "nothing was lost");
    }
    for recorder in &recorders {
        let floors = recorder.record().epoch_floors;
        assert!(!floors.is_empty() && floors.iter().all(|(_, floor)| given < *floor), "{floors:?}");
    }
}
