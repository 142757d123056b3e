//! Limits of the bytes that a layer above holds while it translates a message into gRPC.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::body::Takes;
use super::budget::{Budgets, Share};
use super::refusal;

/// The limits of one call, and the bytes that it holds. Dropping it returns the bytes.
pub struct Meter {
    takes: Takes,
    share: Share,
    held: usize,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Meter {
    pub(super) fn new(takes: Takes, budgets: Budgets) -> Meter {
        Meter { takes, share: Share::new(budgets), held: 0, timer: None }
    }

    /// Returns the maximum bytes of one message.
    pub fn message_bytes_max(&self) -> usize {
        self.takes.message_bytes_max
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
        self.share.grow(bytes).map_err(|budget| refusal::no_room(&budget))?;
        self.held += bytes;
        Ok(())
    }

    /// Returns all bytes to the budgets: the message is complete.
    pub fn release(&mut self) {
        self.share.release();
        self.held = 0;
        self.timer = None;
    }

    /// Fails if the rest of the message that has started took too long. If not, the task is woken
    /// when it has.
    pub fn poll_patience(&mut self, context: &mut Context<'_>) -> Result<(), Status> {
        if self.held == 0 {
            return Ok(());
        }
        let patience = self.takes.patience;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(patience)));
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Err(refusal::late(patience)),
            Poll::Pending => Ok(()),
        }
    }
}
