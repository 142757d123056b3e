//! Bodies as clients may send them, split in every way that a network can.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::{Body as _, Frame};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic_types::StatusExt;

use super::body::WholeBody;
use super::meter::{Meter, Takes};
use super::parts::TypeId;
use super::{Common, Intake, Limits};
use crate::service::caller::budget::Budget;
use crate::service::descriptor;
use crate::service::method::{RequestSize, TABLE};
use crate::service::offload::{LARGE_BYTES, Offload};
use crate::telemetry::Metrics;

const TIMEOUT: Duration = Duration::from_secs(10);

fn takes(one_message: bool) -> Takes {
    Takes { one_message, message_bytes_max: 100, timeout: TIMEOUT, input: TypeId::default() }
}

/// Returns a body with this budget.
fn whole_body(body: Body, one_message: bool, budget: Arc<Budget>) -> WholeBody {
    WholeBody::new(body, Meter::new(takes(one_message), Arc::from([budget]), Arc::default()))
}

/// A frame of gRPC.
fn frame(flag: u8, promised: usize, sent: usize) -> Vec<u8> {
    let mut bytes = vec![flag];
    bytes.extend(u32::try_from(promised).unwrap().to_be_bytes());
    bytes.extend((0..sent).map(|at| at as u8));
    bytes
}

fn whole(length: usize) -> Vec<u8> {
    frame(0, length, length)
}

/// A body of these pieces, which then ends or stays open.
struct Pieces {
    pieces: std::collections::VecDeque<Bytes>,
    stays_open: bool,
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.pieces.pop_front() {
            Some(piece) => std::task::Poll::Ready(Some(Ok(Frame::data(piece)))),
            None if self.stays_open => std::task::Poll::Pending,
            None => std::task::Poll::Ready(None),
        }
    }
}

fn mk_body(bytes: &[u8], piece: usize, stays_open: bool) -> Body {
    let pieces = bytes.chunks(piece).map(Bytes::copy_from_slice).collect();
    Body::new(Pieces { pieces, stays_open })
}

/// Returns everything that the body yields, and how it ended.
async fn read(body: WholeBody) -> (Vec<Bytes>, Result<(), Status>) {
    let mut body = Box::pin(body);
    let mut out = Vec::new();
    let frames = stream::poll_fn(|context| body.as_mut().poll_frame(context));
    let mut frames = std::pin::pin!(frames);
    while let Some(frame) = frames.next().await {
        match frame {
            Ok(frame) => out.extend(frame.into_data().ok()),
            Err(status) => return (out, Err(status)),
        }
    }
    (out, Ok(()))
}

fn budget(max: usize) -> Arc<Budget> {
    Budget::new("bytes", max)
}

fn reason(status: &Status) -> String {
    status.get_details_error_info().unwrap().reason
}

#[tokio::test]
async fn whole_messages_come_out_however_they_arrive() {
    let mut sent = Vec::new();
    for length in [0, 1, 4, 5, 6, 99, 100, 0, 50] {
        sent.extend(whole(length));
    }
    for piece in 1..=sent.len() {
        let all = budget(1000);
        let body = whole_body(mk_body(&sent, piece, false), false, all.clone());
        let (out, ended) = read(body).await;
        ended.unwrap();
        assert_eq!(out.concat(), sent, "in pieces of {piece}");
        // No chunk ends within a message.
        for chunk in out {
            let mut rest = &chunk[..];
            while let Some(prefix) = super::frame::Prefix::read(rest) {
                rest = &rest[prefix.frame_bytes()..];
            }
            assert!(rest.is_empty(), "in pieces of {piece}");
        }
        assert_eq!(all.used(), 0);
    }
}

#[tokio::test]
async fn malformed_requests_are_refused_in_any_pieces() {
    let two = [whole(3), whole(3)].concat();
    let cases: [(bool, Vec<u8>, &str); 9] = [
        (true, vec![], "WRONG_MESSAGE_COUNT"),
        (true, two.clone(), "WRONG_MESSAGE_COUNT"),
        (true, frame(0, 10, 9), "MALFORMED_REQUEST"),
        (false, frame(0, 10, 9), "MALFORMED_REQUEST"),
        (false, vec![0, 0], "MALFORMED_REQUEST"),
        (false, frame(7, 1, 1), "MALFORMED_REQUEST"),
        (true, frame(1, 10, 10), "UNANNOUNCED_COMPRESSION"),
        (true, frame(0, 101, 1), "REQUEST_TOO_LARGE"),
        (false, [two, frame(0, 4 << 20, 0)].concat(), "REQUEST_TOO_LARGE"),
    ];
    for (one_message, sent, expected) in cases {
        for piece in 1..=sent.len().max(1) {
            let body = mk_body(&sent, piece, false);
            let body = whole_body(body, one_message, budget(1000));
            let (_, ended) = read(body).await;
            assert_eq!(reason(&ended.unwrap_err()), expected, "{sent:?} in pieces of {piece}");
        }
    }
}

