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

use crate::service::caller::outgoing::{Resets, Watch};

/// Bytes that are sent without waiting for more.
const ENOUGH: usize = 16 << 10;
/// Maximum bytes that are held.
const HELD_MAX: usize = 64 << 10;

/// Reads `first`, then the rest. Holds written bytes until a flush, or until there are enough of
/// them.
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
    /// Ends the connection if its peer takes nothing.
    watch: Watch,
    /// Of HTTP/2. HTTP/1.1 keeps its bytes until they are written here, instead of a copy of them.
    resets: Option<Resets>,
}

impl<S> Cork<S> {
    /// Wraps `stream` of HTTP/2, of which `first` was read. Counts in `taken` what is sent.
    pub(super) fn http2(first: Bytes, stream: S, taken: Arc<AtomicU64>, watch: Watch) -> Cork<S> {
        let (held, sent, has_waited, resets) = (Vec::new(), 0, false, Some(Resets::default()));
        Cork { first, stream, taken, held, sent, has_waited, watch, resets }
    }

    /// Wraps `stream` of HTTP/1.1.
    pub(super) fn http1(first: Bytes, stream: S, taken: Arc<AtomicU64>, watch: Watch) -> Cork<S> {
        Cork { resets: None, ..Cork::http2(first, stream, taken, watch) }
    }
}

impl<S: AsyncWrite + Unpin> Cork<S> {
    /// Sends all held bytes.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.held.len() {
            let rest = &self.held[self.sent..];
            let polled = Pin::new(&mut self.stream).poll_write(context, rest);
            let sent = ready!(self.watched(polled, context))?;
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

    /// Watches whether the peer takes what is written.
    fn watched<T>(
        &mut self,
        polled: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        match polled {
            Poll::Ready(_) => self.watch.progress(),
            Poll::Pending => self.watch.poll_waiting(context)?,
        }
        polled
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
    /// Returns false for HTTP/2, which would write each message of 256 bytes or more separately.
    fn is_write_vectored(&self) -> bool {
        self.resets.is_none()
    }

    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if HELD_MAX <= self.held.len() {
            ready!(self.poll_send(context))?;
        }
        let taken = &bytes[..bytes.len().min(HELD_MAX - self.held.len())];
        let this = &mut *self;
        let start = this.held.len();
        this.held.extend_from_slice(taken);
        if let Some(resets) = &mut this.resets {
            resets.pass(&mut this.held[start..]);
        }
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
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.watched(polled, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;
    use crate::service::caller::outgoing::Untaken;
    use crate::telemetry::Metrics;

    const UNTAKEN_MAX: Duration = Duration::from_secs(30);

    fn watch() -> Watch {
        Watch::new(Untaken { max: UNTAKEN_MAX, metrics: Metrics::disabled() })
    }

    #[tokio::test]
    async fn every_written_byte_arrives() {
        let (near, mut far) = duplex(1000);
        let mut cork = Cork::http1(Bytes::new(), near, Arc::default(), watch());
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
        let mut cork = Cork::http1(Bytes::new(), near, Arc::default(), watch());
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

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_ends_its_connection_and_a_slow_one_does_not() {
        let (near, mut far) = duplex(1000);
        let mut cork = Cork::http1(Bytes::new(), near, Arc::default(), watch());
        let write = tokio::spawn(async move {
            let wrote = cork.write_all(&[7; 2 * HELD_MAX]).await;
            match wrote {
                Ok(()) => cork.flush().await,
                failed => failed,
            }
        });
        // A thousand bytes in each period are slow, and no reason to end.
        for _ in 0..5 {
            tokio::time::advance(UNTAKEN_MAX - Duration::from_secs(1)).await;
            far.read_exact(&mut [0; 1000]).await.unwrap();
            assert!(!write.is_finished());
        }
        let start = tokio::time::Instant::now();
        let error = write.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed().as_secs(), UNTAKEN_MAX.as_secs());
    }
}
