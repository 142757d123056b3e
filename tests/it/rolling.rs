//! A rolling restart of three servers over one Redis, with mutual TLS, behind a balancer of
//! connections, while workers report and a watcher follows.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bellwether::proto::v1;
use bellwether::proto::v1::{Level, StatusReport};
use bellwether_client::worker::Options;
use bellwether_client::{Client, Event, Security, Watch, Worker};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::authority::{Authority, EVERYTHING};
use crate::redis::Redis;
use crate::server::{DEADLINE, Server, eventually};

const WORKERS: u32 = 6;

type Targets = Arc<Mutex<Vec<SocketAddr>>>;

/// Forwards each connection to one of the targets in turn, as the service of a cluster does.
async fn balance(targets: Targets) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut turn = 0;
        while let Ok((mut client, _)) = listener.accept().await {
            turn += 1;
            let live = targets.lock().unwrap().clone();
            tokio::spawn(async move {
                for attempt in 0..live.len() {
                    if let Ok(mut server) =
                        TcpStream::connect(live[(turn + attempt) % live.len()]).await
                    {
                        let _ = copy_bidirectional(&mut client, &mut server).await;
                        return;
                    }
                }
            });
        }
    });
    address
}

fn message(n: u32) -> StatusReport {
    StatusReport {
        level: if n.is_multiple_of(2) { Level::Active } else { Level::Waiting }.into(),
        message: n.to_string(),
        ..StatusReport::default()
    }
}

/// Reports one number after the other, each after the acknowledgement of the one before. Returns
/// the last one.
async fn report(url: String, security: Security, unit: String, shared: Arc<Shared>) -> u32 {
    let options = Options::new(&url, "web", &unit).security(security);
    let worker = Worker::connect(options, |_| async { Vec::new() }).unwrap();
    let mut last = 0;
    while !shared.is_over.load(Ordering::Relaxed) {
        last += 1;
        tokio::time::timeout(DEADLINE, worker.set_status(message(last)).into_future())
            .await
            .unwrap_or_else(|_| panic!("{unit}: no acknowledgement of {last}"))
            .unwrap();
        shared.acknowledged.fetch_add(1, Ordering::Relaxed);
    }
    last
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    acknowledged: AtomicU32,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_with_mutual_tls_loses_nothing() {
    let Some(redis) = Redis::start(&[]) else { return };
    let authority = Authority::new();
    authority.issue("worker", "subjectAltName=DNS:worker\nextendedKeyUsage=clientAuth");
    std::fs::write(authority.path("roles.toml"), EVERYTHING).unwrap();
    let (ca, roles) = (authority.text("ca.pem"), authority.text("roles.toml"));
    let (certificate, key) = (authority.text("server.pem"), authority.text("server.key"));
    let store = redis.url();
    let start = || {
        let own = ["--store", &store, "--tls-certificate", &certificate, "--tls-key", &key];
        let clients =
            ["--tls-client-ca", &ca, "--tls-client-certificates", "required", "--roles", &roles];
        Server::start(&[&own[..], &clients].concat())
    };
    let mut servers = [start(), start(), start()];
    let targets: Targets = Arc::new(Mutex::new(servers.iter().map(|s| s.grpc).collect()));
    let url = format!("https://{}", balance(targets.clone()).await);
    let security = authority.client("worker");
    let shared: Arc<Shared> = Arc::default();
    let workers: Vec<_> = (0..WORKERS)
        .map(|n| {
            let (url, security, shared) = (url.clone(), security.clone(), shared.clone());
            tokio::spawn(report(url, security, format!("web/{n}"), shared))
        })
        .collect();
    let client = Client::connect_with(&url, security.clone()).await.unwrap();
    let (seen, current) = tokio::sync::watch::channel(0);
    let watcher = tokio::spawn(follow(client.clone(), seen));
    for round in 0..3 {
        let before = shared.acknowledged.load(Ordering::Relaxed);
        eventually("reports go on", async || {
            (before + 20 < shared.acknowledged.load(Ordering::Relaxed)).then_some(())
        })
        .await;
        // The certificate is renewed between two restarts.
        authority.issue("server", "subjectAltName=DNS:localhost,IP:127.0.0.1");
        let new = start();
        let mut old = std::mem::replace(&mut servers[round], new);
        *targets.lock().unwrap() = servers.iter().map(|server| server.grpc).collect();
        old.terminate();
        assert!(old.wait().success(), "the server drains");
    }
    shared.is_over.store(true, Ordering::Relaxed);
    let mut last = BTreeMap::new();
    for (n, worker) in workers.into_iter().enumerate() {
        last.insert(format!("web/{n}"), worker.await.unwrap().to_string());
    }
    let request =
        v1::ListStatusesRequest { application: "web".into(), ..v1::ListStatusesRequest::default() };
    let listed = client.applications().list_statuses(client.request(request)).await.unwrap();
    let statuses = listed.into_inner().statuses.into_iter();
    let found: BTreeMap<_, _> =
        statuses.filter_map(|status| Some((status.unit, status.report?.message))).collect();
    assert_eq!(found, last, "each last acknowledged report is in force");
    // The watcher arrives at the same state: its copy is verified by digests on the way.
    let revision = client.list_applications("default").await.unwrap()[0].revision;
    eventually("the watcher is current", async || (revision <= *current.borrow()).then_some(()))
        .await;
    watcher.abort();
}

/// Follows all applications across the restarts, and sends the revision of each state.
async fn follow(client: Client, seen: tokio::sync::watch::Sender<u64>) {
    let mut watch = Watch::new(&client, v1::WatchApplicationsRequest::default());
    loop {
        if let Event::Upserted(application, _) = watch.next().await.unwrap() {
            let known = seen.send_replace(application.revision);
            assert!(known <= application.revision, "time goes forward");
        }
    }
}
