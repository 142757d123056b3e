//! `WorkerService`: sessions of workers, and units without one.

use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::Either;
use futures_util::stream::{self, BoxStream};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request, Response, Status, Streaming};
use tower::service_fn;
use tracing::Instrument;

use crate::aggregator;
use crate::domain::app::AppState;
use crate::domain::command::{self, Command};
use crate::domain::name::AppName;
use crate::domain::request::Outcome;
use crate::domain::status::Kind;
use crate::domain::unit::Reporter;
use crate::proto::v1;
use crate::proto::v1::connect_request::Message;
use crate::proto::v1::worker_service_server::WorkerService;
use crate::service::call::Access;
use crate::service::caller::{self, Account, Caller, Class};
use crate::service::code::ApiError;
use crate::service::convert::rules::ErrorRules;
use crate::service::convert::{self, OnePassCodec, PAGE_BYTES_MAX, PlainReport, Received};
use crate::service::grpc::handlers::{Applied, Handlers};
use crate::service::grpc::watch::share;
use crate::service::offload::Offload;
use crate::session::{End, Inbound, Outbound, Session, Sessions, Welcome};
use crate::telemetry::OffloadedWork;

/// Response stream of a session.
type ConnectStream = BoxStream<'static, Result<v1::ConnectResponse, Status>>;

/// Maximum queued messages to one worker, besides the buffers of its connection.
const QUEUED_MAX: usize = 16;
/// How long a new stream may take to send `hello`.
const HELLO_DEADLINE: Duration = Duration::from_secs(10);

impl Handlers {
    fn connect_worker(
        &self,
        request: Request<Streaming<Received>>,
    ) -> Result<Response<ConnectStream>, Status> {
        let caller = request.extensions().get::<Caller>();
        // Counted from the first byte of the stream, because a stream without a message needs a
        // task too.
        let share = share(caller, caller::Kind::Session, self.share_max, |full| {
            let names = ("sessions_per_peer_max", "sessions_per_principal_max");
            full.problem("sessions", names, "try again later, or at another replica")
        })?;
        let account = caller.and_then(Caller::account).cloned();
        let (access, mut incoming) = Access::open(request);
        let (answers, answered) = mpsc::channel(QUEUED_MAX);
        let (ended, end) = oneshot::channel();
        // The first message of the stream names it, and no answer comes before.
        let app = Arc::new(OnceLock::new());
        let named = app.clone();
        let (rules, offload) = (self.parts.error_rules.clone(), self.offload.clone());
        let sessions = self.parts.sessions.clone();
        // A separate task, so that work in progress is finished when the worker disconnects.
        let served = async move {
            let _share = share;
            let opened = open(&sessions, &access, &offload, &mut incoming).await;
            let status = match opened {
                Ok((app, opened)) => {
                    let reader = Reader { app: app.clone(), rules, account, offload };
                    named.get_or_init(|| app);
                    serve(opened, reader, incoming, answers).await.err()
                }
                Err(status) => Some(status),
            };
            // Fails if the stream is gone and no worker receives the status.
            let _ = ended.send(status);
        };
        tokio::spawn(served.in_current_span());
        let end = stream::once(end).filter_map(async |status| status.ok().flatten().map(Err));
        let answers = ReceiverStream::new(answered);
        let answers = answers
            .filter_map(move |word| ready(app.get().map(|app| Ok(convert::outbound(word, app)))));
        Ok(Response::new(Box::pin(answers.chain(end))))
    }
}

#[tonic::async_trait]
impl WorkerService for Handlers {
    type ConnectStream = ConnectStream;

    async fn connect(
        &self,
        _: Request<Streaming<v1::ConnectRequest>>,
    ) -> Result<Response<ConnectStream>, Status> {
        Err(Status::internal("streams are served by service::route, which did not see this call"))
    }

    async fn register_unit(
        &self,
        request: Request<v1::RegisterUnitRequest>,
    ) -> Result<Response<v1::RegisterUnitResponse>, Status> {
        let (app, _, (who, ttl, id)) = convert::open(request, convert::register_unit)?;
        let unit = who.unit.clone();
        let command = Command::Register(who, ttl);
        let Outcome { incarnation, revision, .. } =
            self.apply(&app, command::Request { id, command }).await?;
        let left = |state: &AppState| {
            let of_unit = state.statuses().of(&unit, None);
            let pushed = of_unit.filter(|(key, _)| key.kind == Kind::Push);
            let retained = pushed.map(|(key, status)| convert::status_report(key, status));
            let pending = state.pending_operations(&unit);
            let operations = pending.iter().map(|p| convert::pending(&app, p)).collect();
            (convert::first_of(retained, PAGE_BYTES_MAX), operations)
        };
        let ((retained, rest), operations) = self.reads.after(&app, revision, left).await?;
        let interval = ttl.map_or(self.parts.sessions.heartbeat_interval(), |ttl| ttl / 3);
        Ok(Response::new(v1::RegisterUnitResponse {
            incarnation,
            retained,
            retained_rest_count: convert::count(rest),
            operations,
            heartbeat_interval: Some(convert::duration(interval)),
            revision: revision.0,
        }))
    }

    async fn announce_stop(
        &self,
        request: Request<v1::AnnounceStopRequest>,
    ) -> Result<Response<v1::AnnounceStopResponse>, Status> {
        let applied = self.handle(request, convert::announce_stop).await?;
        let Applied { revision, changed, .. } = applied;
        Ok(Response::new(v1::AnnounceStopResponse { revision, changed }))
    }

    async fn request_callback(
        &self,
        request: Request<v1::RequestCallbackRequest>,
    ) -> Result<Response<v1::RequestCallbackResponse>, Status> {
        let applied = self.handle(request, convert::request_callback).await?;
        let Applied { revision, changed, .. } = applied;
        Ok(Response::new(v1::RequestCallbackResponse { revision, changed }))
    }
}

