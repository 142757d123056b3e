//! A test client of one application, which drafts commands on its copy of the state, commits and
//! replays them; and an observer that records its notifications.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::domain::app::AppState;
use crate::domain::apply::apply;
use crate::domain::command::{Command, NewStatus, Request};
use crate::domain::delete::delete;
use crate::domain::draft::Draft;
use crate::domain::level::Level;
use crate::domain::limits::Limits;
use crate::domain::name::{AppName, PartName, UnitName};
use crate::domain::replay::Records;
use crate::domain::revision::Revision;
use crate::domain::status::report::Report;
use crate::domain::status::{Kind, StatusKey};
use crate::domain::time::Timestamp;
use crate::domain::transition::Transition;
use crate::domain::unit::{Reporter, Unit};
use crate::store::{
    Broadcast, Bucket, Change, CommitError, ConflictCause, Epoch, MasterChange, NumberedEvent,
    Observer, Position, ReadError, Store, Takeover, Version,
};

/// The deadline of any wait. It is generous, because a test waits this long only when something is
/// broken.
const DEADLINE: Duration = Duration::from_secs(90);

/// Waits until `condition` holds; panics with `what` at the deadline.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waited = tokio::time::timeout(DEADLINE, async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    assert!(waited.await.is_ok(), "waited {DEADLINE:?} until {what}");
}

/// Reports until the store accepts it: the store may be unreachable, and other writers may be
/// faster.
pub async fn insist(store: &Arc<dyn Store>, name: &str, message: &str) -> Driver {
    let mut accepted = None;
    until("a report is accepted", async || {
        let Ok(mut driver) = Driver::load(store, mk_app(name)).await else { return false };
        let report = driver.draft(mk_report("u/0", message));
        accepted = driver.commit(report).await.is_ok().then_some(driver);
        accepted.is_some()
    })
    .await;
    accepted.unwrap()
}

/// A test client of one application.
pub struct Driver {
    /// The store of the application.
    pub store: Arc<dyn Store>,
    /// The client's copy of the state.
    pub state: AppState,
}

impl Driver {
    /// Loads an application in the namespace of the suite, which must succeed.
    pub async fn new(store: &Arc<dyn Store>, name: &str) -> Driver {
        Driver::load(store, mk_app(name)).await.unwrap()
    }

    /// Loads an application from the store.
    pub async fn load(store: &Arc<dyn Store>, app: AppName) -> Result<Driver, ReadError> {
        let records = store.load(&app).await?;
        Ok(Driver { store: store.clone(), state: AppState::load(app, records) })
    }

    /// Returns the revision of the copy.
    pub fn revision(&self) -> Revision {
        self.state.head().revision
    }

    /// Returns the transition of a command at the current time.
    pub fn draft(&self, command: Command) -> Transition {
        self.draft_all([command])
    }

    /// Returns the transition of several commands at the current time.
    pub fn draft_all(&self, commands: impl IntoIterator<Item = Command>) -> Transition {
        let requests = commands.into_iter().map(|command| Request { id: None, command });
        self.draft_requests(requests, self.store.now())
    }

    /// Returns the transition of requests at a given time.
    pub fn draft_requests(
        &self,
        requests: impl IntoIterator<Item = Request>,
        now: Timestamp,
    ) -> Transition {
        let limits = Limits::default();
        let mut draft = Draft::new(&self.state, &limits, now);
        for request in requests {
            apply(&mut draft, &request).unwrap();
        }
        draft.finish()
    }

    /// Commits a transition, and replays it after success.
    pub async fn commit(&mut self, transition: Transition) -> Result<(), CommitError> {
        let transition = Arc::new(transition);
        self.store.commit(transition.clone()).await?;
        self.state.replay(&transition);
        Ok(())
    }

    /// Confirms the version of the copy.
    pub async fn confirm(&self) -> Result<(), CommitError> {
        self.store.confirm(&self.state.name, Version::of(&self.state)).await
    }

    /// Commits a command, which must succeed.
    pub async fn run(&mut self, command: Command) {
        let transition = self.draft(command);
        self.commit(transition).await.unwrap();
    }

    /// Pushes one status of a unit.
    pub async fn report(&mut self, unit: &str, message: &str) {
        self.run(mk_report(unit, message)).await;
    }

    /// Deletes the application.
    pub async fn delete(&mut self) {
        let (transition, _) = delete(&self.state, None, self.store.now()).unwrap();
        self.commit(transition.unwrap()).await.unwrap();
    }

    /// Loads the state from the store.
    pub async fn reload(&self) -> AppState {
        let app = self.state.name.clone();
        let records = self.store.load(&app).await.unwrap();
        AppState::load(app, records)
    }

    /// Asserts that the store has what was replayed here. Only for states without repeated reports.
    pub async fn check(&self) {
        let stored = self.reload().await;
        assert_eq!(as_stored(&stored), as_stored(&self.state));
        let scratch = stored.contributions_from_scratch();
        assert_eq!(scratch, self.state.contributions_from_scratch());
        assert_eq!(scratch, self.state.ranked().cloned().collect());
    }

    /// Returns the whole history, newest first.
    pub async fn events(&self) -> Vec<NumberedEvent> {
        let events = self.store.events(&self.state.name, None, usize::MAX);
        events.await.unwrap()
    }
}

