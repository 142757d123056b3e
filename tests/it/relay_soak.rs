//! Watchers behind two levels of relays while the server and the relays are killed in turn.
//! `BELLWETHER_RELAY_EVENTS=10000000` goes on until the watchers have received as many events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether_client::proto::v1::Application;
use bellwether_client::{Client, Event, Watch};
use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::relay::{is_ready, metric, relay_command, relay_of};
use crate::server::{DEADLINE, Server, eventually, mk_report};
use crate::testing::Proxy;

/// Watchers, each of which compares the digest of each bookmark.
const WATCHERS: usize = 10;
/// Applications, each of which changes in each round.
const APPLICATIONS: u32 = 200;
/// Calls that are open at once.
const IN_FLIGHT: usize = 32;
/// The least rounds between two kills.
const ROUNDS_BEFORE_KILL: u64 = 5;
/// About as many kills are in a long run.
const KILLS: u64 = 200;

/// Level and revision of each application.
type State = BTreeMap<String, (u64, i32)>;

/// What one watcher has received.
#[derive(Default)]
struct Followed {
    events: AtomicU64,
    disconnections: AtomicU64,
    /// Snapshots and resumptions that were complete. One without a disconnection before it, after
    /// the first, is a copy that did not have the digest of a bookmark.
    completions: AtomicU64,
}

