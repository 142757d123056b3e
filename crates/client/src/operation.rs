//! An operation that this process holds: its lease is renewed, and the caller learns when to stop.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::connection::Client;
use crate::error::Error;
use crate::proto::{OfUnit, span, v1};

/// The length of a lease if the server does not set one.
const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// Heartbeats within a lease: two may be lost.
const RENEWALS_PER_LEASE: u32 = 3;

/// An operation that this process holds until it is finished, released or lost.
///
/// A task sends the heartbeats. If this is dropped without [`complete`](OperationLease::complete),
/// [`fail`](OperationLease::fail) or [`release`](OperationLease::release), the heartbeats stop, and
/// the operation is interrupted when the lease lapses, as after a crash.
#[derive(Debug)]
pub struct OperationLease {
    client: Client,
    operation: v1::Operation,
    shared: Arc<Shared>,
    lost: watch::Receiver<Option<Lost>>,
    heartbeats: tokio::task::JoinHandle<()>,
}

/// The reason why the holder of an operation has to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lost {
    /// An operator cancelled the operation: stop, undo what must be undone, then release it.
    Cancelled,
    /// The server refuses this holder: another one holds the operation, or it is over.
    Refused {
        /// `STALE_FENCE`, `OPERATION_STATE`, `OPERATION_NOT_FOUND`, ...
        reason: String,
    },
    /// No heartbeat succeeded for two thirds of the lease: soon other holders may acquire the
    /// operation.
    Silence,
}

/// The content of the heartbeats.
#[derive(Debug, Default)]
struct Shared {
    content: std::sync::Mutex<HeartbeatContent>,
    news: Notify,
}

#[derive(Debug, Default, Clone)]
struct HeartbeatContent {
    checkpoint: Option<Bytes>,
    progress: Option<String>,
}

impl OperationLease {
    /// Begins an operation. `None` if it exists already: then read it and acquire it.
    ///
    /// # Errors
    /// `OPERATION_HELD` and `RESUME_FIRST` if another operation comes first, and those of the
    /// contract.
    pub async fn begin(
        client: &Client,
        request: v1::BeginOperationRequest,
    ) -> Result<Option<OperationLease>, Error> {
        let asked = Instant::now();
        let answer = client.call(request).await?;
        let operation = answer.operation.filter(|_| answer.begun);
        Ok(operation.map(|operation| OperationLease::hold(client, operation, asked)))
    }

    /// Acquires an operation without a holder.
    ///
    /// # Errors
    /// `OPERATION_HELD` with the time to wait while it has a holder, and those of the contract.
    pub async fn acquire(
        client: &Client,
        request: v1::AcquireOperationRequest,
    ) -> Result<OperationLease, Error> {
        let asked = Instant::now();
        let operation = client.call(request).await?.operation.unwrap_or_default();
        Ok(OperationLease::hold(client, operation, asked))
    }

    fn hold(client: &Client, operation: v1::Operation, asked: Instant) -> OperationLease {
        let shared = Arc::<Shared>::default();
        let (tell, lost) = watch::channel(None);
        let renewing = Renewing {
            client: client.clone(),
            lease: lease_of(&operation),
            request: v1::HeartbeatOperationRequest {
                operation_id: operation.operation_id.clone(),
                fence: operation.fence,
                ..of_holder(&operation)
            },
            shared: shared.clone(),
            renewed: asked,
        };
        let heartbeats = tokio::spawn(async move {
            let lost = renewing.run(&tell).await;
            tell.send_replace(Some(lost));
        });
        OperationLease { client: client.clone(), operation, shared, lost, heartbeats }
    }

    /// Returns the operation as of its begin, acquisition or verification: target, payload,
    /// checkpoint, fence. In state VERIFYING first check how far the last holder came, and report
    /// it with [`verify`](OperationLease::verify).
    pub fn operation(&self) -> &v1::Operation {
        &self.operation
    }