/// Returns head, units, statuses and data, without the fields that only the copy knows.
fn as_stored(state: &AppState) -> Records {
    let units = state.units_after(None).map(|(name, unit)| {
        let (last_seen, last_answer) = Default::default();
        let unit = Unit { last_seen, last_answer, ..unit.clone() };
        (name.clone(), unit)
    });
    let first = StatusKey::first_of(&UnitName::application());
    let statuses = state.statuses().from(&first).map(|(key, status)| {
        let mut status = (**status).clone();
        status.expire_time_written = None;
        ((**key).clone(), status)
    });
    Records {
        head: state.head().clone(),
        epoch_floor: state.epoch_floor,
        units: units.collect(),
        statuses: statuses.collect(),
        faults: Vec::new(),
        requests: Vec::new(),
        operations: state.operations().iter().map(|(id, o)| (id.clone(), o.clone())).collect(),
        payloads: state.operations().payloads().map(|(id, p)| (id.clone(), p.clone())).collect(),
        data: state.data().iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        marks: state.marks().iter().map(|(id, mark)| (id.clone(), mark.clone())).collect(),
    }
}

/// Returns the refusal of a commit or confirmation.
pub(super) fn mk_conflict(current: Revision, cause: ConflictCause) -> Result<(), CommitError> {
    Err(CommitError::Conflict { current, cause })
}

/// Returns the name of an application in the namespace of the suite.
pub fn mk_app(name: &str) -> AppName {
    AppName::new("test", name).unwrap()
}

/// Returns a unit without an incarnation.
pub fn mk_reporter(unit: &str) -> Reporter {
    Reporter::new(UnitName::new(unit).unwrap(), None)
}

/// Returns a status without a key.
pub fn mk_status(component: &str, level: Level, message: &str) -> NewStatus {
    NewStatus {
        component: PartName::new(component).unwrap(),
        key: PartName::default(),
        report: Arc::new(Report { level, message: message.into(), ..Report::default() }),
        observe_time: None,
    }
}

/// Returns a push of one status.
pub fn mk_report(unit: &str, message: &str) -> Command {
    let status = mk_status("workload", Level::Active, message);
    Command::Report(mk_reporter(unit), Kind::Push, status)
}

/// A notification that an observer received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The application, the position, the revision, and whether it is deleted.
    Changed(String, Position, Revision, bool),
    /// The position up to which tombstones were pruned.
    Forgotten(Position),
}

/// An observer that records its notifications.
#[derive(Default)]
pub struct Recorder(Mutex<Record>);

/// The notifications of an observer, each kind in order.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The changes and the prunes.
    pub seen: Vec<Seen>,
    /// The changes in full.
    pub changes: Vec<Change>,
    /// The data losses.
    pub data_losses: Vec<(Bucket, Epoch)>,
    /// The epoch floors.
    pub epoch_floors: Vec<(Bucket, u64)>,
    /// The masters of each bucket, as received last.
    pub takeovers: BTreeMap<Bucket, Arc<[Takeover]>>,
    /// The broadcast messages.
    pub broadcasts: Vec<Broadcast>,
}

impl Recorder {
    /// Returns a recorder that observes the store from now on.
    pub fn on(store: &Arc<dyn Store>) -> Arc<Recorder> {
        let recorder = Arc::new(Recorder::default());
        store.follow(recorder.clone());
        recorder
    }

    /// Returns everything so far.
    pub fn record(&self) -> Record {
        self.0.lock().unwrap().clone()
    }

    /// Returns all changes and prunes so far, in order.
    pub fn notified(&self) -> Vec<Seen> {
        self.record().seen
    }

    /// Returns the positions of the changes so far.
    pub fn positions(&self) -> Vec<u64> {
        self.record().changes.iter().map(|change| change.position.0).collect()
    }

    /// Returns the last revision of an application, and whether it is deleted.
    pub fn last(&self, name: &str) -> Option<(u64, bool)> {
        let changes = self.record().changes;
        let last = changes.iter().rev().find(|change| change.app == mk_app(name))?;
        Some((last.head.revision.0, last.head.deleted))
    }

    /// Asserts that the positions of each bucket rise.
    pub fn check_order(&self) {
        let mut last = BTreeMap::new();
        for Change { app, bucket, position, .. } in self.record().changes {
            let before = last.insert(bucket, position);
            assert!(
                before < Some(position),
                "{app} at {position:?} of {bucket:?} after {before:?}"
            );
        }
    }
}

impl Observer for Recorder {
    fn on_change(&self, change: &Change) {
        let (app, head) = (change.app.application().to_string(), &change.head);
        let mut record = self.0.lock().unwrap();
        record.seen.push(Seen::Changed(app, change.position, head.revision, head.deleted));
        record.changes.push(change.clone());
    }

    fn on_prune(&self, _: Bucket, up_to: Position) {
        self.0.lock().unwrap().seen.push(Seen::Forgotten(up_to));
    }

    fn on_master(&self, bucket: Bucket, change: &MasterChange) {
        let mut record = self.0.lock().unwrap();
        match change {
            MasterChange::Met(takeovers) => {
                drop(record.takeovers.insert(bucket, takeovers.clone()))
            }
            MasterChange::LostWrites(epoch) => record.data_losses.push((bucket, *epoch)),
            MasterChange::Compared(floor) => record.epoch_floors.push((bucket, *floor)),
        }
    }

    fn on_broadcast(&self, message: &Broadcast) {
        self.0.lock().unwrap().broadcasts.push(message.clone());
    }
}
