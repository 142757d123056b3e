//! An operation that this process holds: its heartbeats, with the time at which each was sent.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bellwether_client::{Client, Error};
use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use crate::cli::command::run::keeper::boot_clock;
use crate::cli::command::run::keeper::deadline::{Lease, RENEWALS_PER_LEASE};
use crate::cli::command::run::operation::lines::cut;
use crate::proto::v1::{HeartbeatOperationRequest, Operation, OperationState};

/// The longest progress that the server takes.
const PROGRESS_BYTES_MAX: usize = 256;
/// The pause after a heartbeat without an answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Why the command must stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revoked {
    /// An operator cancelled the operation.
    Cancelled,
    /// The server refuses this holder: another one may begin at once.
    Refused(String),
}

/// What a heartbeat carries besides the renewal.
#[derive(Debug, Default)]
struct BeatContent {
    progress: Option<String>,
    /// Sent once.
    checkpoint: Option<Bytes>,
}

/// An operation with its heartbeats, which end when this is dropped.
#[derive(Debug)]
pub struct Held {
    /// The operation as it was begun or acquired.
    pub operation: Operation,
    /// When the last acknowledged heartbeat was sent.
    pub renewed: watch::Receiver<Duration>,
    /// Why the command must stop, once it must.
    pub revoked: watch::Receiver<Option<Revoked>>,
    content: Arc<Mutex<BeatContent>>,
    soon: Arc<Notify>,
    _heartbeats: AbortOnDropHandle<()>,
}

impl Held {
    /// Begins the heartbeats of an operation whose begin was sent at a time.
    pub fn new(client: Client, operation: Operation, lease: Lease, begun: Duration) -> Held {
        let (renewed, is_renewed) = watch::channel(begun);
        let (revoke, revoked) = watch::channel(None);
        let (content, soon) = (Arc::<Mutex<BeatContent>>::default(), Arc::<Notify>::default());
        let heartbeats = Heartbeats {
            client,
            request: HeartbeatOperationRequest {
                namespace: operation.namespace.clone(),
                application: operation.application.clone(),
                unit: operation.holder.clone(),
                operation_id: operation.operation_id.clone(),
                fence: operation.fence,
                ..HeartbeatOperationRequest::default()
            },
            interval: lease.length / RENEWALS_PER_LEASE,
            content: content.clone(),
            soon: soon.clone(),
            renewed,
        };
        let task = tokio::spawn(async move {
            let why = heartbeats.run(&revoke).await;
            revoke.send_replace(Some(Revoked::Refused(why)));
        });
        let _heartbeats = AbortOnDropHandle::new(task);
        Held { operation, renewed: is_renewed, revoked, content, soon, _heartbeats }
    }

    /// Sets what the next heartbeat says for people.
    pub fn set_progress(&self, progress: &str) {
        let progress = cut(progress, PROGRESS_BYTES_MAX).to_string();
        lock(&self.content).progress = Some(progress);
    }

    /// Stores a checkpoint. Returns whether the server has it.
    pub async fn store(&mut self, checkpoint: Bytes) -> bool {
        self.renewed.mark_unchanged();
        lock(&self.content).checkpoint = Some(checkpoint);
        self.soon.notify_one();
        loop {
            let is_stored = tokio::select! {
                changed = self.renewed.changed() => changed.is_ok(),
                _ = self.revoked.wait_for(Option::is_some) => return false,
            };
            if !is_stored || lock(&self.content).checkpoint.is_none() {
                return is_stored;
            }
        }
    }

    /// Returns why the command must stop, if it must.
    pub fn is_revoked(&self) -> Option<Revoked> {
        self.revoked.borrow().clone()
    }
}

/// The task that sends them.
struct Heartbeats {
    client: Client,
    request: HeartbeatOperationRequest,
    interval: Duration,
    content: Arc<Mutex<BeatContent>>,
    soon: Arc<Notify>,
    renewed: watch::Sender<Duration>,
}

impl Heartbeats {
    /// Sends heartbeats until the server refuses one for good. Returns its reason.
    async fn run(&self, revoke: &watch::Sender<Option<Revoked>>) -> String {
        let mut pause = self.interval;
        loop {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.soon.notified() => {}
            }
            let sent = boot_clock::now();
            pause = match timeout(self.interval, self.beat()).await {
                Ok(Ok(operation)) if operation.fence != self.request.fence => {
                    return "another unit has acquired the operation".to_string();
                }
                Ok(Ok(operation)) => {
                    if operation.state() == OperationState::Cancelling {
                        revoke.send_replace(Some(Revoked::Cancelled));
                    }
                    self.renewed.send_replace(sent);
                    self.interval
                }
                Ok(Err(Error::Refused(refusal))) if is_final(&refusal.reason) => {
                    return refusal.message;
                }
                Ok(Err(_)) | Err(_) => RETRY_PAUSE,
            };
        }
    }

    async fn beat(&self) -> Result<Operation, Error> {
        let (progress, checkpoint) = {
            let content = lock(&self.content);
            (content.progress.clone(), content.checkpoint.clone())
        };
        let request = HeartbeatOperationRequest {
            progress,
            checkpoint: checkpoint.clone(),
            ..self.request.clone()
        };
        let operation = self.client.call(request).await?.operation.unwrap_or_default();
        let mut content = lock(&self.content);
        if content.checkpoint == checkpoint {
            content.checkpoint = None;
        }
        Ok(operation)
    }
}

/// Returns whether every later call of this holder would be refused as well.
pub fn is_final(reason: &str) -> bool {
    let over = ["STALE_FENCE", "OPERATION_STATE", "OPERATION_NOT_FOUND", "APPLICATION_NOT_FOUND"];
    over.contains(&reason)
}

fn lock(content: &Mutex<BeatContent>) -> std::sync::MutexGuard<'_, BeatContent> {
    // It is consistent at any point.
    content.lock().unwrap_or_else(PoisonError::into_inner)
}
