//! A client that asks for what the server must refuse, and asks twice for the same.

use std::sync::Arc;
use std::time::Duration;

use bellwether::aggregator::Error;
use bellwether::domain::app::AppState;
use bellwether::domain::bytes::Bytes;
use bellwether::domain::command::{Command, NewStatus};
use bellwether::domain::data::{DataPatch, etag};
use bellwether::domain::leadership::Claim;
use bellwether::domain::level::Level;
use bellwether::domain::mark::{Cover, MarkKind, NewMark, Until};
use bellwether::domain::name::{AppName, OperationId, PartName, UnitName};
use bellwether::domain::operation::command::{OperationAction, OperationCommand};
use bellwether::domain::request::Outcome;
use bellwether::domain::revision::Revision;
use bellwether::domain::status::Kind;
use bellwether::domain::status::report::Report;
use bellwether::domain::unit::Reporter;
use tokio::time::sleep;

use crate::lock;

use super::Client;

/// After so long a call without an answer does not arrive any more.
const LATE_MAX: Duration = Duration::from_secs(120);
/// The lease of the client's own leader. It is not renewed.
const LEASE: Duration = Duration::from_secs(5);

/// What an application has that a request can contradict.
struct Found {
    leader: Option<(UnitName, u64)>,
    other: Option<UnitName>,
    version: u64,
    incarnation: Option<(UnitName, u64)>,
    holder: Option<(OperationId, UnitName, u64)>,
}

/// Asks for what must be refused, for ever.
pub async fn ask(mut client: Client, app: AppName) {
    loop {
        sleep(Duration::from_millis(client.dice.between(500, 8_000))).await;
        let Some((found, master)) = find(&mut client, &app).await else { continue };
        let Some((what, command)) = contradict(&mut client, found) else { continue };
        let place = client.pick();
        let answer = client.commit(place, &app, None, command).await;
        // After a data loss some of it is right.
        if let Some((Ok(_), judged_by)) = answer
            && judged_by == master
        {
            lock(&client.network.judge).accuse(format!("{app} accepts {what}"));
        }
    }
}

async fn find(client: &mut Client, app: &AppName) -> Option<(Found, u64)> {
    let (place, app) = (client.pick(), app.clone());
    let read = client.call(place, "find", move |process| async move {
        let find = |state: &AppState| {
            let head = state.head();
            let leader = head.lease.as_ref().map(|lease| (lease.holder.clone(), head.lease_epoch));
            let mut units = state.units_after(None);
            let is_leader = |name: &UnitName| leader.as_ref().is_some_and(|(l, _)| l == name);
            let other = units.find(|(name, _)| !is_leader(name)).map(|(name, _)| name.clone());
            let mut units = state.units_after(None);
            let begun = units.find(|(_, unit)| 1 < unit.incarnation);
            let mut operations = state.operations().iter();
            let held = operations.find_map(|(id, operation)| {
                Some((id.clone(), operation.holder()?.clone(), operation.fence))
            });
            let found = Found {
                other,
                version: head.data.version,
                incarnation: begun.map(|(name, unit)| (name.clone(), unit.incarnation)),
                holder: held,
                leader,
            };
            (found, state.epoch_floor)
        };
        process.aggregator.read(&app, Revision(0), find).await
    });
    read.await?.ok()
}

/// Returns a request that contradicts what was found, and what it is.
fn contradict(client: &mut Client, found: Found) -> Option<(&'static str, Command)> {
    let Found { leader, other, version, incarnation, holder } = found;
    let data = |unit: UnitName, lease_epoch: u64, etag: Option<Box<str>>| {
        let set = [(Arc::from("stolen"), Bytes::from(b"yes".to_vec()))].into();
        let claim = Claim { unit, lease_epoch, decided_outside: false };
        Command::UpdateData(claim, DataPatch { set, etag, ..DataPatch::default() })
    };
    Some(match client.dice.index(5) {
        0 => {
            let (leader, epoch) = leader.filter(|(_, epoch)| 1 < *epoch)?;
            ("data under a former lease epoch", data(leader, epoch - 1, None))
        }
        1 => ("data of a unit that does not lead", data(other?, leader?.1, None)),
        2 => {
            let (leader, epoch) = leader.filter(|_| 0 < version)?;
            ("data with a former etag", data(leader, epoch, Some(etag(version - 1).into())))
        }
        3 => {
            let (unit, incarnation) = incarnation?;
            let reporter = Reporter::new(unit, Some(incarnation - 1));
            let report = Command::Report(reporter, Kind::Push, status("of a former life"));
            ("a report of a former incarnation", report)
        }
        _ => {
            let (id, by, fence) = holder.filter(|(_, _, fence)| 1 < *fence)?;
            let fence = fence - 1;
            let action = OperationAction::Heartbeat { fence, checkpoint: None, progress: None };
            let command = OperationCommand { id, by, action };
            ("a heartbeat with a former fence", Command::Operate(command))
        }
    })
}

fn status(message: &str) -> NewStatus {
    let (level, message) = (Level::Active, message.into());
    let report = Arc::new(Report { level, message, ..Report::default() });
    let (component, key) = (PartName::default(), PartName::default());
    NewStatus { component, key, report, observe_time: None }
}

