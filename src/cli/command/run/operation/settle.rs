//! The end of an operation: complete, fail or release. Each is sent until the server answers, for
//! as long as the lease lasts: after that, another run may hold the operation.

use std::time::Duration;

use bellwether_client::proto::OfUnit;
use bellwether_client::{Client, Error};

use crate::cli::command::run::keeper::boot_clock;
use crate::proto::v1::{
    CompleteOperationRequest, ErrorReport, FailOperationRequest, Observed, Operation,
    ReleaseOperationRequest, VerifyOperationRequest,
};

const PAUSE: Duration = Duration::from_millis(500);

/// Settles one operation.
#[derive(Debug)]
pub struct Settler {
    /// The connection.
    pub client: Client,
    /// The operation as it is held.
    pub operation: Operation,
    /// The end of its lease, by the clock since the boot.
    pub until: Duration,
}

impl Settler {
    /// Reports that the work is done.
    ///
    /// # Errors
    /// The last answer, if there was no better one in time.
    pub async fn complete(&self) -> Result<Operation, Error> {
        let request = CompleteOperationRequest {
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            ..self.of_holder()
        };
        let call = async || self.client.call(request.clone()).await.map(|a| a.operation);
        self.insist(call).await
    }

    /// Reports that the command failed.
    ///
    /// # Errors
    /// Those of [`Settler::complete`].
    pub async fn fail(&self, error: ErrorReport, touched: bool) -> Result<Operation, Error> {
        let request = FailOperationRequest {
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            error: Some(error),
            touched,
            ..self.of_holder()
        };
        let call = async || self.client.call(request.clone()).await.map(|a| a.operation);
        self.insist(call).await
    }

    /// Hands the work over to the next run.
    ///
    /// # Errors
    /// Those of [`Settler::complete`].
    pub async fn release(&self) -> Result<Operation, Error> {
        let request = ReleaseOperationRequest {
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            ..self.of_holder()
        };
        let call = async || self.client.call(request.clone()).await.map(|a| a.operation);
        self.insist(call).await
    }

    /// Reports how far the interrupted run came.
    ///
    /// # Errors
    /// Those of [`Settler::complete`].
    pub async fn verify(&self, observed: Observed) -> Result<Operation, Error> {
        let request = VerifyOperationRequest {
            operation_id: self.operation.operation_id.clone(),
            fence: self.operation.fence,
            observed: observed.into(),
            ..self.of_holder()
        };
        let call = async || self.client.call(request.clone()).await.map(|a| a.operation);
        self.insist(call).await
    }

    fn of_holder<R: OfUnit>(&self) -> R {
        let Operation { namespace, application, holder, .. } = &self.operation;
        R::of_unit(namespace, application, holder)
    }

    async fn insist(
        &self,
        call: impl AsyncFn() -> Result<Option<Operation>, Error>,
    ) -> Result<Operation, Error> {
        loop {
            match call().await {
                Ok(operation) => return Ok(operation.unwrap_or_default()),
                Err(error) if error.is_passing() && error.reason() != Some("STALE_FENCE") => {
                    if self.until <= boot_clock::now() + PAUSE {
                        return Err(error);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