    /// Sends the progress of the work with an immediate heartbeat: `checkpoint` for the holder that
    /// resumes it, `progress` for people (`step 3/7`).
    pub fn reached(&self, checkpoint: impl Into<Bytes>, progress: &str) {
        let (checkpoint, progress) = (Some(checkpoint.into()), Some(progress.to_string()));
        *lock(&self.shared) = HeartbeatContent { checkpoint, progress };
        self.shared.news.notify_one();
    }

    /// Resolves when the work has to stop. The lease of a cancelled operation is still renewed, to
    /// leave time to undo. Cancel safe.
    pub async fn lost(&mut self) -> Lost {
        let lost = self.lost.wait_for(Option::is_some).await;
        // Without a value the task has ended, and so have the heartbeats.
        lost.ok().and_then(|lost| lost.clone()).unwrap_or(Lost::Silence)
    }

    /// Reports how far the last holder came. Returns `true` if the work continues. Returns `false`
    /// if the operation has succeeded, or is blocked: with `Observed::Undetermined`, an operation
    /// that is not deterministic waits for an operator. [`operation`](OperationLease::operation)
    /// has the new state.
    ///
    /// # Errors
    /// Those of the contract.
    pub async fn verify(&mut self, observed: v1::Observed) -> Result<bool, Error> {
        let request = v1::VerifyOperationRequest {
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            observed: observed.into(),
            ..of_holder(&self.operation)
        };
        let operation = self.client.call(request).await?.operation.unwrap_or_default();
        self.operation.state = operation.state;
        Ok(operation.state() == v1::OperationState::Running)
    }

    /// Completes the operation. Returns the target version that was requested meanwhile, or an
    /// empty text.
    ///
    /// # Errors
    /// Those of the contract; a temporary one may be tried again.
    pub async fn complete(&self) -> Result<String, Error> {
        let request = v1::CompleteOperationRequest {
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            ..of_holder(&self.operation)
        };
        let operation = self.client.call(request).await?.operation.unwrap_or_default();
        self.heartbeats.abort();
        Ok(operation.next_target_version)
    }

    /// Reports that the attempt failed; `touched` if it has changed something. Returns the new
    /// state of the operation. An older server that refuses the reason of the error gets the
    /// report again without it.
    ///
    /// # Errors
    /// Those of the contract; a temporary one may be tried again.
    pub async fn fail(
        &self,
        error: v1::ErrorReport,
        touched: bool,
    ) -> Result<v1::Operation, Error> {
        let request = v1::FailOperationRequest {
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            error: Some(error.clone()),
            touched,
            ..of_holder(&self.operation)
        };
        let mut answer = self.client.call(request.clone()).await;
        if let Err(refused) = &answer
            && let Some(plain) = refused.without_reason(&error)
        {
            answer =
                self.client.call(v1::FailOperationRequest { error: Some(plain), ..request }).await;
        }
        let operation = answer?.operation.unwrap_or_default();
        self.heartbeats.abort();
        Ok(operation)
    }

    /// Releases the operation after the work has stopped: another holder may continue. Costs no
    /// attempt.
    ///
    /// # Errors
    /// Those of the contract; a temporary one may be tried again.
    pub async fn release(&self) -> Result<(), Error> {
        let request = v1::ReleaseOperationRequest {
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            ..of_holder(&self.operation)
        };
        self.client.call(request).await?;
        self.heartbeats.abort();
        Ok(())
    }
}

impl Drop for OperationLease {
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
    /// When the last successful heartbeat was sent: the lease lasts at least from then.
    renewed: Instant,
}

impl Renewing {
    /// Renews the lease until it is lost. A cancelled operation is renewed too: to undo takes time.
    async fn run(mut self, tell: &watch::Sender<Option<Lost>>) -> Lost {
        let interval = self.lease / RENEWALS_PER_LEASE;
        let mut next = self.renewed + interval;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.shared.news.notified() => {}
            }
            let asked = Instant::now();
            // The work must stop a third of the lease before its end, before another holder may
            // start.
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
        let HeartbeatContent { checkpoint, progress } = lock(&self.shared).clone();
        let request =
            v1::HeartbeatOperationRequest { checkpoint, progress, ..self.request.clone() };
        Ok(self.client.call(request).await?.operation.unwrap_or_default().state())
    }
}

