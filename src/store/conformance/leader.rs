//! Leaders, candidates and the leader's data are stored like any record, with any bytes in keys and
//! values.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::domain::bytes::Bytes;

use crate::domain::apply::apply;
use crate::domain::command::{Command, Request};
use crate::domain::data::DataPatch;
use crate::domain::draft::Draft;
use crate::domain::leadership::Claim;
use crate::domain::limits::Limits;
use crate::domain::name::UnitName;
use crate::domain::rejected::Rejected;
use crate::store::{ConflictCause, Store};

use super::driver::{Driver, mk_conflict, mk_report, mk_reporter};
use super::operations::{mk_begin, mk_command};

pub(super) fn claim(unit: &str) -> Command {
    Command::ClaimLeadership(mk_reporter(unit), None)
}

fn update(driver: &Driver, set: &[(&str, &'static [u8])]) -> Command {
    let head = driver.state.head();
    let claim = Claim {
        unit: head.leader().unwrap().clone(),
        lease_epoch: head.lease_epoch,
        decided_outside: false,
    };
    let set = set.iter().map(|(key, value)| (Arc::from(*key), Bytes::from(*value)));
    Command::UpdateData(claim, DataPatch { set: set.collect(), ..DataPatch::default() })
}

async fn led(store: &Arc<dyn Store>) -> Driver {
    let mut web = Driver::new(store, "web").await;
    web.run(mk_report("web/0", "up")).await;
    web.run(mk_report("web/1", "up")).await;
    web.run(claim("web/0")).await;
    web
}

pub(super) async fn leadership_and_data_are_kept(store: Arc<dyn Store>) {
    let mut web = led(&store).await;
    web.check().await;
    web.run(update(&web, &[("a\x00b", b"\x00\xff"), ("c d", &[7; 65536]), ("e", b"e")])).await;
    web.check().await;
    web.run(update(&web, &[("e", b""), ("a\x00b", b"other")])).await;
    web.check().await;
    let kept = web.reload().await;
    let expected: BTreeMap<Arc<str>, Bytes> = BTreeMap::from([
        (Arc::from("a\x00b"), Bytes::from(&b"other"[..])),
        (Arc::from("c d"), Bytes::from(vec![7; 65536])),
    ]);
    assert!(*kept.data() == expected);

    let (epoch, version) = (web.state.head().lease_epoch, web.state.head().data.version);
    web.delete().await;
    assert!(web.reload().await.data().is_empty());
    let mut again = led(&store).await;
    again.run(update(&again, &[("e", b"e")])).await;
    again.check().await;
    let head = again.state.head();
    assert_eq!((head.lease_epoch, head.data.version), (epoch + 1, version + 2));
}

/// Gives up the lead and claims it again, twenty times in one commit, writes data, and begins an
/// operation. Returns the lease epoch, the data version and the fence.
async fn count(web: &mut Driver) -> [u64; 3] {
    let first = web.state.head().lease_epoch;
    let terms = (first..first + 20).flat_map(|lease_epoch| {
        let unit = UnitName::new("web/0").unwrap();
        let leader = Claim { unit, lease_epoch, decided_outside: false };
        [Command::ReleaseLeadership(leader), claim("web/0")]
    });
    let terms = web.draft_all(terms);
    web.commit(terms).await.unwrap();
    web.run(update(web, &[("e", b"e")])).await;
    web.run(mk_command("web/0", mk_begin())).await;
    let head = web.state.head();
    let fence = web.state.operations().iter().map(|(_, operation)| operation.fence).max().unwrap();
    [head.lease_epoch, head.data.version, fence]
}

/// A leader, a reader or a worker of the application before can still be there.
pub(super) async fn counts_rise_after_a_tombstone_is_pruned(store: Arc<dyn Store>) {
    let mut before = [0; 3];
    for round in 0..3 {
        let mut web = led(&store).await;
        let granted = web.state.head().lease_epoch;
        assert!(round != 0 || granted == 1, "{granted} in a new store");
        let counts = count(&mut web).await;
        web.check().await;
        let rise = before[0] < granted && before[1] < counts[1] && before[2] < counts[2];
        assert!(rise, "{granted}, then {counts:?} after {before:?} in round {round}");
        before = counts;
        web.delete().await;
    }
}

/// The claim is refused, but the queue position is stored. Another replica must not overlook it.
pub(super) async fn who_waits_in_line_is_not_forgotten(store: Arc<dyn Store>) {
    let mut web = led(&store).await;
    let other = Driver::new(&store, "web").await;
    let revision = web.revision();
    let limits = Limits::default();
    let mut draft = Draft::new(&web.state, &limits, store.now());
    let refused = apply(&mut draft, &Request { id: None, command: claim("web/1") });
    assert!(matches!(refused, Err(Rejected::LeaseHeld(_))), "{refused:?}");
    let queued = draft.finish();
    web.commit(queued).await.unwrap();
    web.check().await;
    assert_eq!(web.revision(), revision.next());
    assert_eq!(
        web.reload().await.unit(&UnitName::new("web/1").unwrap()).unwrap().candidate,
        Some(0)
    );

    let epoch = web.state.head().lease_epoch;
    let leader =
        Claim { unit: UnitName::new("web/0").unwrap(), lease_epoch: epoch, decided_outside: false };
    let release = Command::ReleaseLeadership(leader);
    let late = store.commit(Arc::new(other.draft(release.clone()))).await;
    assert_eq!(late, mk_conflict(revision.next(), ConflictCause::Revision));
    let mut other = Driver::new(&store, "web").await;
    other.run(release).await;
    other.check().await;
    assert_eq!(other.state.head().leader().unwrap().as_str(), "web/1");
}
