//! Errors through the real service: every vector on both kinds of store, thresholds that only time
//! reaches, bad input, limits.

use std::path::Path;
use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::{ErrorClass, ErrorOrigin, Level};
use tonic::Code;
use tonic_types::StatusExt;
use yaml_serde::Value;

use crate::cli::{ok, run};
use crate::redis::Redis;
use crate::server::{Server, eventually, get, mk_report, reason};

/// Returns an error of the component `db` of `web/0`.
pub fn mk_error(system: &str, code: &str, target: &str) -> v1::ReportErrorRequest {
    v1::ReportErrorRequest {
        application: "web".into(),
        unit: "web/0".into(),
        error: Some(v1::ErrorReport {
            component: "db".into(),
            target: target.into(),
            system: system.into(),
            code: code.into(),
            origin: ErrorOrigin::Peer.into(),
            message: "refused".into(),
            ..v1::ErrorReport::default()
        }),
        ..v1::ReportErrorRequest::default()
    }
}

pub fn mk_resolve(target: &str) -> v1::ResolveErrorRequest {
    v1::ResolveErrorRequest {
        application: "web".into(),
        unit: "web/0".into(),
        component: "db".into(),
        target: Some(target.into()),
        ..v1::ResolveErrorRequest::default()
    }
}

pub async fn faults(server: &Server, with_detail: bool) -> Vec<v1::Fault> {
    let request = v1::ListFaultsRequest {
        application: "web".into(),
        include_internal_detail: with_detail,
        ..v1::ListFaultsRequest::default()
    };
    server.applications().await.list_faults(request).await.unwrap().into_inner().faults
}

pub async fn status(server: &Server) -> v1::AggregatedStatus {
    let got = server.applications().await.get_application(get("web")).await.unwrap();
    got.into_inner().application.unwrap().status.unwrap()
}

fn vectors() -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/error-classes.yaml");
    yaml_serde::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_string()
}

/// Returns a rules file with the pairs that the vectors call registered.
fn rules() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut pairs: Vec<(String, String)> = Vec::new();
    for case in vectors() {
        let input = &case["input"];
        let pair = (text(input, "domain"), text(input, "reason"));
        if input["registered"].as_bool() == Some(true) && !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let write = |(domain, reason): &(String, String)| {
        format!("[[gone]]\ndomain = '{domain}'\nreason = '{reason}'\n")
    };
    std::fs::write(file.path(), pairs.iter().map(write).collect::<String>()).unwrap();
    file
}

fn error_of(input: &Value) -> v1::ErrorReport {
    let named = |prefix: &str, key: &str| format!("{prefix}_{}", text(input, key));
    let outcome = named("ERROR_OUTCOME", "outcome");
    let millis = input["retry_after_ms"].as_i64();
    v1::ErrorReport {
        system: text(input, "system"),
        code: text(input, "code"),
        origin: ErrorOrigin::from_str_name(&named("ERROR_ORIGIN", "origin")).unwrap().into(),
        outcome: v1::ErrorOutcome::from_str_name(&outcome).unwrap_or_default().into(),
        domain: text(input, "domain"),
        reason: text(input, "reason"),
        retry_after: millis.map(|millis| prost_types::Duration {
            seconds: millis / 1000,
            nanos: (millis % 1000) as i32 * 1_000_000,
        }),
        user_input: input["user_input"].as_bool(),
        own_request: input["own_request"].as_bool(),
        quota: input["quota"].as_bool(),
        machine_resolvable: input["machine_resolvable"].as_bool(),
        deadline_passed: input["deadline_passed"].as_bool(),
        own_shutdown: input["own_shutdown"].as_bool(),
        ..v1::ErrorReport::default()
    }
}

