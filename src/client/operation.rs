//! An operation that is held: its lease is renewed, and who works on it hears when to stop.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::client::connection::Client;
use crate::client::error::Error;
use crate::proto::v1;

/// What a lease lasts if a server does not say.
const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// A lease is renewed at this part of it, so that two heartbeats may be lost.
const RENEWALS_PER_LEASE: u32 = 3;

/// Work in flight, held by this process until it is finished, released, or lost.
///
/// A task of its own sends the heartbeats. Dropped without [`complete`](Held::complete),
/// [`fail`](Held::fail) or [`release`](Held::release) it just goes silent: the server notices when
/// the lease lapses, as after a crash.
#[derive(Debug)]
pub struct Held {
    client: Client,
    operation: v1::Operation,
    shared: Arc<Shared>,
    lost: watch::Receiver<Option<Lost>>,
    heartbeats: tokio::task::JoinHandle<()>,
}

/// Why somebody who works on an operation has to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// An operator gave it up: stop, undo what must be undone, then release it.
    Cancelled,
    /// The server refuses this holder: somebody else holds it, or it is over.
    Refused {
        /// `STALE_FENCE`, `OPERATION_STATE`, `OPERATION_NOT_FOUND`, ...
        reason: String,
    },
    /// No heartbeat got through for two thirds of the lease: soon others may take it up.
    Silence,
}

/// What the heartbeats say.
#[derive(Debug, Default)]
struct Shared {
    said: std::sync::Mutex<Said>,
    news: Notify,
}

#[derive(Debug, Default, Clone)]
struct Said {
    checkpoint: Option<Bytes>,
    progress: Option<String>,
}

impl Held {
    /// Begins an operation; `None` if it was begun before, by whomever: then look at it, and
    /// acquire it.
    ///
    /// # Errors
    /// `OPERATION_HELD` and `RESUME_FIRST` if another one comes first, and those of the contract.
    pub async fn begin(
        client: &Client,
        request: v1::BeginOperationRequest,
    ) -> Result<Option<Held>, Error> {
        let asked = Instant::now();
        let answer = client.operations().begin_operation(client.request(request)).await;
        let answer = client.answer(answer)?;
        let operation = answer.operation.filter(|_| answer.begun);
        Ok(operation.map(|operation| Held::hold(client, operation, asked)))
    }

    /// Takes up an operation that nobody holds.
    ///
    /// # Errors
    /// `OPERATION_HELD` while somebody does, with the time to wait, and those of the contract.
    pub async fn acquire(
        client: &Client,
        request: v1::AcquireOperationRequest,
    ) -> Result<Held, Error> {
        let asked = Instant::now();
        let answer = client.operations().acquire_operation(client.request(request)).await;
        let operation = client.answer(answer)?.operation.unwrap_or_default();
        Ok(Held::hold(client, operation, asked))
    }

    fn hold(client: &Client, operation: v1::Operation, asked: Instant) -> Held {
        let shared = Arc::<Shared>::default();
        let (tell, lost) = watch::channel(None);
        let renewing = Renewing {
            client: client.clone(),
            lease: lease_of(&operation),
            request: v1::HeartbeatOperationRequest {
                namespace: operation.namespace.clone(),
                application: operation.application.clone(),
                unit: operation.holder.clone(),
                operation_id: operation.operation_id.clone(),
                fence: operation.fence,
                ..v1::HeartbeatOperationRequest::default()
            },
            shared: shared.clone(),
            renewed: asked,
        };
        let heartbeats = tokio::spawn(async move {
            let lost = renewing.run(&tell).await;
            tell.send_replace(Some(lost));
        });
        Held { client: client.clone(), operation, shared, lost, heartbeats }
    }

    /// The operation as it was when it was begun or taken up: target, payload, checkpoint, fence.
    /// VERIFYING: look first how far the last one came, and say so with [`verify`](Held::verify).
    pub fn operation(&self) -> &v1::Operation {
        &self.operation
    }

    /// Keeps how far the work came: for whoever resumes it, and for people (`step 3/7`). Sent with
    /// a heartbeat of its own.
    pub fn reached(&self, checkpoint: impl Into<Bytes>, progress: &str) {
        let (checkpoint, progress) = (Some(checkpoint.into()), Some(progress.to_string()));
        *lock(&self.shared) = Said { checkpoint, progress };
        self.shared.news.notify_one();
    }

    /// Resolves when the work has to stop. The lease of what was cancelled is renewed further, so
    /// that there is time to undo. Cancel safe.
    pub async fn lost(&mut self) -> Lost {
        let lost = self.lost.wait_for(Option::is_some).await;
        // Without an answer the task is gone, and the heartbeats with it.
        lost.ok().and_then(|lost| lost.clone()).unwrap_or(Lost::Silence)
    }

