//! The body of an answer on its way to the connection. Its bytes count until they are written.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use http_body::{Body, Frame, SizeHint};

use super::room::{Room, Share};
use super::{size, untaken};

/// Bytes of an answer that its [`size::CALL`] covers, and bytes of a message of a stream that do
/// not count: watches send many of these, and each stream has few under way.
const SHORT_BYTES: usize = 1 << 10;

/// Bytes of the parts into which a long answer is divided on HTTP/2: a frame.
const PART_BYTES: usize = 16 << 10;

/// An answer of at most this size is not divided.
const UNDIVIDED_BYTES_MAX: usize = 4 << 10;

/// The body of an answer; `T` is dropped with it.
pub struct AnswerBody<B, T> {
    /// `None`: the answer has no body.
    inner: Option<B>,
    _open: T,
    counted: Counted,
    is_divided: bool,
    /// The part of a long answer that is not handed over yet, and what counts for all of it.
    rest: Bytes,
    of_rest: Option<Share>,
    /// The wait of a stream for room.
    wait: Option<BoxFuture<'static, ()>>,
}

/// What an answer counts against.
enum Counted {
    /// One answer: its share moves on with its last bytes.
    Call(Option<Share>),
    /// Many answers, each with a share of its own.
    Stream(Arc<Room>),
}

impl<B, T> AnswerBody<B, T> {
    /// Creates the body of a call that has taken `share`. That of a stream gives it back: streams
    /// have limits of their own. A body is divided for HTTP/2.
    pub fn new(inner: B, open: T, share: Share, is_stream: bool, is_divided: bool) -> Self {
        let counted = match is_stream {
            true => Counted::Stream(share.room().clone()),
            false => Counted::Call(Some(share)),
        };
        AnswerBody { counted, is_divided, ..AnswerBody::empty(open) }.with(inner)
    }

    /// Creates a body without bytes.
    pub fn empty(open: T) -> Self {
        AnswerBody {
            inner: None,
            _open: open,
            counted: Counted::Call(None),
            is_divided: false,
            rest: Bytes::new(),
            of_rest: None,
            wait: None,
        }
    }

    fn with(mut self, inner: B) -> Self {
        self.inner = Some(inner);
        self
    }

    /// Waits for room for the next message of a stream: it is rendered when it is polled.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Counted::Stream(room) = &self.counted else { return Poll::Ready(()) };
        if let Some(wait) = &mut self.wait {
            ready!(wait.as_mut().poll(context));
            self.wait = None;
        }
        if room.is_open() {
            return Poll::Ready(());
        }
        let wait = self.wait.insert(Box::pin(room.clone().opened()));
        wait.as_mut().poll(context).map(|()| self.wait = None)
    }

    /// Counts bytes that are there, and returns the first of them to hand over.
    fn handed(&mut self, bytes: Bytes) -> Taken {
        let len = bytes.len();
        let share = match &mut self.counted {
            Counted::Call(share) => share.take().map(|mut share| {
                if SHORT_BYTES < len {
                    share.resize(size::CALL + len);
                }
                share
            }),
            Counted::Stream(room) => (SHORT_BYTES < len).then(|| Share::force(room, len)),
        };
        if !self.is_divided || len <= UNDIVIDED_BYTES_MAX {
            return Taken { bytes, _share: share };
        }
        (self.rest, self.of_rest) = (bytes, share);
        self.next_part()
    }

    /// Returns the next part. The last one has a single byte: HTTP/2 asks for it when the window of
    /// the peer has room for all others, so the task of the stream, which can end it, lives until
    /// then.
    fn next_part(&mut self) -> Taken {
        let len = self.rest.len();
        let bytes = self.rest.split_to(PART_BYTES.min(len.saturating_sub(1)).max(1).min(len));
        let share = if self.rest.is_empty() { self.of_rest.take() } else { None };
        Taken { bytes, _share: share }
    }
}

impl<B, T> Body for AnswerBody<B, T>
where
    B: Body<Data = Bytes> + Unpin,
    T: Unpin,
{
    type Data = Taken;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Taken>, B::Error>>> {
        let this = self.get_mut();
        if !this.rest.is_empty() {
            untaken::waits_for_peer();
            return Poll::Ready(Some(Ok(Frame::data(this.next_part()))));
        }
        untaken::waits_for_handler();
        ready!(this.poll_room(context));
        let Some(inner) = &mut this.inner else { return Poll::Ready(None) };
        let polled = ready!(Pin::new(inner).poll_frame(context));
        untaken::waits_for_peer();
        Poll::Ready(polled.map(|frame| frame.map(|f| f.map_data(|bytes| this.handed(bytes)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.inner.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint);
        let rest = self.rest.len() as u64;
        let upper = hint.upper().map(|upper| upper + rest);
        // The upper bound first: it may not be below the lower one.
        upper.into_iter().for_each(|upper| hint.set_upper(upper));
        hint.set_lower(hint.lower() + rest);
        hint
    }
}

/// Bytes that the connection has, and has not written yet. The last bytes of a long answer count
/// for all of it.
pub struct Taken {
    bytes: Bytes,
    _share: Option<Share>,
}

impl Buf for Taken {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }
}