/// Follows a watch, and sends its copy on after each event.
async fn follow(mut watch: Watch, followed: Arc<Followed>, copy: watch::Sender<State>) {
    loop {
        match watch.next().await.unwrap() {
            Event::Upserted(app, _) => {
                let Application { name, revision, status, .. } = *app;
                let level = status.unwrap_or_default().level;
                copy.send_modify(|state| {
                    state.insert(name, (revision, level));
                });
                followed.events.fetch_add(1, Ordering::SeqCst);
            }
            Event::Removed { name, .. } => {
                copy.send_modify(|state| {
                    state.remove(&name);
                });
                followed.events.fetch_add(1, Ordering::SeqCst);
            }
            Event::Current => {
                followed.completions.fetch_add(1, Ordering::SeqCst);
            }
            Event::Disconnected { .. } => {
                followed.disconnections.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

/// Changes each application.
async fn change_all(reports: &ReportServiceClient<Channel>, round: u64) {
    let calls = (0..APPLICATIONS).map(|n| {
        let is_odd = !(u64::from(n) / 3 + round).is_multiple_of(2);
        let level = if is_odd { Level::Blocked } else { Level::Active };
        let application = format!("app{n}");
        let unit = format!("{application}/0");
        let request = mk_report(&application, &unit, level, &round.to_string());
        let mut reports = reports.clone();
        async move { reports.report_status(request).await.unwrap() }
    });
    let answers = stream::iter(calls).buffer_unordered(IN_FLIGHT);
    assert_eq!(answers.count().await, APPLICATIONS as usize);
}

/// Returns the state of a server.
async fn state_of(server: &Server) -> State {
    let namespace = "-".to_string();
    let page_size = i32::try_from(APPLICATIONS).unwrap();
    let request = v1::ListApplicationsRequest { namespace, page_size, ..Default::default() };
    let answer = server.applications().await.list_applications(request).await.unwrap();
    let applications = answer.into_inner().applications;
    assert_eq!(applications.len(), APPLICATIONS as usize);
    applications
        .into_iter()
        .map(|app| (app.name, (app.revision, app.status.unwrap_or_default().level)))
        .collect()
}

/// A server with two levels of relays, each behind a proxy so that its address stays.
struct Chain {
    data: tempfile::TempDir,
    server: Server,
    to_server: Proxy,
    first: Server,
    to_first: Proxy,
    second: Server,
    to_second: Proxy,
}

fn url(proxy: &Proxy) -> String {
    format!("http://{}", proxy.address())
}

impl Chain {
    async fn start() -> Chain {
        let data = tempfile::tempdir().unwrap();
        let server = Server::on(data.path());
        let to_server = Proxy::to(&server.grpc.to_string()).await;
        let first = relay_of(&url(&to_server)).await;
        let to_first = Proxy::to(&first.grpc.to_string()).await;
        let second = relay_of(&url(&to_first)).await;
        let to_second = Proxy::to(&second.grpc.to_string()).await;
        Chain { data, server, to_server, first, to_first, second, to_second }
    }

    /// Returns the chain after one of its processes was killed and started again.
    async fn with_a_kill(self, number: u64) -> Chain {
        match number % 3 {
            0 => {
                self.first.kill();
                let first = Server::spawn(relay_command(&url(&self.to_server), &[]));
                self.to_first.lead_to(&first.grpc.to_string());
                Chain { first, ..self }
            }
            1 => {
                self.second.kill();
                let second = Server::spawn(relay_command(&url(&self.to_first), &[]));
                self.to_second.lead_to(&second.grpc.to_string());
                is_ready(&second).await;
                Chain { second, ..self }
            }
            _ => {
                self.server.kill();
                let server = Server::on(self.data.path());
                self.to_server.lead_to(&server.grpc.to_string());
                Chain { server, ..self }
            }
        }
    }

    /// Fails if a relay had a copy that its upstream did not prove.
    fn check(&self) {
        for relay in [&self.first, &self.second] {
            let wrong = metric(relay, r#"bellwether_relay_resyncs_total{cause="digest"}"#);
            assert_eq!(wrong, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_of_a_chain_that_is_killed_piece_by_piece_have_no_wrong_digest() {
    let given = std::env::var("BELLWETHER_RELAY_EVENTS").ok();
    let wanted: u64 = given.map_or(20_000, |text| text.parse().expect("a number"));
    let of_round = WATCHERS as u64 * u64::from(APPLICATIONS);
    let before_kill = (wanted / of_round / KILLS).max(ROUNDS_BEFORE_KILL);
    let mut chain = Chain::start().await;
    let mut tasks = JoinSet::new();
    let mut watchers = Vec::new();
    for _ in 0..WATCHERS {
        let client = Client::connect(&url(&chain.to_second)).await.unwrap();
        let request = v1::WatchApplicationsRequest { namespace: "-".into(), ..Default::default() };
        let (followed, (sender, copy)) =
            (Arc::new(Followed::default()), watch::channel(State::new()));
        tasks.spawn(follow(Watch::new(&client, request), followed.clone(), sender));
        watchers.push((followed, copy));
    }
    let mut round = 0;
    let mut reports = chain.server.reports().await;
    let events =
        || watchers.iter().map(|(followed, _)| followed.events.load(Ordering::SeqCst)).sum::<u64>();
    while events() < wanted || round <= 3 * before_kill {
        change_all(&reports, round).await;
        round += 1;
        if round.is_multiple_of(before_kill) {
            chain.check();
            // Changes are on their way.
            chain = chain.with_a_kill(round / before_kill).await;
            reports = chain.server.reports().await;
            change_all(&reports, round).await;
        }
        let wanted = state_of(&chain.server).await;
        for (followed, copy) in &watchers {
            let mut copy = copy.clone();
            let equal = copy.wait_for(|state| *state == wanted);
            let is_equal = tokio::time::timeout(DEADLINE, equal).await.is_ok();
            assert!(is_equal, "round {round}: {} events", followed.events.load(Ordering::SeqCst));
        }
        assert!(tasks.try_join_next().is_none(), "a watcher has ended");
    }
    chain.check();
    for (followed, _) in &watchers {
        let (disconnections, completions) = eventually("the last completion", async || {
            let of = |count: &AtomicU64| count.load(Ordering::SeqCst);
            let counts = (of(&followed.disconnections), of(&followed.completions));
            (0 < counts.1).then_some(counts)
        })
        .await;
        assert!(completions <= disconnections + 1, "{completions} {disconnections}");
    }
    let (events, kills) = (events(), round / before_kill);
    println!("{round} rounds, {events} events, {kills} kills, no wrong digest");
}
