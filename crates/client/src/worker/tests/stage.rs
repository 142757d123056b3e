//! A server whose part the test plays, message by message, over a real socket.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;

use axum::extract::Request as HttpRequest;
use axum::routing::post;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codec::Streaming;
use tonic::server::{Grpc, StreamingService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use crate::proto::v1::connect_request::Message as Said;
use crate::proto::v1::connect_response::Message as Heard;
use crate::proto::v1::{
    Ack, Collect, ConnectRequest, ConnectResponse, Hello, Level, StatusReport, Welcome,
};
use crate::testing::serve;
use crate::worker::{CollectRequest, Event, Events, Options, Worker};

const PATH: &str = "/bellwether.v1.WorkerService/Connect";

/// Long enough for a loaded machine; no test waits for its end.
const DEADLINE: Duration = Duration::from_secs(90);

/// Waits for something that must happen soon.
pub(super) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("happens")
}

/// Passes each session to the test.
#[derive(Clone)]
struct Scripted(mpsc::Sender<Call>);

/// One session, as the server sees it.
pub(super) struct Call {
    heard: Streaming<ConnectRequest>,
    say: mpsc::Sender<Result<ConnectResponse, Status>>,
}

impl StreamingService<ConnectRequest> for Scripted {
    type Response = ConnectResponse;
    type ResponseStream = ReceiverStream<Result<ConnectResponse, Status>>;
    type Future =
        Pin<Box<dyn Future<Output = Result<Response<Self::ResponseStream>, Status>> + Send>>;

    fn call(&mut self, request: Request<Streaming<ConnectRequest>>) -> Self::Future {
        let calls = self.0.clone();
        Box::pin(async move {
            let (say, said) = mpsc::channel(64);
            let call = Call { heard: request.into_inner(), say };
            calls.send(call).await.map_err(|_| Status::unavailable("the play is over"))?;
            Ok(Response::new(ReceiverStream::new(said)))
        })
    }
}

/// A server that listens.
pub(super) struct Stage {
    pub(super) url: String,
    calls: mpsc::Receiver<Call>,
}

impl Stage {
    pub(super) fn open() -> Stage {
        Stage::open_at("127.0.0.1:0".parse().expect("an address"))
    }

    pub(super) fn open_at(address: SocketAddr) -> Stage {
        let (sender, calls) = mpsc::channel(16);
        let service = Scripted(sender);
        let handler = move |request: HttpRequest| {
            let service = service.clone();
            async move { Grpc::new(ProstCodec::default()).streaming(service, request).await }
        };
        Stage { url: serve(address, PATH, post(handler)), calls }
    }

    /// Returns the next session, up to its `hello`.
    pub(super) async fn call(&mut self) -> (Call, Hello) {
        let mut call = soon(self.calls.recv()).await.expect("the server lives");
        match call.next().await {
            Some(Said::Hello(hello)) => (call, *hello),
            other => panic!("not hello: {other:?}"),
        }
    }

    /// Returns the next session, welcomed as incarnation 7.
    pub(super) async fn welcomed(&mut self) -> Call {
        let (call, _) = self.call().await;
        call.say(Heard::Welcome(mk_welcome())).await;
        call
    }
}

impl Call {
    pub(super) async fn say(&self, message: Heard) {
        let message = ConnectResponse { message: Some(message) };
        self.say.send(Ok(message)).await.expect("the worker listens");
    }

    pub(super) async fn ack(&self, seq: u64, revision: u64) {
        self.say(Heard::Ack(Ack { seq, revision })).await;
    }

    pub(super) async fn ask(&self, collect_id: &str, component: Option<&str>) {
        let component = component.map(str::to_string);
        let collect_id = collect_id.to_string();
        self.say(Heard::Collect(Collect { collect_id, component, ..Collect::default() })).await;
    }

    /// Ends the session.
    pub(super) async fn end(self, status: Status) {
        // The worker may be gone before it receives this.
        let _ = self.say.send(Err(status)).await;
    }

    /// Returns the next message; `None` at the end of the worker's messages.
    pub(super) async fn next(&mut self) -> Option<Said> {
        let message = soon(self.heard.message()).await;
        message.ok().flatten().map(|message| message.message.expect("a known message"))
    }

    /// Returns the next status: its `seq`, and component and message.
    pub(super) async fn report(&mut self) -> (u64, String) {
        match self.next().await {
            Some(Said::Report(report)) => {
                let status = &report.statuses[0];
                (report.seq, format!("{}={}", status.component, status.message))
            }
            other => panic!("not a report: {other:?}"),
        }
    }

    /// Returns the next pull set: its `seq`, the question it answers, and its messages.
    pub(super) async fn replace(&mut self) -> (u64, String, String) {
        loop {
            match self.next().await {
                Some(Said::Heartbeat(_)) => (),
                Some(Said::Replace(set)) => {
                    let messages: Vec<_> = set.statuses.into_iter().map(|s| s.message).collect();
                    return (set.seq, set.collect_id, messages.join(" "));
                }
                other => panic!("not a set: {other:?}"),
            }
        }
    }
}

pub(super) fn mk_welcome() -> Welcome {
    Welcome {
        session_id: "s1".into(),
        incarnation: 7,
        unacknowledged_max: 64,
        ..Welcome::default()
    }
}

pub(super) fn mk_status(component: &str, message: &str) -> StatusReport {
    StatusReport {
        component: component.into(),
        message: message.into(),
        level: Level::Active.into(),
        ..StatusReport::default()
    }
}

pub(super) fn mk_options(url: &str) -> Options {
    Options::new(url, "web", "web/0")
}

/// Returns a worker that answers each question with an empty set.
pub(super) fn mk_worker(url: &str) -> Worker {
    let nothing = |_: CollectRequest| async { Vec::new() };
    Worker::connect(mk_options(url), nothing).expect("an address")
}

/// Returns the next event that is not a connection attempt.
pub(super) async fn received(events: &mut Events) -> Event {
    loop {
        match soon(events.next()).await.expect("not over") {
            Event::Connecting { .. } => (),
            event => return event,
        }
    }
}

/// Returns a refusal in the server's format.
pub(super) fn mk_refusal(code: tonic::Code, reason: &str) -> Status {
    use tonic_types::{ErrorDetails, StatusExt};
    let mut details = ErrorDetails::new();
    let facts: [(String, String); 0] = [];
    details.set_error_info(reason, "bellwether", facts);
    Status::with_error_details(code, format!("refused: {reason}"), details)
}