async fn every_vector(server: &Server) {
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    let cases = vectors();
    for case in &cases {
        let (id, expect) = (text(case, "id"), &case["expect"]);
        let request = v1::ReportErrorRequest {
            application: id.clone(),
            unit: "web/0".into(),
            error: Some(error_of(&case["input"])),
            ..v1::ReportErrorRequest::default()
        };
        let verdict = reports.report_error(request).await.unwrap().into_inner().verdict.unwrap();
        let class = format!("ERROR_CLASS_{}", text(expect, "class"));
        assert_eq!(verdict.class().as_str_name(), class, "{id}: {verdict:?}");
        let action = format!("VERDICT_ACTION_{}", text(expect, "action"));
        assert_eq!(verdict.action().as_str_name(), action, "{id}: {verdict:?}");
        let counts = expect["counts_as_attempt"].as_bool().unwrap();
        assert_eq!(verdict.attempt, i32::from(counts), "{id}");
        // Whether an error that blocks also holds is a column of its row.
        match text(expect, "action").as_str() {
            "BLOCK" => {}
            action => assert_eq!(verdict.held, ["RECOVER", "HALT"].contains(&action), "{id}"),
        }
        assert_eq!(verdict.retry_time.is_none(), verdict.held, "{id}");
        let got = applications.get_application(get(&id)).await.unwrap().into_inner();
        let status = got.application.unwrap().status.unwrap();
        assert_eq!(status.next_retry_time, verdict.retry_time, "{id}");
        let level = status.level();
        let effect = match text(expect, "status_effect").as_str() {
            "none" => "LEVEL_UNKNOWN".to_string(),
            word => format!("LEVEL_{}", word.to_uppercase()),
        };
        assert_eq!(level.as_str_name(), effect, "{id}");
    }
    assert!(100 < cases.len(), "only {} cases ran", cases.len());
}

#[tokio::test]
async fn every_vector_through_the_service_on_disk() {
    let (rules, dir) = (rules(), tempfile::tempdir().unwrap());
    let rules = rules.path().to_str().unwrap();
    let data = dir.path().to_str().unwrap();
    every_vector(&Server::start(&["--data-dir", data, "--error-rules", rules])).await;
}

#[tokio::test]
async fn every_vector_through_the_service_on_redis() {
    let Some(redis) = Redis::start(&[]) else { return };
    let rules = rules();
    let rules = rules.path().to_str().unwrap();
    every_vector(&Server::start(&["--store", &redis.url(), "--error-rules", rules])).await;
}

#[tokio::test]
async fn time_alone_passes_the_thresholds_and_a_success_clears() {
    let dir = tempfile::tempdir().unwrap();
    let data = ["--data-dir", dir.path().to_str().unwrap()];
    let fast = "[faults]\nsoft_after_seconds = 1\nhard_after_seconds = 2";
    let server = Server::configured(&data, fast);
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "serving")).await.unwrap();
    let met = mk_error("grpc", "UNAVAILABLE", "pg:5432");
    let answer = reports.report_error(met.clone()).await.unwrap().into_inner();
    let verdict = answer.verdict.unwrap();
    assert_eq!((verdict.attempt, verdict.attempts_left), (1, 9));
    let at_once = status(&server).await;
    assert_eq!((at_once.level(), at_once.fault_count), (Level::Active, 1));
    let at_level = async |level: Level| {
        eventually(level.as_str_name(), async || {
            let status = status(&server).await;
            (status.level() == level).then_some(status)
        })
        .await
    };
    let waits = at_level(Level::Waiting).await;
    assert_eq!((waits.reason.as_str(), waits.message.as_str()), ("Retrying", "pg:5432: refused"));
    assert_eq!(waits.winner.unwrap().target, "pg:5432");
    let failed = at_level(Level::Error).await;
    // The peer answered each time.
    assert_eq!(failed.reason, "Failing");
    assert!(failed.message.starts_with("failing since 20"), "{}", failed.message);
    // A retry that fails again with a different message of the same meaning changes no field that
    // is shown.
    let mut again = met.clone();
    again.error.as_mut().unwrap().message = "refused".into();
    reports.report_error(again).await.unwrap();
    let later = status(&server).await;
    assert_eq!((later.since_time, &later.message), (failed.since_time, &failed.message));
    // The error is stored like all other data.
    server.kill();
    let server = Server::configured(&data, fast);
    let open = faults(&server, false).await;
    assert_eq!((open.len(), open[0].count, open[0].level()), (1, 2, Level::Error));
    let resolved = server.reports().await.resolve_error(mk_resolve("")).await.unwrap();
    assert_eq!(resolved.into_inner().resolved_count, 1);
    assert_eq!(status(&server).await.level(), Level::Active);
    assert!(faults(&server, false).await.is_empty());
}

