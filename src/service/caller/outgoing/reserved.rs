//! Room that one request takes for a long answer, in the layers that render it.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::budget::Full;
use super::room::{Room, Share};
use crate::sync::lock;

/// Room for the answer to a request of the layers above gRPC, which may make several calls for it:
/// an extension of those calls. They count for their principal here instead of each on its own.
#[derive(Clone)]
pub struct Reserved(Arc<Mutex<Held>>);

struct Held {
    bytes: usize,
    of_connection: Option<Share>,
    of_principal: Option<Share>,
    /// The count of the open call.
    open: Option<Box<dyn Send + Sync>>,
}

impl Reserved {
    /// Takes room for an answer of `bytes` as soon as there is some.
    ///
    /// # Errors
    /// The budget that has none.
    pub async fn wait(room: &Arc<Room>, bytes: usize) -> Result<Reserved, Full> {
        let of_connection = Some(Share::wait(room, bytes).await?);
        let held = Held { bytes, of_connection, of_principal: None, open: None };
        Ok(Reserved(Arc::new(Mutex::new(held))))
    }

    /// Returns whether an earlier call for the same request counts as open.
    pub fn is_open(&self) -> bool {
        lock(&self.0).open.is_some()
    }

    /// Counts the answer for a principal too, and keeps the count of its call: once, by its first
    /// call.
    ///
    /// # Errors
    /// If the principal has no room.
    pub async fn of_principal(
        &self,
        room: Option<&Arc<Room>>,
        open: Option<impl Send + Sync + 'static>,
    ) -> Result<(), Full> {
        let (bytes, is_known) = {
            let mut held = lock(&self.0);
            if let Some(open) = open.filter(|_| held.open.is_none()) {
                held.open = Some(Box::new(open));
            }
            (held.bytes, held.of_principal.is_some())
        };
        if let (Some(room), false) = (room, is_known) {
            let share = Share::wait(room, bytes).await?;
            lock(&self.0).of_principal = Some(share);
        }
        Ok(())
    }

    /// Counts the bytes of the rendered answer from now on. The connection counts them itself.
    pub fn rendered(&self, bytes: usize) {
        let mut held = lock(&self.0);
        held.of_connection = None;
        held.of_principal.iter_mut().for_each(|share| share.resize(bytes));
    }
}

/// The body of a long answer of gRPC, with its room.
pub struct HeldAnswer<B, T> {
    inner: B,
    of_connection: Option<Share>,
    of_principal: Option<Share>,
    _open: T,
}

impl<B, T> HeldAnswer<B, T> {
    /// Creates the body of an answer that is not rendered yet.
    pub fn new(inner: B, shares: (Option<Share>, Option<Share>), open: T) -> HeldAnswer<B, T> {
        let (of_connection, of_principal) = shares;
        HeldAnswer { inner, of_connection, of_principal, _open: open }
    }
}

impl<B, T> Body for HeldAnswer<B, T>
where
    B: Body<Data = Bytes> + Unpin,
    T: Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.get_mut();
        let polled = ready!(Pin::new(&mut this.inner).poll_frame(context));
        if let Some(Ok(frame)) = &polled
            && let Some(bytes) = frame.data_ref()
        {
            // The connection counts them itself.
            this.of_connection = None;
            this.of_principal.iter_mut().for_each(|share| share.resize(bytes.len()));
        }
        Poll::Ready(polled)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
