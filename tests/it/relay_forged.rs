//! A server between a relay and its upstream, or between a client and its relay, that alters what
//! passes: a lost change, a removal, a wrong revision, a wrong level.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::watch_applications_response::Event as WireEvent;
use bellwether_client::{Client, Event, Watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::relay::relay_of;
use crate::server::{DEADLINE, Server, get, mk_report};

const WATCH: &str = "/bellwether.v1.ApplicationService/WatchApplications";

/// The application whose change is altered.
const VICTIM: &str = "victim";

/// What becomes of the next change of the victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forgery {
    Loss,
    Removal,
    Revision,
    Level,
}

const FORGERIES: [Forgery; 4] =
    [Forgery::Loss, Forgery::Removal, Forgery::Revision, Forgery::Level];

/// A server that passes watches on, and alters one message on request.
struct Forger {
    address: SocketAddr,
    state: Arc<State>,
    serving: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct State {
    next: Mutex<Option<Forgery>>,
    /// Messages that were altered.
    forged: AtomicUsize,
    /// Watches that began with a snapshot.
    snapshots: AtomicUsize,
}

impl Forger {
    async fn of(server: &Server) -> Forger {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let channel = Endpoint::from_shared(server.url()).unwrap().connect_lazy();
        let own = state.clone();
        let serve = service_fn(move |request: http::Request<axum::body::Body>| {
            let (state, channel) = (own.clone(), channel.clone());
            async move {
                let watch =
                    service_fn(move |request| pass(state.clone(), channel.clone(), request));
                let codec = ProstCodec::<
                    v1::WatchApplicationsResponse,
                    v1::WatchApplicationsRequest,
                >::default();
                let mut grpc = tonic::server::Grpc::new(codec);
                let answer = grpc.server_streaming(watch, request.map(Body::new)).await;
                Ok::<_, Infallible>(answer)
            }
        });
        let routes = Routes::from(Router::new().route_service(WATCH, serve));
        let served = tonic::transport::Server::builder().add_routes(routes);
        let serving = tokio::spawn(async move {
            served.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Forger { address, state, serving }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn forge(&self, forgery: Forgery) {
        *self.state.next.lock().unwrap() = Some(forgery);
    }

    fn counts(&self) -> (usize, usize) {
        let State { forged, snapshots, .. } = &*self.state;
        (forged.load(Ordering::SeqCst), snapshots.load(Ordering::SeqCst))
    }
}

impl Drop for Forger {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn pass(
    state: Arc<State>,
    channel: Channel,
    request: Request<v1::WatchApplicationsRequest>,
) -> Result<Response<impl Stream<Item = Result<v1::WatchApplicationsResponse, Status>>>, Status> {
    let request = request.into_inner();
    if request.resume_token.is_empty() {
        state.snapshots.fetch_add(1, Ordering::SeqCst);
    }
    let stream = ApplicationServiceClient::new(channel).watch_applications(request).await?;
    let altered = async_messages(stream.into_inner(), state);
    Ok(Response::new(altered))
}

fn async_messages(
    stream: tonic::Streaming<v1::WatchApplicationsResponse>,
    state: Arc<State>,
) -> impl Stream<Item = Result<v1::WatchApplicationsResponse, Status>> {
    futures_util::stream::unfold((stream, state), async |(mut stream, state)| {
        loop {
            let message = match stream.message().await {
                Ok(message) => message?,
                Err(status) => return Some((Err(status), (stream, state))),
            };
            if let Some(altered) = alter(&state, message) {
                return Some((Ok(altered), (stream, state)));
            }
        }
    })
}

/// Returns what is passed on; `None`: nothing.
fn alter(
    state: &State,
    mut message: v1::WatchApplicationsResponse,
) -> Option<v1::WatchApplicationsResponse> {
    let Some(WireEvent::Upserted(application)) = &mut message.event else { return Some(message) };
    if application.name != VICTIM {
        return Some(message);
    }
    let Some(forgery) = state.next.lock().unwrap().take() else { return Some(message) };
    state.forged.fetch_add(1, Ordering::SeqCst);
    match forgery {
        Forgery::Loss => return None,
        Forgery::Removal => {
            let (namespace, name) = (application.namespace.clone(), application.name.clone());
            message.event = Some(WireEvent::Removed(v1::ApplicationRemoved { namespace, name }));
        }
        Forgery::Revision => application.revision += 7,
        Forgery::Level => application.status.as_mut().unwrap().level = Level::Terminated.into(),
    }
    Some(message)
}

async fn report(server: &Server, application: &str, level: Level) -> u64 {
    let request = mk_report(application, &format!("{application}/0"), level, "");
    server.reports().await.report_status(request).await.unwrap().into_inner().revision
}

/// Follows a watch until the victim has this revision, or is gone and the watch is current.
/// Returns every state of the victim on the way.
async fn states_until(watch: &mut Watch, revision: u64) -> Vec<(u64, i32)> {
    let mut states = Vec::new();
    let follow = async {
        loop {
            match watch.next().await.unwrap() {
                Event::Upserted(app, _) if app.name == VICTIM => {
                    states.push((app.revision, app.status.unwrap().level));
                    if app.revision == revision {
                        return;
                    }
                }
                Event::Removed { name, .. } if name == VICTIM => states.push((0, 0)),
                _ => {}
            }
        }
    };
    let followed = tokio::time::timeout(DEADLINE, follow).await;
    assert!(followed.is_ok(), "revision {revision} does not come: {states:?}");
    states
}

fn watch_all(client: &Client) -> Watch {
    let request = v1::WatchApplicationsRequest { namespace: "-".into(), ..Default::default() };
    Watch::new(client, request)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_shows_nothing_that_its_upstream_does_not_prove() {
    let server = Server::ephemeral();
    report(&server, VICTIM, Level::Active).await;
    report(&server, "other", Level::Active).await;
    let forger = Forger::of(&server).await;
    let relay = relay_of(&forger.url()).await;
    let client = Client::connect(&relay.url()).await.unwrap();
    let mut watch = watch_all(&client);
    states_until(&mut watch, 1).await;
    let mut level = Level::Active;
    for (n, forgery) in FORGERIES.into_iter().enumerate() {
        level = if level == Level::Active { Level::Blocked } else { Level::Active };
        forger.forge(forgery);
        let revision = report(&server, VICTIM, level).await;
        let states = states_until(&mut watch, revision).await;
        assert_eq!(states, [(revision, i32::from(level))], "{forgery:?}");
        assert_eq!(forger.counts(), (n + 1, n + 2), "{forgery:?}");
        let asked = v1::GetApplicationRequest { min_revision: revision, ..get(VICTIM) };
        let ours = relay.applications().await.get_application(asked).await.unwrap();
        let ours = ours.into_inner().application.unwrap();
        assert_eq!(ours.status.unwrap().level, i32::from(level), "{forgery:?}");
    }
    let (_, text) = crate::ops::fetch(relay.ops, "/metrics");
    let line = r#"bellwether_relay_resyncs_total{cause="digest"} 4"#;
    assert!(text.contains(line), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_notices_what_is_altered_between_it_and_its_relay() {
    let server = Server::ephemeral();
    report(&server, VICTIM, Level::Active).await;
    let relay = relay_of(&server.url()).await;
    let forger = Forger::of(&relay).await;
    let client = Client::connect(&forger.url()).await.unwrap();
    let mut watch = watch_all(&client);
    states_until(&mut watch, 1).await;
    let mut level = Level::Active;
    for (n, forgery) in FORGERIES.into_iter().enumerate() {
        level = if level == Level::Active { Level::Blocked } else { Level::Active };
        forger.forge(forgery);
        let revision = report(&server, VICTIM, level).await;
        let follow = async {
            let mut states = Vec::new();
            while forger.counts().1 < n + 2 || states.last() != Some(&(revision, level.into())) {
                match watch.next().await.unwrap() {
                    Event::Upserted(app, _) => {
                        states.push((app.revision, app.status.unwrap().level))
                    }
                    Event::Removed { .. } => states.push((0, 0)),
                    Event::Current | Event::Disconnected { .. } => {}
                }
            }
        };
        let noticed = tokio::time::timeout(DEADLINE, follow).await;
        assert!(noticed.is_ok(), "{forgery:?} is not noticed");
        assert_eq!(forger.counts(), (n + 1, n + 2), "{forgery:?}");
    }
}
