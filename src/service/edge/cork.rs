//! A connection whose first bytes were already read. It collects writes until all tasks that are
//! ready have written, and then sends them in one system call.
//!
//! If one change goes to ten thousand streams, each stream wakes the task of their connection.
//! Without this module the task would send the first message before the second stream has written:
//! one system call for every message, a third of all work. So the first flush yields to the other
//! tasks.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are sent without waiting for more.
const ENOUGH: usize = 16 << 10;
/// Maximum bytes that are held.
const HELD_MAX: usize = 64 << 10;

/// Reads `first`, then the rest. Holds written bytes until a flush, or until there are enough of
/// them.
#[derive(Debug)]
pub(super) struct Cork<S> {
    first: Bytes,
    stream: S,
    /// Bytes that the client took, in total.
    taken: Arc<AtomicU64>,
    /// Without memory while it is empty, because most connections are silent.
    held: Vec<u8>,
    sent: usize,
    /// Whether the other tasks have had their turn.
    has_waited: bool,
}

impl<S> Cork<S> {
    /// Wraps `stream`, of which `first` was read. Counts in `taken` what is sent.
    pub(super) fn new(first: Bytes, stream: S, taken: Arc<AtomicU64>) -> Cork<S> {
        Cork { first, stream, taken, held: Vec::new(), sent: 0, has_waited: false }
    }
}

impl<S: AsyncWrite + Unpin> Cork<S> {
    /// Sends all held bytes.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.held.len() {
            let rest = &self.held[self.sent..];
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, rest))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += sent;
            self.taken.fetch_add(sent as u64, Ordering::Relaxed);
        }
        self.held = Vec::new();
        self.sent = 0;
        self.has_waited = false;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Cork<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.first.len().min(buffer.remaining());
        buffer.put_slice(&self.first[..count]);
        self.first.advance(count);
        if self.first.is_empty() {
            self.first = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cork<S> {
    // Not vectored: HTTP/2 would write each message of 256 bytes or more separately.

    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if HELD_MAX <= self.held.len() {
            ready!(self.poll_send(context))?;
        }
        let taken = &bytes[..bytes.len().min(HELD_MAX - self.held.len())];
        self.held.extend_from_slice(taken);
        Poll::Ready(Ok(taken.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_little = (1..ENOUGH).contains(&self.held.len());
        if is_little && !std::mem::replace(&mut self.has_waited, true) {
            // The task runs again after all tasks that are ready now.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn every_written_byte_arrives() {
        let (near, mut far) = duplex(1000);
        let mut cork = Cork::new(Bytes::new(), near, Arc::default());
        let bytes: Vec<u8> = (0..3 * HELD_MAX + 7).map(|at| (at % 251) as u8).collect();
        let expected = bytes.clone();
        let sender = tokio::spawn(async move {
            for part in bytes.chunks(999) {
                cork.write_all(part).await.unwrap();
            }
            cork.shutdown().await.unwrap();
            assert_eq!(cork.held.capacity(), 0);
        });
        let mut read = Vec::new();
        far.read_to_end(&mut read).await.unwrap();
        sender.await.unwrap();
        assert!(read == expected);
    }

    #[tokio::test]
    async fn a_flush_lets_others_add_to_it() {
        let (near, mut far) = duplex(HELD_MAX);
        let mut cork = Cork::new(Bytes::new(), near, Arc::default());
        let mut context = Context::from_waker(Waker::noop());
        cork.write_all(b"one ").await.unwrap();
        assert!(Pin::new(&mut cork).poll_flush(&mut context).is_pending());
        cork.write_all(b"two").await.unwrap();
        assert!(Pin::new(&mut cork).poll_flush(&mut context).is_ready());
        let mut read = [0; 100];
        let count = far.read(&mut read).await.unwrap();
        assert_eq!(&read[..count], b"one two");
        // The next flush waits again; a flush of enough bytes does not.
        cork.write_all(b"three").await.unwrap();
        assert!(Pin::new(&mut cork).poll_flush(&mut context).is_pending());
        cork.write_all(&[0; ENOUGH]).await.unwrap();
        assert!(Pin::new(&mut cork).poll_flush(&mut context).is_ready());
        cork.write_all(&[0; ENOUGH]).await.unwrap();
        assert!(Pin::new(&mut cork).poll_flush(&mut context).is_ready());
    }
}