    /// Says how far the last holder came. `true`: go on working; `false`: there is nothing to do.
    ///
    /// # Errors
    /// Those of the contract.
    pub async fn verify(&mut self, observed: v1::Observed) -> Result<bool, Error> {
        let request = v1::VerifyOperationRequest {
            namespace: self.operation.namespace.clone(),
            application: self.operation.application.clone(),
            unit: self.operation.holder.clone(),
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            observed: observed.into(),
            ..v1::VerifyOperationRequest::default()
        };
        let answer = self.client.operations().verify_operation(self.client.request(request)).await;
        let operation = self.client.answer(answer)?.operation.unwrap_or_default();
        self.operation.state = operation.state;
        Ok(operation.state() == v1::OperationState::Running)
    }

    /// The work is done. Answers what was asked for meanwhile, empty if nothing was.
    ///
    /// # Errors
    /// Those of the contract; one that is passing may be tried again.
    pub async fn complete(&self) -> Result<String, Error> {
        let request = v1::CompleteOperationRequest {
            namespace: self.operation.namespace.clone(),
            application: self.operation.application.clone(),
            unit: self.operation.holder.clone(),
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            ..v1::CompleteOperationRequest::default()
        };
        let request = self.client.request(request);
        let answer = self.client.operations().complete_operation(request).await;
        let operation = self.client.answer(answer)?.operation.unwrap_or_default();
        self.heartbeats.abort();
        Ok(operation.next_target_version)
    }

    /// The attempt failed; `touched` if it has changed something. Answers what becomes of it.
    ///
    /// # Errors
    /// Those of the contract; one that is passing may be tried again.
    pub async fn fail(
        &self,
        error: v1::ErrorReport,
        touched: bool,
    ) -> Result<v1::Operation, Error> {
        let request = v1::FailOperationRequest {
            namespace: self.operation.namespace.clone(),
            application: self.operation.application.clone(),
            unit: self.operation.holder.clone(),
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            error: Some(error),
            touched,
            ..v1::FailOperationRequest::default()
        };
        let answer = self.client.operations().fail_operation(self.client.request(request)).await;
        let operation = self.client.answer(answer)?.operation.unwrap_or_default();
        self.heartbeats.abort();
        Ok(operation)
    }

    /// The work has really stopped, and somebody else may go on: costs nothing.
    ///
    /// # Errors
    /// Those of the contract; one that is passing may be tried again.
    pub async fn release(&self) -> Result<(), Error> {
        let request = v1::ReleaseOperationRequest {
            namespace: self.operation.namespace.clone(),
            application: self.operation.application.clone(),
            unit: self.operation.holder.clone(),
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            ..v1::ReleaseOperationRequest::default()
        };
        let answer = self.client.operations().release_operation(self.client.request(request)).await;
        self.client.answer(answer)?;
        self.heartbeats.abort();
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.heartbeats.abort();
    }
}

/// The task that renews a lease.
struct Renewing {
    client: Client,
    lease: Duration,
    request: v1::HeartbeatOperationRequest,
    shared: Arc<Shared>,
    /// When the last heartbeat that got through was sent: the lease lasts at least from then.
    renewed: Instant,
}

impl Renewing {
    /// Renews until it cannot any more. One that was given up is renewed too: to undo takes time.
    async fn run(mut self, tell: &watch::Sender<Option<Lost>>) -> Lost {
        let interval = self.lease / RENEWALS_PER_LEASE;
        let mut next = self.renewed + interval;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.shared.news.notified() => {}
            }
            let asked = Instant::now();
            // One third before its end others must not find us working.
            let give_up = self.renewed + self.lease - interval;
            match within(give_up, self.renew()).await {
                None => return Lost::Silence,
                Some(Ok(state)) => {
                    if state == v1::OperationState::Cancelling {
                        tell.send_replace(Some(Lost::Cancelled));
                    }
                    (self.renewed, next) = (asked, asked + interval);
                }
                Some(Err(Error::Refused(refusal))) if is_final(&refusal.reason) => {
                    return Lost::Refused { reason: refusal.reason };
                }
                Some(Err(_)) if give_up <= Instant::now() => return Lost::Silence,
                Some(Err(_)) => next = Instant::now() + interval / RENEWALS_PER_LEASE,
            }
        }
    }

    async fn renew(&self) -> Result<v1::OperationState, Error> {
        let Said { checkpoint, progress } = lock(&self.shared).clone();
        let request =
            v1::HeartbeatOperationRequest { checkpoint, progress, ..self.request.clone() };
        let request = self.client.request(request);
        let answer = self.client.operations().heartbeat_operation(request).await;
        Ok(self.client.answer(answer)?.operation.unwrap_or_default().state())
    }
}

/// Whether no later heartbeat can fare better.
fn is_final(reason: &str) -> bool {
    let over = ["STALE_FENCE", "OPERATION_STATE", "OPERATION_NOT_FOUND", "APPLICATION_NOT_FOUND"];
    over.contains(&reason)
}

async fn within<T>(end: Instant, what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout_at(end, what).await.ok()
}

fn lease_of(operation: &v1::Operation) -> Duration {
    let lease = operation.lease_duration.and_then(|lease| Duration::try_from(lease).ok());
    lease.unwrap_or(LEASE_DEFAULT)
}

/// A poisoned lock only means that somebody panicked: what is under it is whole.
fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, Said> {
    shared.said.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