/// A client that alone reports to an application, and leads it.
pub struct Repeater {
    client: Client,
    app: AppName,
    unit: UnitName,
    number: u64,
}

impl Repeater {
    /// Returns a client of an application.
    pub fn new(client: Client, app: AppName, unit: UnitName) -> Repeater {
        Repeater { client, app, unit, number: 0 }
    }

    /// Asks twice for the same, for ever.
    pub async fn run(mut self) {
        loop {
            sleep(Duration::from_millis(self.client.dice.between(500, 10_000))).await;
            match self.client.dice.index(4) {
                0 => drop(self.repeat_request().await),
                1 => drop(self.repeat_report().await),
                2 => drop(self.mark_and_remove().await),
                _ => drop(self.lead_and_delete().await),
            }
        }
    }

    fn report(&mut self) -> Command {
        self.number += 1;
        let reporter = Reporter::new(self.unit.clone(), None);
        Command::Report(reporter, Kind::Push, status(&format!("report {}", self.number)))
    }

    /// Sends a command. Returns nothing without an outcome.
    async fn send(&mut self, id: Option<&str>, command: Command) -> Option<(Outcome, u64)> {
        let place = self.client.pick();
        let (answer, master) = self.client.commit(place, &self.app, id, command).await.unzip();
        Some((self.answered(answer).await?, master?))
    }

    /// Returns an outcome. Without an answer, waits until the call cannot arrive any more.
    async fn answered(&self, answer: Option<Result<Outcome, Error>>) -> Option<Outcome> {
        match answer {
            Some(Ok(outcome)) => Some(outcome),
            Some(Err(Error::Rejected(refusal))) => {
                self.client.note(format_args!("refused: {refusal}"));
                None
            }
            Some(Err(_)) | None => {
                sleep(LATE_MAX).await;
                None
            }
        }
    }

    async fn delete(&mut self) -> Option<(Outcome, u64)> {
        let (place, app) = (self.client.pick(), self.app.clone());
        let delete = self.client.call(place, "delete", move |process| async move {
            let outcome = process.aggregator.delete(&app, None).await;
            (outcome, process.store.epoch_floor(&app))
        });
        let (answer, master) = delete.await.unzip();
        Some((self.answered(answer).await?, master?))
    }

    /// Sends a request again after another one, perhaps after a deletion: the answer is the same.
    async fn repeat_request(&mut self) -> Option<()> {
        let (first, second) = (self.report(), self.report());
        let id = format!("repeat-{}", self.number);
        let pruned = self.prunes();
        let (outcome, master) = self.send(Some(&id), first.clone()).await?;
        let other = match self.client.dice.per_mille(300) {
            true => self.delete().await?.1,
            false => self.send(None, second).await?.1,
        };
        let (again, last) = self.send(Some(&id), first).await?;
        let is_kept = [other, last] == [master; 2] && pruned == self.prunes();
        if is_kept && again.revision != outcome.revision {
            self.accuse(format_args!("repeats {outcome:?} as {again:?}"));
        }
        Some(())
    }

    fn prunes(&self) -> u64 {
        lock(&self.client.network.judge).prunes(&self.app)
    }

    /// Reports the same twice: the second report changes nothing.
    async fn repeat_report(&mut self) -> Option<()> {
        let report = self.report();
        let (_, master) = self.send(None, report.clone()).await?;
        let (again, last) = self.send(None, report).await?;
        if again.changed && last == master {
            self.accuse(format_args!("takes an equal report for a change: {again:?}"));
        }
        Some(())
    }

    /// Marks another unit, and removes that unit.
    async fn mark_and_remove(&mut self) -> Option<()> {
        let other = UnitName::new("d0/1").ok()?;
        let reporter = Reporter::new(other.clone(), None);
        self.send(None, Command::Report(reporter, Kind::Push, status("here"))).await?;
        self.number += 1;
        let mark = NewMark {
            id: format!("of-unit-{}", self.number).into(),
            kind: MarkKind::Acknowledged,
            cover: Cover { unit: other.clone(), component: None, key: None },
            start: None,
            until: Until::After(Duration::from_secs(600)),
            reason: "it is removed".into(),
            author: "bob".into(),
            ends_when_well: false,
        };
        self.send(None, Command::SetMark(Box::new(mark))).await?;
        self.send(None, Command::RemoveUnit(other)).await?;
        Some(())
    }

    /// Leads, writes data around the end of the lease, and perhaps deletes everything.
    async fn lead_and_delete(&mut self) -> Option<()> {
        let claim = Command::ClaimLeadership(Reporter::new(self.unit.clone(), None), Some(LEASE));
        let (Outcome { lease_epoch, .. }, _) = self.send(None, claim).await?;
        sleep(Duration::from_millis(self.client.dice.between(0, 7_000))).await;
        let set = [(Arc::from("key"), Bytes::from(b"value".to_vec()))].into();
        let claim = Claim { unit: self.unit.clone(), lease_epoch, decided_outside: false };
        let write = Command::UpdateData(claim, DataPatch { set, ..DataPatch::default() });
        self.send(None, write).await?;
        if self.client.dice.per_mille(500) {
            self.delete().await?;
        }
        Some(())
    }

    fn accuse(&self, what: std::fmt::Arguments<'_>) {
        lock(&self.client.network.judge).accuse(format!("{} {what}", self.app));
    }
}