#[tokio::test]
async fn refusals_without_a_success_show_by_time_and_are_marked_before() {
    let fast = "[faults]\nsoft_after_seconds = 2\nhard_after_seconds = 4";
    let server = Server::configured(&["--ephemeral"], fast);
    ok(&server, &["report", "rel/0", "--level", "active", "-m", "v1 serves"]);
    ok(&server, &["report", "kv/0", "--level", "active"]);
    let busy = "UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress";
    let helm = ["error", "rel/0", "--target", "rel", "--system", "helm", "-m", busy];
    let full = ["error", "kv/0", "--target", "etcd", "--system", "grpc", "-m", "no space"];
    let full = [&full[..], &["--code", "RESOURCE_EXHAUSTED"]].concat();
    for _ in 0..5 {
        assert!(ok(&server, &helm).contains("REREAD"));
        assert!(ok(&server, &full).contains("RETRY"));
    }
    let status = ok(&server, &["status"]);
    assert_eq!(status.matches("1 open error !").count(), 2, "{status}");
    let problems = ok(&server, &["status", "--problems"]);
    assert!(problems.contains("rel ") && problems.contains("kv "), "{problems}");
    eventually("both are in error", async || {
        let status = run(&server, &["status", "--exit-status"]);
        (status.code == Some(12) && status.out.contains("2 error")).then_some(())
    })
    .await;
    let why = ok(&server, &["why", "rel"]);
    assert!(why.contains("failing since 20") && why.contains("another operation"), "{why}");
}

#[tokio::test]
async fn a_wait_that_the_peer_chose_is_cut_and_costs_no_report() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for (seconds, cut, target) in [(90_000, Some(86_400), "a"), (-5, Some(0), "b"), (60, None, "c")]
    {
        let mut request = mk_error("grpc", "UNAVAILABLE", target);
        let wait = prost_types::Duration { seconds, nanos: 0 };
        request.error.as_mut().unwrap().retry_after = Some(wait);
        let answer = reports.report_error(request).await.unwrap().into_inner();
        let wait = answer.verdict.unwrap().retry_after.unwrap();
        assert_eq!(wait.seconds, cut.unwrap_or(seconds));
        let advice =
            cut.map(|cut| format!("error.retry_after was cut from {seconds} s to {cut} s"));
        assert_eq!(answer.advice, advice.into_iter().collect::<Vec<_>>());
    }
}

#[tokio::test]
async fn a_repeated_request_counts_once_and_an_old_incarnation_not_at_all() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let once = v1::ReportErrorRequest {
        request_id: "once".into(),
        incarnation: Some(2),
        ..mk_error("grpc", "UNAVAILABLE", "pg")
    };
    let first = reports.report_error(once.clone()).await.unwrap().into_inner();
    let second = reports.report_error(once.clone()).await.unwrap().into_inner();
    assert_eq!(first, second);
    assert_eq!(faults(&server, false).await[0].count, 1);
    let old = v1::ReportErrorRequest { request_id: String::new(), incarnation: Some(1), ..once };
    let refused = reports.report_error(old).await.unwrap_err();
    assert_eq!(reason(&refused), "STALE_INCARNATION");
    // A unit may resolve an error before it has reported anything else.
    let first = v1::ResolveErrorRequest { unit: "web/9".into(), ..mk_resolve("pg") };
    for nothing in [first, mk_resolve("mysql")] {
        let answer = reports.resolve_error(nothing).await.unwrap().into_inner();
        assert_eq!((answer.resolved_count, answer.held_count), (0, 0));
    }
}