/// Returns whether every later heartbeat would be refused as well.
fn is_final(reason: &str) -> bool {
    let over = ["STALE_FENCE", "OPERATION_STATE", "OPERATION_NOT_FOUND", "APPLICATION_NOT_FOUND"];
    over.contains(&reason)
}

async fn within<T>(end: Instant, what: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout_at(end, what).await.ok()
}

/// Returns a request of the unit that holds the operation.
fn of_holder<R: OfUnit>(operation: &v1::Operation) -> R {
    R::of_unit(&operation.namespace, &operation.application, &operation.holder)
}

fn lease_of(operation: &v1::Operation) -> Duration {
    span(operation.lease_duration).unwrap_or(LEASE_DEFAULT)
}

/// Locks even if poisoned: the content is consistent at any point.
fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, HeartbeatContent> {
    shared.content.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use axum::extract::Request as HttpRequest;
    use axum::routing::post;
    use tokio::sync::mpsc;
    use tonic::server::{Grpc, UnaryService};
    use tonic::{Code, Request, Response, Status};
    use tonic_prost::ProstCodec;
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;
    use crate::testing::serve;

    const PATH: &str = "/bellwether.v1.OperationService/FailOperation";

    /// A server of 0.1.0, which takes UPPER_SNAKE as a reason alone. It passes on each request.
    #[derive(Clone)]
    struct Older(mpsc::Sender<v1::FailOperationRequest>);

    impl UnaryService<v1::FailOperationRequest> for Older {
        type Response = v1::FailOperationResponse;
        type Future =
            Pin<Box<dyn Future<Output = Result<Response<Self::Response>, Status>> + Send>>;

        fn call(&mut self, request: Request<v1::FailOperationRequest>) -> Self::Future {
            let (requests, request) = (self.0.clone(), request.into_inner());
            Box::pin(async move {
                let error = request.error.clone().unwrap_or_default();
                requests.send(request).await.expect("the test listens");
                if error.reason.chars().any(char::is_lowercase) {
                    let details = ErrorDetails::with_bad_request_violation("error.reason", "is no");
                    let text = "error.reason is no UPPER_SNAKE";
                    return Err(Status::with_error_details(Code::InvalidArgument, text, details));
                }
                let operation = Some(v1::Operation::default());
                Ok(Response::new(v1::FailOperationResponse { operation, ..Default::default() }))
            })
        }
    }

    #[tokio::test]
    async fn an_older_server_gets_the_failure_without_its_reason() {
        let (sender, mut requests) = mpsc::channel(4);
        let older = Older(sender);
        let handler = move |request: HttpRequest| {
            let older = older.clone();
            async move { Grpc::new(ProstCodec::default()).unary(older, request).await }
        };
        let url = serve("127.0.0.1:0".parse().expect("an address"), PATH, post(handler));
        let client = Client::connect(&url).await.expect("an address");
        let lease = OperationLease::hold(&client, v1::Operation::default(), Instant::now());
        let error = v1::ErrorReport {
            system: "http".into(),
            code: "400".into(),
            domain: "aws".into(),
            reason: "ThrottlingException".into(),
            ..v1::ErrorReport::default()
        };
        lease.fail(error.clone(), true).await.expect("taken");
        let first = requests.recv().await.expect("a request");
        assert_eq!(first.error.as_ref(), Some(&error));
        let second = requests.recv().await.expect("another request");
        let plain = v1::ErrorReport { domain: "".into(), reason: "".into(), ..error };
        assert_eq!((second.error, second.touched), (Some(plain), true));
    }
}
