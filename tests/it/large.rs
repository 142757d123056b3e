//! No input of a client makes an answer too large for a client: every client here accepts 4 MiB,
//! which is the default.

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::watch_app_data_response::Event as DataEvent;
use bellwether::proto::v1::watch_applications_response::Event;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use bellwether_client::worker::{Options, Worker};
use futures_util::StreamExt;
use prost::Message;

use crate::cli;
use crate::peer::{Peer, hello};
use crate::server::{DEADLINE, Server, eventually, mk_report};

/// Concurrent calls.
const CALLS: usize = 64;
/// The size limit of a page, in bytes. A page has at least one entry.
const PAGE: usize = 1 << 20;

fn mk_large(key: usize) -> v1::StatusReport {
    v1::StatusReport {
        key: format!("{key:04}"),
        level: Level::Blocked.into(),
        message: "m".repeat(4096),
        check: "c".repeat(4096),
        action: format!("{key:04}{}", "a".repeat(4092)),
        ..v1::StatusReport::default()
    }
}

/// Sends these reports of units of `web`, many at the same time.
async fn report(server: &Server, reports: Vec<(String, v1::StatusReport)>) {
    let client = server.reports().await;
    let calls = reports.into_iter().map(|(unit, status)| {
        let mut client = client.clone();
        let request = v1::ReportStatusRequest {
            application: "web".into(),
            unit,
            status: Some(status),
            ..v1::ReportStatusRequest::default()
        };
        async move { client.report_status(request).await.unwrap() }
    });
    futures_util::stream::iter(calls).buffer_unordered(CALLS).collect::<Vec<_>>().await;
}

