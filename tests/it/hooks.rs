//! What short-lived processes need, such as the hooks of a charm: all errors of a unit end in one
//! call, long texts are cut instead of refused, and a verdict waits for the next process.

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;

use crate::cli;
use crate::server::{Server, mk_report, reason};

fn mk_error(component: &str, code: &str) -> v1::ReportErrorRequest {
    v1::ReportErrorRequest {
        application: "web".into(),
        unit: "web/0".into(),
        error: Some(v1::ErrorReport {
            component: component.into(),
            target: "pg".into(),
            system: "grpc".into(),
            code: code.into(),
            origin: v1::ErrorOrigin::Peer.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn mk_resolve() -> v1::ResolveErrorRequest {
    v1::ResolveErrorRequest {
        application: "web".into(),
        unit: "web/0".into(),
        all_components: true,
        ..Default::default()
    }
}

#[tokio::test]
async fn all_errors_of_a_unit_end_in_one_call() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for component in ["", "db", "workload"] {
        reports.report_error(mk_error(component, "UNAVAILABLE")).await.unwrap();
    }
    reports.report_error(mk_error("disk", "DATA_LOSS")).await.unwrap();
    let both = v1::ResolveErrorRequest { component: "db".into(), ..mk_resolve() };
    let refused = reports.resolve_error(both).await.unwrap_err();
    assert_eq!(reason(&refused), "INVALID_VALUE");
    let answer = reports.resolve_error(mk_resolve()).await.unwrap().into_inner();
    // A fatal error needs an operator, as with its component alone.
    assert_eq!((answer.resolved_count, answer.held_count), (3, 1));
    let again = reports.resolve_error(mk_resolve()).await.unwrap().into_inner();
    assert_eq!((again.resolved_count, again.held_count), (0, 1));
    reports.report_error(mk_error("db", "UNAVAILABLE")).await.unwrap();
    let said = cli::run(&server, &["resolve", "web/0", "--all"]);
    assert!(said.err.contains("resolved 1 error of web/0"), "{}", said.err);
    let elsewhere = v1::ResolveErrorRequest { unit: "web/7".into(), ..mk_resolve() };
    assert_eq!(reports.resolve_error(elsewhere).await.unwrap().into_inner().resolved_count, 0);
}

#[tokio::test]
async fn a_next_attempt_waits_as_long_as_is_useful() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let seconds = |request: v1::ReportErrorRequest, shortest: i64| {
        let mut request = request;
        let wait = prost_types::Duration { seconds: shortest, nanos: 0 };
        request.error.as_mut().unwrap().shortest_wait = Some(wait);
        request
    };
    let mut ask = async |request| {
        let answer = reports.report_error(request).await;
        answer.map(|a| a.into_inner().verdict.unwrap().retry_after.map(|wait| wait.seconds))
    };
    assert_eq!(ask(mk_error("db", "UNAVAILABLE")).await.unwrap(), Some(0));
    assert_eq!(ask(seconds(mk_error("db", "UNAVAILABLE"), 300)).await.unwrap(), Some(300));
    assert_eq!(ask(seconds(mk_error("net", "UNAVAILABLE"), 300)).await.unwrap(), Some(300));
    // Nothing follows before a person has acted.
    assert_eq!(ask(seconds(mk_error("disk", "DATA_LOSS"), 300)).await.unwrap(), None);
    let mut peer = seconds(mk_error("slow", "UNAVAILABLE"), 300);
    let wait = prost_types::Duration { seconds: 900, nanos: 0 };
    peer.error.as_mut().unwrap().retry_after = Some(wait);
    assert_eq!(ask(peer).await.unwrap(), Some(900));
    for wrong in [-1, 86_401] {
        let refused = ask(seconds(mk_error("db", "UNAVAILABLE"), wrong)).await.unwrap_err();
        assert_eq!(reason(&refused), "INVALID_VALUE");
        assert!(refused.message().starts_with("error.shortest_wait"), "{}", refused.message());
    }
    let error = ["error", "web/0", "--system", "grpc", "--code", "UNAVAILABLE", "--origin", "peer"];
    let said = cli::ok(&server, &[&error[..], &["--shortest-wait", "5m"]].concat());
    assert!(said.contains("RETRY in 300.0s"), "{said}");
}

#[tokio::test]
async fn long_texts_are_cut_with_advice_if_the_sender_asks() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let long = "ä".repeat(3000);
    let mut request = mk_report("web", "web/0", Level::Blocked, &long);
    let status = request.status.as_mut().unwrap();
    status.short_message = "x".repeat(41);
    status.action = "a".repeat(4096);
    let refused = reports.report_status(request.clone()).await.unwrap_err();
    assert_eq!(reason(&refused), "MESSAGE_TOO_LONG");
    request.cut_long_texts = true;
    let answer = reports.report_status(request.clone()).await.unwrap().into_inner();
    assert_eq!(
        answer.advice,
        [
            "status.message was cut from 6000 to 4096 bytes",
            "status.short_message was cut from 41 to 40 characters"
        ]
    );
    assert!(!reports.report_status(request).await.unwrap().into_inner().changed);
    let list = v1::ListStatusesRequest { application: "web".into(), ..Default::default() };
    let list = server.applications().await.list_statuses(list).await.unwrap().into_inner();
    let report = list.statuses[0].report.clone().unwrap();
    assert_eq!(report.message, format!("{}…", "ä".repeat(2046)));
    assert_eq!(report.short_message, format!("{}…", "x".repeat(39)));
    assert_eq!(report.action, "a".repeat(4096));

    // Of a set, the first twenty are named.
    let status = |n: usize| v1::StatusReport {
        key: format!("k{n}"),
        level: Level::Active.into(),
        message: long.clone(),
        ..Default::default()
    };
    let set = v1::ReplaceStatusesRequest {
        application: "web".into(),
        unit: "web/0".into(),
        statuses: (0..50).map(status).collect(),
        cut_long_texts: true,
        ..Default::default()
    };
    let advice = reports.replace_statuses(set).await.unwrap().into_inner().advice;
    assert_eq!(advice.len(), 21);
    assert_eq!(advice[3], "statuses[3].message was cut from 6000 to 4096 bytes");
    assert_eq!(advice[20], "30 more texts were cut");
}

#[tokio::test]
async fn errors_and_the_status_of_the_application_are_cut_alike() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let long = "ä".repeat(3000);
    let mut error = mk_error("db", "UNAVAILABLE");
    error.error.as_mut().unwrap().message = long.clone();
    error.cut_long_texts = true;
    let answer = reports.report_error(error).await.unwrap().into_inner();
    assert_eq!(answer.advice, ["error.message was cut from 6000 to 4096 bytes"]);
    let whole = v1::SetApplicationStatusRequest {
        application: "web".into(),
        unit: "web/0".into(),
        level: Level::Blocked.into(),
        message: long,
        decided_outside: true,
        cut_long_texts: true,
        ..Default::default()
    };
    let answer = server.applications().await.set_application_status(whole).await.unwrap();
    assert_eq!(answer.into_inner().advice, ["message was cut from 6000 to 4096 bytes"]);
    let long = "x".repeat(5000);
    let line = ["report", "web/0", "--level", "active", "-m", &long];
    assert_eq!(cli::run(&server, &line).code, Some(2));
    let said = cli::run(&server, &[&line[..], &["--cut-long-texts"]].concat());
    assert!(said.err.contains("advice: status.message was cut"), "{}", said.err);
    // What a program reads is never cut.
    let mut request = mk_report("web", "web/0", Level::Blocked, "");
    request.status.as_mut().unwrap().reason = "R".repeat(254);
    request.cut_long_texts = true;
    let refused = reports.report_status(request).await.unwrap_err();
    assert_eq!(reason(&refused), "MESSAGE_TOO_LONG");
}

#[tokio::test]
async fn a_late_report_does_not_bring_a_removed_unit_back() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let report = || mk_report("web", "web/0", Level::Active, "");
    reports.report_status(report()).await.unwrap();
    cli::ok(&server, &["remove", "web/0"]);
    let late = reports.report_status(report()).await.unwrap_err();
    assert_eq!(reason(&late), "STALE_INCARNATION");
    assert!(late.message().contains("web/0 has just been removed"), "{}", late.message());
    let late = reports.report_error(mk_error("db", "UNAVAILABLE")).await.unwrap_err();
    assert_eq!(reason(&late), "STALE_INCARNATION");
    // Its last words about what works change nothing, and other units are not concerned.
    reports.resolve_error(mk_resolve()).await.unwrap();
    reports.report_status(mk_report("web", "web/1", Level::Active, "")).await.unwrap();
    let register = v1::RegisterUnitRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..Default::default()
    };
    let mut workers = WorkerServiceClient::new(server.channel().await);
    workers.register_unit(register).await.unwrap();
    reports.report_status(report()).await.unwrap();
}