/// A hello may arrive in one piece with a message that is too large, or for which there is no room.
#[tokio::test]
async fn complete_messages_are_passed_on_before_a_refused_one() {
    let two = [whole(3), whole(4)].concat();
    for (refused, expected) in
        [(frame(0, 101, 0), "REQUEST_TOO_LARGE"), (frame(0, 90, 80), "RATE_LIMITED")]
    {
        let sent = [two.clone(), refused].concat();
        for piece in 1..=sent.len() {
            let body = mk_body(&sent, piece, false);
            let body = whole_body(body, false, budget(20));
            let (out, ended) = read(body).await;
            assert_eq!(out.concat(), two, "in pieces of {piece}");
            assert_eq!(reason(&ended.unwrap_err()), expected, "in pieces of {piece}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_complete_in_time_or_refused() {
    let start = tokio::time::Instant::now();
    for (one_message, sent) in [(true, vec![]), (true, whole(5)), (false, frame(0, 50, 3))] {
        let body = mk_body(&sent, 100, true);
        let body = whole_body(body, one_message, budget(1000));
        let (_, ended) = read(body).await;
        assert_eq!(reason(&ended.unwrap_err()), "REQUEST_INCOMPLETE", "{sent:?}");
    }
    assert_eq!(start.elapsed(), 3 * TIMEOUT);
    // A stream may be silent between two messages without a limit.
    let body = whole_body(mk_body(&whole(5), 3, true), false, budget(1000));
    assert!(tokio::time::timeout(100 * TIMEOUT, read(body)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_waits_a_second_for_the_rest_of_a_message() {
    let start = tokio::time::Instant::now();
    let common = Arc::new(Common::default());
    common.draining.cancel();
    let mk = |one_message, sent: &[u8]| {
        let meter = Meter::new(takes(one_message), Arc::from([budget(1000)]), common.clone());
        WholeBody::new(mk_body(sent, 100, true), meter)
    };
    for (one_message, sent) in [(true, vec![]), (false, frame(0, 50, 3))] {
        let (_, ended) = read(mk(one_message, &sent)).await;
        assert_eq!(reason(&ended.unwrap_err()), "DRAINING", "{sent:?}");
    }
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    // Between two messages the stream is ended by its handler.
    assert!(tokio::time::timeout(TIMEOUT, read(mk(false, &whole(5)))).await.is_err());
}

#[tokio::test]
async fn kept_bytes_are_counted_and_released() {
    let all = budget(60);
    let mk = |sent: &[u8], stays_open| whole_body(mk_body(sent, 7, stays_open), false, all.clone());
    // An incomplete message costs only its received bytes.
    let mut held = Box::pin(mk(&frame(0, 90, 40), true));
    let polled = futures_util::poll!(std::future::poll_fn(|c| held.as_mut().poll_frame(c)));
    assert!(polled.is_pending());
    assert_eq!(all.used(), 45);
    let (_, ended) = read(mk(&whole(30), false)).await;
    assert_eq!(reason(&ended.unwrap_err()), "RATE_LIMITED");
    drop(held);
    assert_eq!(all.used(), 0);
    let (out, ended) = read(mk(&whole(50), false)).await;
    ended.unwrap();
    assert_eq!(out.concat(), whole(50));
}

#[test]
fn every_method_has_its_limits() {
    let limits = Limits {
        large_bytes_max: 4 << 20,
        small_bytes_max: 64 << 10,
        timeout: TIMEOUT,
        compression_ratio_max: 100,
        statuses_max: 0,
    };
    let (offload, draining) = (Offload::new(1, Metrics::disabled()), CancellationToken::new());
    let layer = Intake::new(TABLE, descriptor::served(), limits, Arc::from([]), offload, draining);
    for method in TABLE {
        let is_large = method.request == RequestSize::Large;
        let bytes_max = layer.takes(&method.path()).message_bytes_max;
        assert_eq!(bytes_max, if is_large { 4 << 20 } else { 64 << 10 }, "{method:?}");
    }
    let of = |path: &str| layer.takes(path);
    assert_eq!(of("/bellwether.v1.ReportService/ReportStatus").message_bytes_max, 64 << 10);
    assert_eq!(of("/grpc.health.v1.Health/Check").message_bytes_max, 64 << 10);
    assert!(of("/bellwether.v1.ReportService/ReportStatus").one_message);
    assert!(of("/grpc.health.v1.Health/Watch").one_message);
    assert!(!of("/bellwether.v1.WorkerService/Connect").one_message);
    assert!(!of("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo").one_message);
}

/// The only thread of this runtime serves another task while a decoder takes long.
#[tokio::test]
async fn a_large_message_is_decoded_while_other_tasks_are_served() {
    let (serve, is_served) = std::sync::mpsc::channel();
    let is_served = Arc::new(std::sync::Mutex::new(is_served));
    let inner = tower::service_fn(move |_: Request<Body>| {
        let is_served = is_served.clone();
        async move {
            let waited = is_served.lock().unwrap().recv_timeout(TIMEOUT).is_ok();
            let answer = Response::builder().extension(waited).body(Body::empty());
            Ok::<_, Infallible>(answer.unwrap())
        }
    });
    let limits = Limits {
        large_bytes_max: 4 << 20,
        small_bytes_max: 64 << 10,
        timeout: TIMEOUT,
        compression_ratio_max: 100,
        statuses_max: 0,
    };
    let (all, offload) = (budget(1 << 20), Offload::new(1, Metrics::disabled()));
    let shared = Arc::from([all.clone()]);
    let draining = CancellationToken::new();
    let intake = Intake::new(TABLE, descriptor::served(), limits, shared, offload, draining);
    let takes = intake.takes("/bellwether.v1.ReportService/ReplaceStatuses");
    let call = |bytes: usize| {
        let request = Request::new(mk_body(&whole(bytes), 8 << 20, false));
        intake.call(takes, inner.clone(), request)
    };
    let (answer, ()) = tokio::join!(call(LARGE_BYTES + 1), async { serve.send(()).unwrap() });
    assert_eq!(answer.unwrap().extensions().get(), Some(&true));
    assert_eq!(all.used(), 0, "the bytes are returned with the body");
    // The bytes of a message that waits for its turn count.
    let refused = call((1 << 20) + 1).await.unwrap();
    let refused = Status::from_header_map(refused.headers()).unwrap();
    assert_eq!(reason(&refused), "RATE_LIMITED");
}