/// Reads all pages; each is within the limit, and there are several.
async fn pages<T: Message>(mut page: impl AsyncFnMut(String) -> (Vec<T>, String)) -> Vec<T> {
    let (mut all, mut token, mut count) = (Vec::new(), String::new(), 0);
    loop {
        let (entries, next) = page(token).await;
        let bytes: usize = entries.iter().map(Message::encoded_len).sum();
        assert!(!entries.is_empty() && bytes <= PAGE, "{} entries, {bytes} bytes", entries.len());
        all.extend(entries);
        count += 1;
        if next.is_empty() {
            assert!(1 < count, "one page for {} entries", all.len());
            return all;
        }
        token = next;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statuses_at_their_limits_are_read_in_pages_by_every_client() {
    let server = Server::ephemeral();
    let unit = |key| ("web/0".to_string(), mk_large(key));
    report(&server, (0..1000).map(unit).collect()).await;
    let client = server.applications().await;
    let statuses = pages(async |page_token| {
        let request = v1::ListStatusesRequest {
            application: "web".into(),
            page_size: 1000,
            page_token,
            ..Default::default()
        };
        let answer = client.clone().list_statuses(request).await.unwrap().into_inner();
        (answer.statuses, answer.next_page_token)
    });
    let keys: Vec<String> =
        statuses.await.into_iter().map(|status| status.report.unwrap().key).collect();
    let expected: Vec<String> = (0..1000).map(|key| format!("{key:04}")).collect();
    assert_eq!(keys, expected);
    let events = pages(async |page_token| {
        let request = v1::ListStatusEventsRequest {
            application: "web".into(),
            page_size: 1000,
            page_token,
            ..Default::default()
        };
        let answer = client.clone().list_status_events(request).await.unwrap().into_inner();
        (answer.events, answer.next_page_token)
    });
    // The newest of the unit, and that of the application, which has a budget of its own.
    assert_eq!(events.await.len(), 1001);
    let request = v1::ExplainApplicationRequest {
        application: "web".into(),
        page_size: 1000,
        ..Default::default()
    };
    let why = client.clone().explain_application(request).await.unwrap().into_inner();
    assert_eq!(why.beaten_count, 999);
    assert!((1..999).contains(&why.beaten.len()), "{}", why.beaten.len());
    let status = cli::ok(&server, &["status", "-A"]);
    assert!(status.contains("web/0"), "{}", status.len());
    cli::ok(&server, &["status", "-A", "-o", "wide"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_with_statuses_at_their_limits_registers_and_connects() {
    let server = Server::ephemeral();
    let unit = |key| ("web/0".to_string(), mk_large(key));
    report(&server, (0..1000).map(unit).collect()).await;
    let request = v1::RegisterUnitRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..Default::default()
    };
    let mut workers = WorkerServiceClient::new(server.channel().await);
    let registered = workers.register_unit(request).await.unwrap().into_inner();
    let check = |retained: &[v1::StatusReport], rest: i32| {
        assert!(!retained.is_empty() && 0 < rest, "{rest} of {}", retained.len());
        assert_eq!(retained.len() as i32 + rest, 1000);
    };
    check(&registered.retained, registered.retained_rest_count);
    let peer = Peer::connect(&server, hello("web", "web/0")).await;
    check(&peer.welcome.retained, peer.welcome.retained_rest_count);
    drop(peer);
    // The client fetches the data that the welcome had no space for.
    let options = Options::new(&server.url(), "web", "web/0");
    let worker = Worker::connect(options, async |_| Vec::new()).unwrap();
    let retained = eventually("the worker has all", async || {
        Some(worker.retained()).filter(|retained| !retained.is_empty())
    });
    assert_eq!(retained.await.len(), 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_with_their_detail_are_read_in_pages() {
    let server = Server::ephemeral();
    let client = server.reports().await;
    let calls = (0..200).map(|n| {
        let mut client = client.clone();
        let request = v1::ReportErrorRequest {
            application: "web".into(),
            unit: "web/0".into(),
            error: Some(v1::ErrorReport {
                component: format!("c{n}"),
                system: "grpc".into(),
                code: "DATA_LOSS".into(),
                origin: v1::ErrorOrigin::Peer.into(),
                message: "m".repeat(4096),
                internal_detail: "d".repeat(65_536),
                ..Default::default()
            }),
            ..Default::default()
        };
        async move { client.report_error(request).await.unwrap() }
    });
    futures_util::stream::iter(calls).buffer_unordered(CALLS).collect::<Vec<_>>().await;
    let client = server.applications().await;
    let faults = pages(async |page_token| {
        let request = v1::ListFaultsRequest {
            application: "web".into(),
            page_token,
            include_internal_detail: true,
            ..Default::default()
        };
        let answer = client.clone().list_faults(request).await.unwrap().into_inner();
        (answer.faults, answer.next_page_token)
    });
    assert_eq!(faults.await.len(), 200);
    let request = v1::ListUnitsRequest { application: "web".into(), ..Default::default() };
    let units = client.clone().list_units(request).await.unwrap().into_inner().units;
    assert_eq!(units[0].holds.len() as i32 + units[0].holds_rest_count, 200);
    assert!(units[0].encoded_len() < 32 << 10, "{} bytes", units[0].encoded_len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_with_a_thousand_large_units_stays_up() {
    let server = Server::ephemeral();
    let name = |n: usize| format!("{n:04}{}", "u".repeat(196));
    let unit = |n| (name(n), v1::StatusReport { key: String::new(), ..mk_large(n) });
    report(&server, (0..1000).map(unit).collect()).await;
    let mut client = server.applications().await;
    let request = v1::WatchApplicationsRequest { include_units: true, ..Default::default() };
    let mut watch = client.watch_applications(request).await.unwrap().into_inner();
    let mut upserted = async || loop {
        let message = tokio::time::timeout(DEADLINE, watch.message()).await.unwrap().unwrap();
        let message = message.expect("the watch stays open");
        if matches!(message.event, Some(Event::Upserted(_))) {
            return message;
        }
    };
    let first = upserted().await;
    assert!(0 < first.units_rest_count && !first.units.is_empty());
    assert_eq!(first.units.len() as i32 + first.units_rest_count, 1000);
    let report = mk_report("web", &name(0), Level::Active, "better");
    server.reports().await.report_status(report).await.unwrap();
    assert_eq!(upserted().await.units[0].name, name(0));
    let units = pages(async |page_token| {
        let request = v1::ListUnitsRequest {
            application: "web".into(),
            page_size: 1000,
            page_token,
            ..Default::default()
        };
        let answer = client.clone().list_units(request).await.unwrap().into_inner();
        (answer.units, answer.next_page_token)
    });
    assert_eq!(units.await.len(), 1000);
    let request = v1::CollectApplicationRequest { application: "web".into(), ..Default::default() };
    let collected = client.collect_application(request).await.unwrap().into_inner();
    assert_eq!(collected.answers.len() as i32 + collected.answers_rest_count, 1000);
}

#[tokio::test]
async fn two_mebibytes_of_data_are_read_and_watched() {
    let server = Server::ephemeral();
    server
        .reports()
        .await
        .report_status(mk_report("web", "web/0", Level::Active, ""))
        .await
        .unwrap();
    let claim = v1::ClaimLeadershipRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..Default::default()
    };
    let claimed = server.leaders().await.claim_leadership(claim).await.unwrap().into_inner();
    let mut client = server.app_data().await;
    // The keys are just under the limit; half of the data are short values, which cost most on the
    // wire.
    let long = (0..16).map(|n| (format!("long{n:02}"), vec![1; 65_536 - 6]));
    let short = (0..9_900).map(|n| (format!("short{n:05}"), vec![2; 95]));
    let set = long.chain(short).map(|(key, value)| (key, value.into())).collect();
    let update = v1::UpdateAppDataRequest {
        application: "web".into(),
        unit: "web/0".into(),
        lease_epoch: claimed.lease.unwrap().lease_epoch,
        set,
        ..Default::default()
    };
    client.update_app_data(update).await.unwrap();
    let request = v1::GetAppDataRequest { application: "web".into(), ..Default::default() };
    let read = client.get_app_data(request).await.unwrap().into_inner().app_data.unwrap();
    assert_eq!(read.data.len(), 9_916);
    let request = v1::WatchAppDataRequest { application: "web".into(), ..Default::default() };
    let mut watch = client.watch_app_data(request).await.unwrap().into_inner();
    let first = watch.message().await.unwrap().unwrap().event.unwrap();
    let DataEvent::AppData(watched) = first else { panic!("{first:?}") };
    assert_eq!(watched, read);
}