/// Opens a session by the first message of a stream.
async fn open(
    sessions: &Sessions,
    access: &Access,
    offload: &Offload,
    incoming: &mut Streaming<Received>,
) -> Result<(AppName, (Session, Welcome)), Status> {
    let first = tokio::select! {
        first = tokio::time::timeout(HELLO_DEADLINE, incoming.message()) => first,
        () = sessions.draining() => return Err(ApiError::draining().into()),
    };
    let first = match first.ok().transpose()?.flatten() {
        Some(large @ Received::Large(_)) => {
            Some(offload.run(OffloadedWork::Decode, move || large.decoded()).await?)
        }
        other => other,
    };
    let first = match first {
        Some(Received::Other(message)) => message,
        // A report, or nothing in time.
        Some(Received::Plain(_) | Received::Large(_)) | None => None,
    };
    let hello = convert::hello(access, first)?;
    let app = hello.app.clone();
    let opened = sessions.open(hello).await.map_err(|error| ApiError::of_open(&app, error))?;
    Ok((app, opened))
}

/// Reads the messages of one worker.
#[derive(Clone)]
struct Reader {
    app: AppName,
    rules: ErrorRules,
    account: Option<Arc<Account>>,
    offload: Offload,
}

impl Reader {
    /// Decodes and converts a large message beside the runtime.
    ///
    /// # Errors
    /// If the message does not decode. That ends the stream.
    async fn read_large(
        &self,
        reporter: &Reporter,
        received: Received,
    ) -> Result<Inbound<ApiError>, Status> {
        let (reader, reporter) = (self.clone(), reporter.clone());
        let read = move || received.decoded().map(|message| reader.read(&reporter, message));
        self.offload.run(OffloadedWork::Decode, read).await
    }

    /// Converts a message.
    fn read(&self, reporter: &Reporter, received: Received) -> Inbound<ApiError> {
        match (refused(self.account.as_deref(), &received), received) {
            (Some(refused), _) => refused,
            (None, Received::Plain(PlainReport { seq, kind, status })) => {
                let command = Command::Report(reporter.clone(), kind, status);
                Inbound::Command { seq, command, answers: None }
            }
            (None, Received::Other(message)) => {
                convert::inbound((&self.app, reporter), &self.rules, message)
            }
            (None, Received::Large(_)) => {
                convert::inbound((&self.app, reporter), &self.rules, None)
            }
        }
    }
}

/// Serves one stream to its end. Returns `Ok` if the worker said goodbye or disconnected.
async fn serve(
    (session, welcome): (Session, Welcome),
    reader: Reader,
    incoming: Streaming<Received>,
    answers: mpsc::Sender<Outbound<ApiError>>,
) -> Result<(), Status> {
    let reporter = session.reporter();
    // A stream that cannot be read has ended; the error is for a worker that still reads.
    let unread = OnceLock::new();
    let inbound = incoming
        .then(|message| match message {
            Ok(large @ Received::Large(_)) => Either::Left(reader.read_large(&reporter, large)),
            other => Either::Right(ready(other.map(|message| reader.read(&reporter, message)))),
        })
        .scan((), |(), message| ready(message.map_err(|status| unread.set(status)).ok()));
    let inbound = pin!(inbound);
    // The channel is empty, so the first message fits.
    let _ = answers.try_send(Outbound::Welcome(Box::new(welcome)));
    match session.run(inbound, answers).await {
        End::Goodbye | End::Closed => unread.into_inner().map_or(Ok(()), Err),
        End::Silent(ttl) => Err(ApiError::silent(ttl).into()),
        End::Superseded { app, why, .. } => {
            Err(ApiError::of(&app, aggregator::Error::Rejected(why.into())).into())
        }
        End::Draining => Err(ApiError::draining().into()),
        End::Broken(problem) => Err(problem.into()),
    }
}

/// Counts a message against the rate of reports, and returns its refusal above that. `hello`,
/// `stopping`, `goodbye` and heartbeats always pass.
fn refused(account: Option<&Account>, received: &Received) -> Option<Inbound<ApiError>> {
    let seq = match received {
        Received::Plain(report) => report.seq,
        Received::Large(_) => return None,
        Received::Other(message) => match message.as_ref()? {
            Message::Report(report) => report.seq,
            Message::Replace(replace) => replace.seq,
            Message::Unchanged(unchanged) => unchanged.seq,
            Message::Clear(clear) => clear.seq,
            Message::Error(error) => error.seq,
            Message::Resolve(resolve) => resolve.seq,
            Message::ClaimLeadership(_) | Message::ReleaseLeadership(_) => 0,
            Message::Hello(_)
            | Message::Heartbeat(_)
            | Message::Stopping(_)
            | Message::Goodbye(_) => return None,
        },
    };
    let refusal = account?.take(Class::Report).err()?;
    Some(Inbound::Refused { seq, refusal })
}

/// The path of the method for sessions.
pub(super) const CONNECT: &str = "/bellwether.v1.WorkerService/Connect";

/// Serves a stream past the generated code, which would decode each message by prost. A message may
/// have at most `bytes_max` bytes.
pub(super) async fn connect(
    handlers: Arc<Handlers>,
    request: http::Request<Body>,
    bytes_max: usize,
) -> http::Response<Body> {
    let grpc = Grpc::new(OnePassCodec::default());
    let connect = service_fn(move |request| ready(handlers.connect_worker(request)));
    let mut grpc = grpc.apply_max_message_size_config(Some(bytes_max), None);
    grpc.streaming(connect, request).await
}
