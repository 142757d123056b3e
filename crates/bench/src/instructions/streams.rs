//! A worker's stream through all layers of a server in this process, without a socket: the worker
//! sends its reports in chunks, and the next chunk after the acknowledgement.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Context as _;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::{ConnectReport, ConnectRequest, ConnectResponse, Hello};
use bellwether::proto::v1::{Level, StatusKind, StatusReport};
use bytes::{Buf, Bytes, BytesMut};
use http::{Request, Version};
use http_body::Frame;
use prost::Message;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::body::Body;
use tower::Service;

use super::calls::{add_frame, calls};

/// Flags of the command that valgrind runs.
#[derive(Debug, clap::Args)]
pub struct CountedStreams {
    /// Reports that are counted
    #[arg(long)]
    pub reports: u64,
    /// Reports in each chunk
    #[arg(long)]
    pub chunk: u64,
    /// Statuses that the reports change in turn
    #[arg(long, default_value_t = 256)]
    pub statuses: u64,
    /// Report a new message alone; the level stays
    #[arg(long)]
    pub steady: bool,
}

/// Statuses of a component.
const KEYS_PER_COMPONENT: u64 = 64;
/// Bytes before a message of gRPC: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// Runs under valgrind: starts a server without a port, opens a session, and reports. One thread
/// does all the work, and it is a new one, because the command itself runs in a runtime.
pub fn run(args: &CountedStreams) -> anyhow::Result<()> {
    let ended = std::thread::scope(|scope| scope.spawn(|| run_here(args)).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run_here(args: &CountedStreams) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut worker = runtime.block_on(Worker::connect())?;
    let first = chunks(0, args.statuses, args);
    exchange(&runtime, &mut worker, first)?;
    let counted = chunks(args.statuses, args.reports, args);
    counted_streams(&runtime, &mut worker, counted)
}

/// Returns reports that change one status each, with the last `seq` of each chunk.
fn chunks(before: u64, count: u64, args: &CountedStreams) -> Vec<(u64, Bytes)> {
    let chunk = args.chunk;
    let message = |seq: u64| {
        let (key, turn) = (seq % args.statuses, seq / args.statuses);
        let is_active = args.steady || turn.is_multiple_of(2);
        let level = if is_active { Level::Active } else { Level::Waiting };
        let status = StatusReport {
            component: format!("c{}", key / KEYS_PER_COMPONENT),
            key: format!("key-{:06}", key % KEYS_PER_COMPONENT),
            kind: StatusKind::Pull.into(),
            level: level.into(),
            message: format!("serving, request {seq:016x}"),
            ..StatusReport::default()
        };
        let report = ConnectReport { seq, statuses: vec![status] };
        ConnectRequest { message: Some(Said::Report(report)) }
    };
    let starts = (before..before + count).step_by(usize::try_from(chunk).unwrap_or(usize::MAX));
    let chunk_from = |start: u64| {
        let end = (start + chunk).min(before + count);
        let mut bytes = BytesMut::new();
        (start..end).for_each(|seq| add_frame(&mut bytes, &message(seq + 1)));
        (end, bytes.freeze())
    };
    starts.map(chunk_from).collect()
}

/// Sends the chunks. Valgrind finds this function by its name.
#[inline(never)]
fn counted_streams(
    runtime: &Runtime,
    worker: &mut Worker,
    chunks: Vec<(u64, Bytes)>,
) -> anyhow::Result<()> {
    exchange(runtime, worker, chunks)
}

fn exchange(
    runtime: &Runtime,
    worker: &mut Worker,
    chunks: Vec<(u64, Bytes)>,
) -> anyhow::Result<()> {
    runtime.block_on(async {
        for (last, chunk) in chunks {
            worker.said.send(Ok(chunk))?;
            while !matches!(worker.next().await?, Told::Ack(ack) if ack.seq == last) {}
        }
        Ok(())
    })
}

/// The worker's end of an open session.
struct Worker {
    said: mpsc::UnboundedSender<Result<Bytes, Infallible>>,
    answers: Pin<Box<dyn http_body::Body<Data = Bytes, Error = tonic::Status>>>,
    /// Bytes that have arrived and are not read.
    told: BytesMut,
}

impl Worker {
    async fn connect() -> anyhow::Result<Worker> {
        let (said, sent) = mpsc::unbounded_channel();
        let hello = Hello { application: "web".into(), unit: "web/0".into(), ..Hello::default() };
        let hello = ConnectRequest { message: Some(Said::Hello(Box::new(hello))) };
        let mut bytes = BytesMut::new();
        add_frame(&mut bytes, &hello);
        said.send(Ok(bytes.freeze()))?;
        let request = Request::post("/bellwether.v1.WorkerService/Connect")
            .version(Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Body::new(Sent(sent)))?;
        let response = calls().call(request).await;
        let body = response.map_err(|error| anyhow::anyhow!("{error:?}"))?.into_body();
        let mut worker = Worker { said, answers: Box::pin(body), told: BytesMut::new() };
        while !matches!(worker.next().await?, Told::Welcome(_)) {}
        Ok(worker)
    }

    async fn next(&mut self) -> anyhow::Result<Told> {
        loop {
            if let Some(message) = self.read()? {
                return Ok(message);
            }
            let frame = std::future::poll_fn(|context| self.answers.as_mut().poll_frame(context));
            let frame = frame.await.context("the stream has ended")??;
            let data = frame.into_data();
            self.told.extend(data.map_err(|trailers| anyhow::anyhow!("{trailers:?}"))?);
        }
    }

    /// Takes the next whole message off the bytes that have arrived.
    fn read(&mut self) -> anyhow::Result<Option<Told>> {
        let Some((prefix, rest)) = self.told.split_at_checked(PREFIX_BYTES) else {
            return Ok(None);
        };
        let bytes = usize::try_from((&prefix[1..]).get_u32())?;
        if rest.len() < bytes {
            return Ok(None);
        }
        let mut message = self.told.split_to(PREFIX_BYTES + bytes);
        message.advance(PREFIX_BYTES);
        let response = ConnectResponse::decode(message)?;
        Ok(Some(response.message.context("the server sent an empty message")?))
    }
}

/// The worker's messages, as they are sent.
struct Sent(mpsc::UnboundedReceiver<Result<Bytes, Infallible>>);

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|data| data.map(|data| data.map(Frame::data)))
    }
}