type Change = fn(&mut v1::ErrorReport);

#[tokio::test]
async fn every_bad_error_names_its_field() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let cases: [(Change, &str, &str); 12] = [
        (|e| e.system.clear(), "MISSING_FIELD", "error.system"),
        (|e| e.system = "Soap 1".into(), "INVALID_VALUE", "error.system"),
        (|e| e.origin = 0, "MISSING_FIELD", "error.origin"),
        (|e| e.origin = 9, "INVALID_VALUE", "error.origin"),
        (|e| e.outcome = 9, "INVALID_VALUE", "error.outcome"),
        (|e| e.reason = "No such thing".into(), "INVALID_VALUE", "error.reason"),
        (|e| e.reason = "A".repeat(254), "INVALID_VALUE", "error.reason"),
        (|e| e.target = "a\nb".into(), "INVALID_VALUE", "error.target"),
        (|e| e.target = "a".repeat(254), "MESSAGE_TOO_LONG", "error.target"),
        (|e| e.message = "a".repeat(4097), "MESSAGE_TOO_LONG", "error.message"),
        (|e| e.internal_detail = "a".repeat(65_537), "MESSAGE_TOO_LONG", "error.internal_detail"),
        (|e| e.attempt = -1, "INVALID_VALUE", "error.attempt"),
    ];
    for (change, expected, field) in cases {
        let mut request = mk_error("grpc", "UNAVAILABLE", "pg");
        change(request.error.as_mut().unwrap());
        let error = reports.report_error(request).await.unwrap_err();
        assert_eq!((error.code(), reason(&error).as_str()), (Code::InvalidArgument, expected));
        let details = error.get_error_details();
        let named: Vec<_> =
            details.bad_request().unwrap().field_violations.iter().map(|v| &v.field).collect();
        assert_eq!(named, [field]);
    }
    let nothing = v1::ReportErrorRequest { error: None, ..mk_error("grpc", "", "") };
    assert_eq!(reason(&reports.report_error(nothing).await.unwrap_err()), "MISSING_FIELD");
    let mut applications = server.applications().await;
    let unresolved = v1::ResolveHoldRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..v1::ResolveHoldRequest::default()
    };
    let error = applications.resolve_hold(unresolved).await.unwrap_err();
    assert_eq!(reason(&error), "MISSING_FIELD");
    assert!(applications.get_application(get("web")).await.is_err(), "something was applied");
}

