//! A unit that campaigns for the leadership of its application, and as the leader writes data and
//! statuses. It also reads, and writes under the epoch of a lease that it has lost.

use std::sync::Arc;
use std::time::Duration;

use super::history::{Operation, Outcome, Recorder};
use crate::dice::Dice;

/// The length of each lease.
pub const LEASE: Duration = Duration::from_secs(2);
/// A freeze of a client, longer than its lease.
const FREEZE: Duration = Duration::from_millis(2300);
/// The pause before an operation without an answer is sent again.
const RETRY: Duration = Duration::from_millis(50);
/// So often an operation is sent until its outcome counts as unknown.
const ATTEMPTS: usize = 60;

/// An answer to one attempt.
#[derive(Debug)]
pub enum Answer {
    Known(Outcome),
    /// The operation may have been applied, or may be applied later.
    Unknown,
    /// The operation is not applied by this attempt.
    NotSent,
}

/// Leases, data and statuses of applications, reached in several ways.
pub trait Register: Send + Sync + 'static {
    /// The number of servers that answer.
    const WAYS: usize;

    /// Makes one attempt at an operation. The attempts of one operation have the same `request_id`.
    /// A frozen client knows its lease, then stands still for so long, then sends.
    fn attempt(
        &self,
        way: usize,
        operation: &Operation,
        request_id: &str,
        freeze: Duration,
    ) -> impl Future<Output = Answer> + Send;
}

/// One unit of one application.
pub struct Client<R> {
    pub register: Arc<R>,
    pub recorder: Arc<Recorder>,
    pub dice: Dice,
    pub application: String,
    pub unit: String,
    /// One of so many writes is frozen; 0: none.
    pub freezes: usize,
    id: u32,
    /// The lease epoch, as far as this unit knows.
    epoch: Option<u64>,
    /// The epoch of the last lease that this unit has lost.
    former: Option<u64>,
    /// The newest known version of the data, and the value of that version.
    version: u64,
    value: String,
    operations: u64,
}

impl<R: Register> Client<R> {
    pub fn new(
        register: &Arc<R>,
        recorder: &Arc<Recorder>,
        dice: Dice,
        application: &str,
        n: usize,
        freezes: usize,
    ) -> Client<R> {
        Client {
            register: register.clone(),
            recorder: recorder.clone(),
            dice,
            application: application.to_string(),
            unit: format!("{application}/{n}"),
            freezes,
            id: recorder.client(),
            epoch: None,
            former: None,
            version: 0,
            value: String::new(),
            operations: 0,
        }
    }

    pub async fn run(mut self) {
        while self.recorder.goes_on() {
            match (self.epoch, self.former) {
                (Some(epoch), _) => self.lead(epoch).await,
                (None, Some(former)) if self.dice.below(8) == 0 => {
                    let value = self.fresh();
                    self.write("write", former, None, value).await
                }
                _ => self.follow().await,
            }
        }
    }

    /// One operation of a unit that leads.
    async fn lead(&mut self, epoch: u64) {
        let value = self.fresh();
        match self.dice.below(48) {
            0..14 => self.write("write", epoch, None, value).await,
            14..26 => self.write("write", epoch, Some(self.version), value).await,
            26..28 if !self.value.is_empty() => {
                self.write("write", epoch, None, self.value.clone()).await
            }
            26..34 => self.write("set_status", epoch, None, value).await,
            34..40 => self.ask("read").await,
            40..42 => self.ask("read_status").await,
            42 => self.ask("leader").await,
            43 => self.ask("claim").await,
            44 => self.write("release", epoch, None, String::new()).await,
            _ => self.write("renew", epoch, None, String::new()).await,
        }
    }

    /// One operation of a unit that does not lead.
    async fn follow(&mut self) {
        match self.dice.below(8) {
            0..3 => self.ask("claim").await,
            3..6 => self.ask("read").await,
            6 => self.ask("read_status").await,
            _ => self.ask("leader").await,
        }
    }

    /// Returns a value that no client has written.
    fn fresh(&mut self) -> String {
        self.operations += 1;
        format!("{}.{}", self.id, self.operations)
    }

    async fn ask(&mut self, operation: &'static str) {
        self.write(operation, 0, None, String::new()).await;
    }

    async fn write(
        &mut self,
        operation: &'static str,
        epoch: u64,
        expected: Option<u64>,
        value: String,
    ) {
        let (application, unit) = (self.application.clone(), self.unit.clone());
        let operation = Operation { application, operation, unit, epoch, expected, value };
        if let Some(outcome) = self.perform(&operation).await {
            self.take(&operation, outcome);
        }
    }

    /// Makes attempts until there is an answer. Returns `None` if the outcome remains unknown.
    async fn perform(&mut self, operation: &Operation) -> Option<Outcome> {
        let is_data = matches!(operation.operation, "write" | "set_status");
        let is_frozen = is_data && self.freezes != 0 && self.dice.below(self.freezes) == 0;
        let freeze = if is_frozen { FREEZE } else { Duration::ZERO };
        // Some clients never repeat, so that some outcomes remain unknown.
        let attempts = if self.dice.below(8) == 0 { 1 } else { ATTEMPTS };
        let request_id = self.fresh();
        let mut way = self.dice.below(R::WAYS);
        let mut was_sent = false;
        let call = self.recorder.now();
        for _ in 0..attempts {
            match self.register.attempt(way, operation, &request_id, freeze).await {
                Answer::Known(outcome) => {
                    self.recorder.add(self.id, operation.clone(), call, Some(outcome.clone()));
                    return Some(outcome);
                }
                Answer::Unknown => was_sent = true,
                Answer::NotSent => (),
            }
            tokio::time::sleep(RETRY).await;
            way = (way + 1) % R::WAYS;
        }
        // A read has no effect, and a lease may change at any time anyway.
        if was_sent && is_data {
            self.recorder.add(self.id, operation.clone(), call, None);
            self.id = self.recorder.client();
        }
        None
    }

    /// Takes an answer into what this unit knows.
    fn take(&mut self, asked: &Operation, answered: Outcome) {
        match (asked.operation, answered.kind) {
            ("claim", "ok") => self.epoch = Some(answered.epoch),
            // This unit was next in line.
            ("leader", "ok") if answered.holder == self.unit => self.epoch = Some(answered.epoch),
            ("release", "ok") => self.step_down(),
            ("write", "ok") => (self.version, self.value) = (answered.version, asked.value.clone()),
            ("write", "mismatch") => self.version = answered.version,
            ("read", "ok") => (self.version, self.value) = (answered.version, answered.value),
            (_, "not_leader") if self.epoch == Some(asked.epoch) => self.step_down(),
            _ => (),
        }
    }

    fn step_down(&mut self) {
        self.former = self.epoch.take().or(self.former);
    }
}
