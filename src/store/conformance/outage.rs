//! Tests of the time in which no process can act: restarts in a loop, a connection that breaks, a
//! clock that is set.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::domain::outage::Outages;
use crate::domain::time::Timestamp;
use crate::store::Store;
use crate::store::moment::{Moment, OUTAGE_MIN};

use super::deployment::{Deployment, FaultyLink, SetClock};
use super::driver::{Driver, insist, mk_report, until};
use super::restart::CLOCK_ERROR;

/// How long the deadlines of these tests last, without outages.
const LENGTH: Duration = Duration::from_secs(60);
const RESTARTS: u32 = 5;

/// Returns by how much a deadline has moved that was set at `begin`.
fn moved(outages: &Outages, begin: Timestamp) -> Duration {
    outages.moved(begin.after(LENGTH), LENGTH).since(begin.after(LENGTH))
}

/// Waits until a process knows the outages until now.
async fn certain(store: &Arc<dyn Store>) -> Moment {
    until("all deadlines may be judged", async || store.moment().is_certain()).await;
    store.moment()
}

/// A process that restarts again and again, and acts in between.
pub(super) async fn restarts_move_a_deadline_by_the_time_down_alone(deployment: impl Deployment) {
    let mut store = deployment.open().await;
    let begin = store.now();
    let mut web = insist(&store, "web", "0").await;
    let (mut down, mut last) = (Duration::ZERO, begin);
    for n in 1..=RESTARTS {
        let revision = web.revision();
        let closed = Instant::now();
        store.close().await;
        drop((web, store));
        store = deployment.open().await;
        down += closed.elapsed();
        let moment = certain(&store).await;
        assert!(last <= moment.now.after(CLOCK_ERROR), "the time goes back");
        last = moment.now;
        let moved = moved(&moment.outages, begin);
        assert!(moved <= down + CLOCK_ERROR, "{moved:?} after {down:?} without a process");
        web = Driver::new(&store, "web").await;
        assert_eq!(web.revision(), revision);
        web.run(mk_report("u/0", &n.to_string())).await;
    }
    web.check().await;
}

/// A process restarts again and again beside one that can act.
pub(super) async fn restarts_beside_another_process_are_no_outage(deployment: impl Deployment) {
    let started = Instant::now();
    let beside = deployment.open().await;
    let begin = beside.now();
    let mut last = Duration::ZERO;
    for n in 0..RESTARTS {
        let store = deployment.open().await;
        insist(&store, "web", &n.to_string()).await;
        last = moved(&certain(&store).await.outages, begin);
        store.close().await;
    }
    let here = moved(&certain(&beside).await.outages, begin);
    // This machine may have been so busy that no process acted.
    let is_busy = OUTAGE_MIN <= started.elapsed();
    assert!(is_busy || (here, last) == (Duration::ZERO, Duration::ZERO), "{here:?} {last:?}");
}

/// A process without the data does not know whether others can act, so it judges no deadline that
/// is later than its last answer.
pub(super) async fn a_process_that_is_cut_off_judges_no_deadline(link: impl FaultyLink) {
    let (far, near) = (link.open_linked().await, link.open().await);
    certain(&far).await;
    link.cut();
    let cut = near.now().after(CLOCK_ERROR);
    until("it is uncertain", async || !far.moment().is_certain()).await;
    let Moment { now, judged, .. } = far.moment();
    assert!(judged <= cut && judged < now, "{judged:?} at {now:?}, cut off before {cut:?}");
    link.heal();
    let healed = certain(&far).await;
    assert!(cut <= healed.judged.after(CLOCK_ERROR));
}

/// The clock of the data is set while a process can act, which then restarts.
pub(super) async fn a_clock_that_is_set_moves_nothing(deployment: impl SetClock) {
    let store = deployment.open().await;
    let (started, begin) = (Instant::now(), store.now());
    let mut ahead = Duration::ZERO;
    for by in [20, 60, 3_600].map(Duration::from_secs) {
        deployment.set_ahead(by).await;
        ahead += by;
        let Moment { now, outages, .. } = certain(&store).await;
        let (passed, least) = (now.since(begin), started.elapsed());
        assert!(passed < least + by, "{passed:?} have passed, not {least:?}");
        assert!(moved(&outages, begin) <= least, "{outages:?}");
    }
    // Beside a process that knows the time, a start learns it from there.
    let second = deployment.open().await;
    let passed = certain(&second).await.now.since(begin);
    assert!(passed < ahead, "{passed:?} have passed");
}
