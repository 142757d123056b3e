//! Limits of the bytes that a layer above holds while it translates a message into gRPC.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::parts::TypeId;
use super::{Common, refusal};
use crate::service::caller::budget::{Budgets, Share};
use crate::service::code::ApiError;

/// The requests that a method accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::service) struct Takes {
    /// Whether a call has exactly one message.
    pub(in crate::service) one_message: bool,
    /// Maximum bytes of one message.
    pub(in crate::service) message_bytes_max: usize,
    /// How long the only message of a call, or a message that has started, may take to be complete.
    pub(in crate::service) timeout: Duration,
    /// The type of a message.
    pub(super) input: TypeId,
}

/// The limits of the shape of a message: how long its lists may be, and how much a compressed one
/// may become. Cheap to clone.
#[derive(Clone)]
pub struct Shape {
    takes: Takes,
    common: Arc<Common>,
}

impl Shape {
    pub(super) fn new(takes: Takes, common: Arc<Common>) -> Shape {
        Shape { takes, common }
    }

    /// Checks the parts of a message in JSON.
    ///
    /// # Errors
    /// The refusal, if there are too many.
    pub fn check_json(&self, json: &[u8]) -> Result<(), Status> {
        let checked = self.common.types.check_json(self.takes.input, json);
        checked.map_err(|found| refusal::too_many_parts(&found))
    }

    /// Returns the maximum bytes of one message.
    pub fn message_bytes_max(&self) -> usize {
        self.takes.message_bytes_max
    }

    /// Returns how many times its size a compressed message may become.
    pub fn compression_ratio_max(&self) -> usize {
        self.common.compression_ratio_max
    }
}

/// The limits of one call, and the bytes that it holds. Dropping it returns the bytes.
pub struct Meter {
    pub(in crate::service) takes: Takes,
    pub(in crate::service) share: Share,
    common: Arc<Common>,
    timer: Option<Pin<Box<dyn Future<Output = Status> + Send>>>,
}

/// How long the rest of a message may take after the server has started to shut down.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

impl Meter {
    pub(super) fn new(takes: Takes, budgets: Budgets, common: Arc<Common>) -> Meter {
        Meter { takes, share: Share::new(budgets), common, timer: None }
    }

    /// Checks the parts of a message in binary proto.
    pub(in crate::service) fn check_parts(&self, message: &[u8]) -> Result<(), Status> {
        let checked = self.common.types.check(self.takes.input, message);
        checked.map_err(|found| refusal::too_many_parts(&found))
    }

    /// Checks the size of a message.
    pub fn check(&self, bytes: usize) -> Result<(), Status> {
        match bytes <= self.takes.message_bytes_max {
            true => Ok(()),
            false => Err(refusal::too_large(bytes, self.takes.message_bytes_max)),
        }
    }

    /// Counts more bytes that are held.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Status> {
        self.share.grow(bytes).map_err(|budget| refusal::no_room(&budget))
    }

    /// Returns all bytes to the budgets: the message is complete.
    pub fn release(&mut self) {
        self.share.release();
        self.timer = None;
    }

    /// Fails if the client must send more, as `is_due` says, and has taken too long or the server
    /// stops. If it has not yet, the task is woken when it has.
    pub fn poll_timeout(&mut self, context: &mut Context<'_>, is_due: bool) -> Result<(), Status> {
        if !is_due {
            return Ok(());
        }
        let timeout = self.takes.timeout;
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(patience(timeout, self.common.draining.clone())));
        match timer.as_mut().poll(context) {
            Poll::Ready(status) => Err(status),
            Poll::Pending => Ok(()),
        }
    }
}

/// Resolves to the refusal when the server does not wait any longer.
async fn patience(timeout: Duration, draining: CancellationToken) -> Status {
    let drained = async {
        draining.cancelled().await;
        sleep(DRAIN_PATIENCE).await;
    };
    tokio::select! {
        () = sleep(timeout) => refusal::late(timeout),
        () = drained => ApiError::draining().into(),
    }
}
