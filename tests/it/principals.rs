//! Limits on one caller: a principal at its limit learns which, and another one is served.

use std::path::{Path, PathBuf};

use bellwether::proto::health::HealthCheckRequest;
use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use bellwether_client::Client;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};
use tonic_types::StatusExt;

use crate::authority::EVERYTHING;
use crate::identities::{TokenFile, bearer};
use crate::ops::fetch;
use crate::peer::hello;
use crate::server::{Server, eventually, get, mk_report, reason};

/// A server with two callers.
struct Two {
    tokens: TokenFile,
    server: Server,
}

impl Two {
    fn serve(config: &str) -> Two {
        let tokens = TokenFile::new();
        for id in ["one", "other"] {
            tokens.create(id, "1h");
        }
        Two { server: tokens.serve_with(EVERYTHING, config), tokens }
    }

    /// Returns a client of a caller, on a connection of its own.
    async fn client(&self, id: &str) -> Client {
        Client::connect_with(&self.server.url(), bearer(&self.token(id))).await.unwrap()
    }

    fn token(&self, id: &str) -> PathBuf {
        Path::new(&self.tokens.path()).with_file_name(id)
    }

    /// Returns what the metric says of a limit.
    fn refusals(&self, limit: &str) -> u64 {
        let (_, metrics) = fetch(self.server.ops, "/metrics");
        let start = format!("bellwether_limit_refusals_total{{limit=\"{limit}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&start));
        line.map_or(0, |count| count.parse().unwrap())
    }

    /// Checks a refusal: typed, with the limit, the caller and when to try again; and counted.
    fn check(&self, refused: &Status, limit: &str, expected: &str) {
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
        assert_eq!(reason(refused), expected, "{refused:?}");
        let details = refused.get_error_details();
        assert_eq!(details.error_info().unwrap().metadata["limit"], limit, "{refused:?}");
        assert!(refused.message().contains("token:one"), "{}", refused.message());
        assert!(details.retry_info().unwrap().retry_delay.is_some(), "{refused:?}");
        assert!(0 < self.refusals(limit), "{limit} is not counted");
    }
}

fn report(unit: &str) -> v1::ReportStatusRequest {
    mk_report("web", unit, Level::Active, "up")
}

/// Repeats a call until it is refused.
async fn until_refused<T>(mut call: impl AsyncFnMut() -> Result<T, Status>) -> (Vec<T>, Status) {
    let mut served = Vec::new();
    loop {
        match call().await {
            Ok(answer) => served.push(answer),
            Err(refused) => return (served, refused),
        }
        assert!(served.len() < 1000, "never refused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_reads_and_watches_have_rates_of_their_own() {
    let two = Two::serve(
        "[limits]\nreports_per_second_per_principal_max = 2\n\
         reads_per_second_per_principal_max = 2\nwatches_per_second_per_principal_max = 2\n",
    );
    let (one, other) = (two.client("one").await, two.client("other").await);
    let (mut reports, mut reads) = (one.reports(), one.applications());
    let (_, refused) = until_refused(async || reports.report_status(report("web/0")).await).await;
    two.check(&refused, "reports_per_second_per_principal_max", "RATE_LIMITED");
    let (_, refused) = until_refused(async || reads.get_application(get("web")).await).await;
    two.check(&refused, "reads_per_second_per_principal_max", "RATE_LIMITED");
    let watch = v1::WatchApplicationsRequest::default();
    let mut watches = one.applications();
    let (_, refused) =
        until_refused(async || watches.watch_applications(watch.clone()).await).await;
    two.check(&refused, "watches_per_second_per_principal_max", "RATE_LIMITED");
    // Heartbeats pass, and so does the other caller.
    one.health().check(HealthCheckRequest::default()).await.unwrap();
    other.reports().report_status(report("web/1")).await.unwrap();
    other.applications().get_application(get("web")).await.unwrap();
    other.applications().watch_applications(watch).await.unwrap();
    eventually("the rate leaves room again", async || {
        reports.report_status(report("web/0")).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn health_checks_have_the_last_rate() {
    let two = Two::serve("[limits]\nheartbeats_per_second_per_principal_max = 1\n");
    let (one, other) = (two.client("one").await, two.client("other").await);
    let mut health = one.health();
    let check = HealthCheckRequest::default();
    let (_, refused) = until_refused(async || health.check(check.clone()).await).await;
    two.check(&refused, "heartbeats_per_second_per_principal_max", "RATE_LIMITED");
    other.health().check(check).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn open_calls_of_one_caller_are_bounded() {
    let two = Two::serve("[limits]\ncalls_per_principal_max = 3\n");
    let (one, other) = (two.client("one").await, two.client("other").await);
    other.reports().report_status(report("web/0")).await.unwrap();
    // Reads of a revision that never comes stay open.
    let waiting = || v1::GetApplicationRequest { min_revision: 1 << 40, ..get("web") };
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut client = one.applications();
        open.push(tokio::spawn(async move {
            // A probe below may have the place for a moment.
            while client.get_application(waiting()).await.is_err() {}
        }));
    }
    let refused = eventually("all calls are taken", async || {
        one.applications().get_application(get("web")).await.err()
    })
    .await;
    two.check(&refused, "calls_per_principal_max", "RATE_LIMITED");
    one.health().check(HealthCheckRequest::default()).await.unwrap();
    other.applications().get_application(get("web")).await.unwrap();
    open.iter().for_each(|call| call.abort());
    eventually("the calls have ended", async || {
        one.applications().get_application(get("web")).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_of_one_caller_are_bounded() {
    let two = Two::serve("[limits]\nconnections_per_principal_max = 2\n");
    let mut open = Vec::new();
    for _ in 0..2 {
        let client = two.client("one").await;
        client.reports().report_status(report("web/0")).await.unwrap();
        open.push(client);
    }
    let third = two.client("one").await;
    let refused = third.reports().report_status(report("web/0")).await.unwrap_err();
    two.check(&refused, "connections_per_principal_max", "RATE_LIMITED");
    open[0].reports().report_status(report("web/0")).await.unwrap();
    let other = two.client("other").await;
    other.reports().report_status(report("web/1")).await.unwrap();
    open.pop();
    eventually("a connection has ended", async || {
        third.reports().report_status(report("web/0")).await.ok()
    })
    .await;
}

/// A worker's stream, as far as the server lets it.
async fn session(two: &Two, id: &str, unit: &str) -> Result<Session, Status> {
    let (say, said) = mpsc::channel(16);
    let mut workers = WorkerServiceClient::new(two.server.channel().await);
    say.send(request(Said::Hello(Box::new(hello("web", unit))))).await.unwrap();
    let mut call = tonic::Request::new(ReceiverStream::new(said));
    let token = std::fs::read_to_string(two.token(id)).unwrap();
    let bearer = format!("Bearer {}", token.trim());
    call.metadata_mut().insert("authorization", bearer.parse().unwrap());
    let mut told = workers.connect(call).await?.into_inner();
    told.message().await?;
    Ok(Session { say, told })
}

struct Session {
    say: mpsc::Sender<v1::ConnectRequest>,
    told: Streaming<v1::ConnectResponse>,
}

fn request(message: Said) -> v1::ConnectRequest {
    v1::ConnectRequest { message: Some(message) }
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_and_sessions_of_one_caller_are_bounded() {
    let two = Two::serve(
        "[limits]\nwatch_streams_per_principal_max = 2\n\
         [sessions]\nsessions_per_principal_max = 2\n",
    );
    let (one, again, other) =
        (two.client("one").await, two.client("one").await, two.client("other").await);
    let watch = v1::WatchApplicationsRequest::default();
    let mut clients = [one.applications(), again.applications()].into_iter().cycle();
    let (watches, refused) =
        until_refused(async || clients.next().unwrap().watch_applications(watch.clone()).await)
            .await;
    assert_eq!(watches.len(), 2);
    two.check(&refused, "watch_streams_per_principal_max", "TOO_MANY_STREAMS");
    let mut theirs = other.applications();
    theirs.watch_applications(watch.clone()).await.unwrap();

    let sessions = [
        session(&two, "one", "web/0").await.unwrap(),
        session(&two, "one", "web/1").await.unwrap(),
    ];
    let refused = session(&two, "one", "web/2").await.err().unwrap();
    two.check(&refused, "sessions_per_principal_max", "TOO_MANY_STREAMS");
    session(&two, "other", "web/3").await.unwrap();
    drop(sessions);
    eventually("a session has ended", async || session(&two, "one", "web/4").await.ok()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reports_of_a_session_count_and_its_heartbeats_do_not() {
    let two = Two::serve("[limits]\nreports_per_second_per_principal_max = 2\n");
    let mut worker = session(&two, "one", "web/0").await.unwrap();
    let status = v1::StatusReport { level: Level::Active as i32, ..Default::default() };
    for seq in 1..=10 {
        worker.say.send(request(Said::Heartbeat(v1::Heartbeat {}))).await.unwrap();
        let report = v1::ConnectReport { seq, statuses: vec![status.clone()] };
        worker.say.send(request(Said::Report(report))).await.unwrap();
    }
    let (mut acknowledged, mut rejected) = (0, 0);
    while acknowledged.max(rejected) < 10 {
        match worker.told.message().await.unwrap().unwrap().message.unwrap() {
            Told::Ack(ack) => acknowledged = ack.seq,
            Told::Reject(reject) => {
                let status = reject.status.unwrap();
                assert_eq!(status.code, Code::ResourceExhausted as i32, "{status:?}");
                assert!(status.message.contains("token:one"), "{}", status.message);
                rejected = reject.seq;
            }
            _ => {}
        }
    }
    assert!(0 < rejected, "no report was refused");
    assert!(0 < two.refusals("reports_per_second_per_principal_max"));
}

/// Without identities this machine is one trusted caller, unless the file sets a limit.
#[tokio::test(flavor = "multi_thread")]
async fn this_machine_has_only_the_limits_that_the_file_sets() {
    let text = "[limits]\nreads_per_second_per_principal_max = 1\n";
    let server = Server::configured(&["--ephemeral"], text);
    let mut reports = server.reports().await;
    for _ in 0..50 {
        reports.report_status(report("web/0")).await.unwrap();
    }
    let mut reads = server.applications().await;
    let (_, refused) = until_refused(async || reads.get_application(get("web")).await).await;
    assert_eq!(reason(&refused), "RATE_LIMITED");
    assert!(refused.message().contains("127.0.0.1"), "{}", refused.message());
}