/// Reads page by page; each fault appears once.
async fn count_by_pages(server: &Server) -> usize {
    let mut applications = server.applications().await;
    let mut token = String::new();
    let mut seen = std::collections::BTreeSet::new();
    loop {
        let request = v1::ListFaultsRequest {
            application: "web".into(),
            page_size: 1000,
            page_token: token,
            ..v1::ListFaultsRequest::default()
        };
        let page = applications.list_faults(request).await.unwrap().into_inner();
        seen.extend(page.faults.into_iter().map(|f| (f.unit, f.component, f.target)));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    seen.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn open_errors_are_bounded_and_removal_always_works() {
    let server = Server::ephemeral();
    // Ten thousand faults: 250 of each of forty units.
    let fill = (0..40).map(|unit| {
        let server = &server;
        async move {
            let mut reports = server.reports().await;
            for target in 0..250 {
                let mut request = mk_error("grpc", "DATA_LOSS", &format!("t{target}"));
                request.unit = format!("web/{unit}");
                reports.report_error(request).await.unwrap();
            }
        }
    });
    futures_util::future::join_all(fill).await;
    let mut reports = server.reports().await;
    let mut more = mk_error("grpc", "DATA_LOSS", "one more");
    more.unit = "web/41".into();
    let refused = reports.report_error(more.clone()).await.unwrap_err();
    assert_eq!(
        (refused.code(), reason(&refused).as_str()),
        (Code::ResourceExhausted, "LIMIT_EXCEEDED")
    );
    assert!(refused.message().contains("faults_max"), "{}", refused.message());
    // An open fault can still be reported again, resolved, and removed.
    reports.report_error(mk_error("grpc", "DATA_LOSS", "t7")).await.unwrap();
    assert_eq!(status(&server).await.fault_count, 10_000);
    let mut applications = server.applications().await;
    let remove = v1::RemoveUnitRequest {
        application: "web".into(),
        unit: "web/0".into(),
        ..v1::RemoveUnitRequest::default()
    };
    applications.remove_unit(remove).await.unwrap();
    assert_eq!(status(&server).await.fault_count, 9_750);
    reports.report_error(more.clone()).await.unwrap();
    for target in 0..6 {
        let mut request = mk_error("grpc", "DATA_LOSS", &format!("u{target}"));
        request.unit = "web/1".into();
        reports.report_error(request).await.unwrap();
    }
    let mut own = mk_error("grpc", "DATA_LOSS", "one more");
    own.unit = "web/1".into();
    let refused = reports.report_error(own).await.unwrap_err();
    assert!(refused.message().contains("faults_per_unit_max"), "{}", refused.message());
    assert_eq!(count_by_pages(&server).await, 9_757);
    let delete = v1::DeleteApplicationRequest {
        application: "web".into(),
        ..v1::DeleteApplicationRequest::default()
    };
    applications.delete_application(delete).await.unwrap();
    reports.report_error(more).await.unwrap();
    assert_eq!(status(&server).await.fault_count, 1);
}

/// tonic converts the error of a missing socket into a status with the code `NOT_FOUND`.
#[tokio::test]
async fn a_missing_socket_is_not_a_missing_target() {
    let dir = tempfile::tempdir().unwrap();
    let failed = tokio::net::UnixStream::connect(dir.path().join("missing.socket")).await;
    let made = tonic::Status::from(failed.unwrap_err());
    assert_eq!(made.code(), Code::NotFound);
    let rules = rules();
    let server = Server::start(&["--ephemeral", "--error-rules", rules.path().to_str().unwrap()]);
    let mut reports = server.reports().await;
    let mut met = mk_error("grpc", "NOT_FOUND", "missing.socket");
    let error = met.error.as_mut().unwrap();
    error.message = made.message().into();
    error.domain = "compute.example".into();
    error.reason = "NO_SUCH_INSTANCE".into();
    error.origin = ErrorOrigin::Transport.into();
    let verdict = reports.report_error(met.clone()).await.unwrap().into_inner().verdict.unwrap();
    assert_eq!(verdict.class(), ErrorClass::Transient, "{verdict:?}");
    assert!(verdict.explanation.contains("there was no answer"), "{verdict:?}");
    // The same error from the owner of the target ends the retries.
    met.error.as_mut().unwrap().origin = ErrorOrigin::Peer.into();
    let verdict = reports.report_error(met).await.unwrap().into_inner().verdict.unwrap();
    assert_eq!(verdict.class(), ErrorClass::Gone, "{verdict:?}");
}

/// The retry rate of a whole application is limited, however many units fail at the same time.
#[tokio::test]
async fn retries_of_simultaneous_failures_are_spread() {
    let server = Server::configured(&["--ephemeral"], "[faults]\nretries_per_second_max = 2");
    let mut reports = server.reports().await;
    let mut seconds: std::collections::BTreeMap<i64, u32> = std::collections::BTreeMap::new();
    for target in 0..20 {
        let met = mk_error("grpc", "UNAVAILABLE", &format!("t{target}"));
        let verdict = reports.report_error(met).await.unwrap().into_inner().verdict.unwrap();
        *seconds.entry(verdict.retry_time.unwrap().seconds).or_default() += 1;
        let wait = Duration::try_from(verdict.retry_after.unwrap()).unwrap();
        assert!(Duration::from_millis(200) <= wait, "{wait:?}");
    }
    assert!(seconds.values().all(|count| *count <= 2), "{seconds:?}");
}
