//! An operator: it creates, changes and deletes an application, and runs operations on another.

use std::sync::Arc;
use std::time::Duration;

use bellwether::aggregator::Error;
use bellwether::domain::app::AppState;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::command::{Command, NewStatus};
use bellwether::domain::name::{AppName, OperationId, PartName, UnitName};
use bellwether::domain::operation::command::{
    NewOperation, OperationAction, OperationCommand, PayloadState,
};
use bellwether::domain::operation::{Kind as OperationKind, Payload, State};
use bellwether::domain::request::Outcome;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;
use bellwether::domain::unit::Reporter;
use tokio::time::sleep;

use crate::judge::number;
use crate::lock;

use super::Client;

/// The lease of an operation.
const LEASE: Duration = Duration::from_secs(10);

/// Reports to an application and deletes it, for ever.
pub async fn come_and_go(mut client: Client, app: AppName) {
    let mut last = Revision(0);
    let mut known = lock(&client.network.judge).sent(&app);
    loop {
        let sent = lock(&client.network.judge).sent(&app);
        if known.is_before_loss(sent) {
            // What was lost with all processes that have seen it counts as never given.
            (last, known) = (Revision(0), sent);
        }
        let place = client.pick();
        let delete = client.dice.per_mille(300);
        let answer = match delete {
            true => {
                let app = app.clone();
                let delete = client.call(place, "delete", move |process| async move {
                    process.aggregator.delete(&app, None).await
                });
                delete.await
            }
            false => {
                let unit = UnitName::new("short/0").unwrap_or_default();
                let message = format!("report {}", client.dice.roll()).into();
                let report = Arc::new(Report { message, ..Report::default() });
                let (component, key) = (PartName::default(), PartName::default());
                let status = NewStatus { component, key, report, observe_time: None };
                let report = Command::Report(Reporter::new(unit, None), Kind::Push, status);
                client.apply(place, &app, None, report).await
            }
        };
        if let Some(Ok(outcome)) = answer {
            let mut judge = lock(&client.network.judge);
            let is_there = !sent.is_before_loss(judge.sent(&app));
            let is_higher = last < outcome.revision || !outcome.changed;
            if is_there && !is_higher {
                judge.accuse(format!("{app}: revision {} after {last}", outcome.revision));
            }
            if is_there {
                last = last.max(outcome.revision);
            }
        }
        sleep(Duration::from_millis(client.dice.between(500, 15_000))).await;
    }
}

/// A worker that begins or resumes the operation of an application.
pub struct Hand {
    client: Client,
    app: AppName,
    unit: UnitName,
    begun: u64,
}

impl Hand {
    /// Returns a worker of operations.
    pub fn new(client: Client, app: AppName, unit: UnitName) -> Hand {
        Hand { client, app, unit, begun: 0 }
    }

    /// Works for ever.
    pub async fn run(mut self) {
        loop {
            sleep(Duration::from_millis(self.client.dice.between(200, 10_000))).await;
            let Some(open) = self.find().await else { continue };
            let (id, outcome) = match open {
                Some(id) => {
                    let payload = PayloadState::Intact;
                    let acquire = OperationAction::Acquire { verify: false, payload };
                    let acquired = self.operate(&id, acquire).await;
                    (id, acquired)
                }
                None => {
                    self.begun += 1;
                    let id = format!("{}-{}", self.unit.as_str().replace('/', "-"), self.begun);
                    let Ok(id) = OperationId::new(&id) else { return };
                    let begun = self.operate(&id, self.begin()).await;
                    (id, begun)
                }
            };
            if let Some(Ok(Outcome { fence, revision, .. })) = outcome {
                self.work(&id, fence, revision).await;
            }
        }
    }

    fn begin(&self) -> OperationAction {
        OperationAction::Begin(Box::new(NewOperation {
            unit: UnitName::application(),
            kind: OperationKind::Upgrade,
            from_version: "1".into(),
            target_version: self.begun.to_string().into(),
            payload: Payload::default(),
            bytes: None,
            deterministic: true,
            reversible: false,
            attempts_max: 100,
            interruptions_max: 1000,
            deadline: None,
            lease_duration: LEASE,
            supersede: false,
            note: "".into(),
        }))
    }

    async fn operate(
        &mut self,
        id: &OperationId,
        action: OperationAction,
    ) -> Option<Result<Outcome, Error>> {
        let command = OperationCommand { id: id.clone(), by: self.unit.clone(), action };
        let place = self.client.pick();
        self.client.apply(place, &self.app, None, Command::Operate(command)).await
    }

    /// Returns the open operation, if there is one; nothing if the application cannot be read.
    async fn find(&mut self) -> Option<Option<OperationId>> {
        let (place, app) = (self.client.pick(), self.app.clone());
        let read = self.client.call(place, "find", move |process| async move {
            let find = |state: &AppState| {
                let mut operations = state.operations().iter();
                operations.find(|(_, operation)| operation.is_open()).map(|(id, _)| id.clone())
            };
            process.aggregator.read(&app, Revision(0), find).await
        });
        match read.await? {
            Ok(open) => Some(open),
            Err(Error::Rejected(_)) => Some(None),
            Err(_) => None,
        }
    }

    /// Goes on where the last holder stopped, until it is done or stops itself.
    async fn work(&mut self, id: &OperationId, fence: u64, revision: Revision) {
        let Some(mut reached) = self.reached(id, fence, revision).await else { return };
        loop {
            sleep(Duration::from_millis(self.client.dice.between(100, 4000))).await;
            let sent = lock(&self.client.network.judge).sent(&self.app);
            let action = match self.client.dice.index(20) {
                0 => return,
                1 => OperationAction::Release { fence },
                2 => OperationAction::Complete { fence },
                // Without a checkpoint, the last one stays.
                3..7 => OperationAction::Heartbeat { fence, checkpoint: None, progress: None },
                _ => {
                    reached += 1;
                    let checkpoint = Some(Bytes::from(format!("step {reached}").into_bytes()));
                    OperationAction::Heartbeat { fence, checkpoint, progress: None }
                }
            };
            let is_last = !matches!(action, OperationAction::Heartbeat { .. });
            let is_step = matches!(action, OperationAction::Heartbeat { checkpoint: Some(_), .. });
            match self.operate(id, action).await {
                Some(Ok(_)) if is_last => return,
                Some(Ok(_)) if !is_step => {}
                Some(Ok(_)) => {
                    let judge = self.client.network.judge.clone();
                    lock(&judge).checkpoint_acknowledged(&self.app, id, reached, sent);
                }
                // Without an answer the heartbeat may still arrive, after a later one.
                Some(Err(Error::Rejected(_))) | None => return,
                Some(Err(_)) => {}
            }
        }
    }

    /// Reads the checkpoint, if the operation still runs with the fence of this worker.
    async fn reached(&mut self, id: &OperationId, fence: u64, revision: Revision) -> Option<u64> {
        let (place, app, id) = (self.client.pick(), self.app.clone(), id.clone());
        let read = self.client.call(place, "checkpoint", move |process| async move {
            let find = |state: &AppState| {
                let mut operations = state.operations().iter();
                let (_, found) = operations.find(|(known, _)| **known == id)?;
                let is_mine = found.fence == fence && found.state == State::Running;
                is_mine.then(|| number(&found.checkpoint))
            };
            let read = process.aggregator.read(&app, revision, find);
            tokio::time::timeout(Duration::from_secs(5), read).await
        });
        read.await?.ok()?.ok()?
    }
}
