//! Commits of many statuses, among those of few.

use std::sync::Arc;

use crate::domain::command::{Command, NewStatus};
use crate::domain::level::Level;
use crate::domain::name::{PartName, UnitName};
use crate::store::{CommitError, Store};

use super::deployment::{Deployment, Pair};
use super::driver::{Driver, mk_reporter, mk_status};

/// Returns the pull set of a unit: these keys, all with one message.
pub fn mk_set(unit: &str, keys: impl IntoIterator<Item = u32>, message: &str) -> Command {
    let status = |key: u32| NewStatus {
        key: PartName::new(&key.to_string()).unwrap(),
        ..mk_status("db", Level::Active, message)
    };
    Command::Replace(mk_reporter(unit), None, keys.into_iter().map(status).collect())
}

/// Writes, changes and removes sets of different sizes, of a unit and the two after it, and checks
/// after each commit.
async fn write_sets(web: &mut Driver, first: usize) {
    let unit = format!("web/{first}");
    for (round, size) in [1, 40, 3, 100, 16, 15, 0, 17, 1, 64].into_iter().enumerate() {
        let message = format!("round {round}");
        web.run(mk_set(&unit, 0..size, &message)).await;
        web.check().await;
        web.report(&format!("web/{}", first + round % 3), &message).await;
        web.check().await;
        // One status of many is removed, and returns.
        web.run(mk_set(&unit, 0..size.saturating_sub(1), &message)).await;
        web.check().await;
        web.run(mk_set(&unit, 0..size, "again")).await;
        web.check().await;
    }
}

pub(super) async fn sets_of_any_size_come_back(deployment: impl Deployment) {
    let store = deployment.open().await;
    let mut web = Driver::new(&store, "web").await;
    write_sets(&mut web, 0).await;
    web.run(Command::RemoveUnit(UnitName::new("web/0").unwrap())).await;
    web.check().await;
    web.delete().await;
    web.check().await;
    assert!(store.load(&web.state.name).await.unwrap().statuses.is_empty());
    web.report("web/1", "few").await;
    web.check().await;
    write_sets(&mut web, 10).await;
    store.close().await;

    let store = deployment.open().await;
    web.store = store.clone();
    web.check().await;
    // The next process knows nothing of what was written before.
    let mut again = Driver::new(&store, "web").await;
    again.report("web/1", "changed").await;
    again.check().await;
    write_sets(&mut again, 10).await;
}

/// Two processes write the statuses of one application in turn and at once.
pub(super) async fn sets_of_two_writers_are_all_kept(stores: Pair) {
    let writers = stores.clone().into_iter().enumerate().map(|(writer, store)| {
        tokio::spawn(async move {
            let unit = format!("web/{writer}");
            for round in 0..40_u32 {
                let size = [1, 30, 2, 50][(round % 4) as usize];
                put(&store, &unit, size, &format!("round {round}")).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    for store in &stores {
        let web = Driver::new(store, "web").await;
        let records = store.load(&web.state.name).await.unwrap();
        assert_eq!(records.statuses.len(), 100);
        assert!(records.statuses.iter().all(|(_, status)| &*status.report.message == "round 39"));
        web.check().await;
    }
}

async fn put(store: &Arc<dyn Store>, unit: &str, size: u32, message: &str) {
    loop {
        let mut web = Driver::new(store, "web").await;
        let set = web.draft(mk_set(unit, 0..size, message));
        match web.commit(set).await {
            Ok(()) => return,
            Err(CommitError::Conflict { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
