//! A sample of the operation vectors through the real service, on both stores: every case that does
//! not depend on time.

use std::path::Path;

use bellwether::proto::v1;
use bellwether::proto::v1::operation_service_client::OperationServiceClient;
use tonic::transport::Channel;
use yaml_serde::Value;

use crate::redis::Redis;
use crate::server::{Server, get, reason};

type Client = OperationServiceClient<Channel>;

/// Longer than any test: the steps of a case within its lease are within this lease too.
const LEASE_SECONDS: i64 = 600;

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_string()
}

fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_default()
}

/// Returns true if no step of a case waits for time: for a lapse of a lease, a retry or a deadline.
fn is_timeless(case: &Value) -> bool {
    let config = &case["config"];
    let steps = case["steps"].as_sequence().unwrap();
    let lease = number(config, "lease_ms");
    // Within its lease a tick changes nothing.
    let passes = |step: &Value| {
        let waits = text(step, "do") == "expire";
        waits || step.get("store").is_some() || lease < number(step, "at")
    };
    let retries = |pair: &[Value]| {
        let failed = text(&pair[0]["expect"], "state") == "RETRY_WAIT";
        failed && text(&pair[1], "do") == "acquire"
    };
    config.get("deadline_ms").is_none()
        && !steps.iter().any(passes)
        && !steps.windows(2).any(retries)
}

/// Runs a step. Returns the operation after it, or the refusal.
async fn play(
    client: &mut Client,
    application: &str,
    config: &Value,
    step: &Value,
) -> Result<v1::Operation, tonic::Status> {
    let (application, operation_id) = (application.to_string(), text(step, "op"));
    let operation = match text(step, "do").as_str() {
        "begin" => {
            let request = begin(application, operation_id, config, step);
            client.begin_operation(request).await?.into_inner().operation
        }
        "cancel" => {
            let request =
                v1::CancelOperationRequest { application, operation_id, ..Default::default() };
            client.cancel_operation(request).await?.into_inner().operation
        }
        "retry" => {
            let request =
                v1::RetryOperationRequest { application, operation_id, ..Default::default() };
            client.retry_operation(request).await?.into_inner().operation
        }
        "tick" => {
            let request =
                v1::GetOperationRequest { application, operation_id, ..Default::default() };
            client.get_operation(request).await?.into_inner().operation
        }
        _ => work(client, application, operation_id, step).await?,
    };
    Ok(operation.unwrap())
}

/// Runs the action of a worker.
async fn work(
    client: &mut Client,
    application: String,
    operation_id: String,
    step: &Value,
) -> Result<Option<v1::Operation>, tonic::Status> {
    let (unit, fence) = (text(step, "by"), number(step, "fence"));
    Ok(match text(step, "do").as_str() {
        "acquire" => {
            let request = acquire(application, unit, operation_id, step);
            client.acquire_operation(request).await?.into_inner().operation
        }
        "heartbeat" => {
            let mut request = v1::HeartbeatOperationRequest {
                application,
                unit,
                operation_id,
                ..Default::default()
            };
            (request.fence, request.checkpoint) = (fence, Some(text(step, "checkpoint").into()));
            client.heartbeat_operation(request).await?.into_inner().operation
        }
        "release" | "stop_ack" => {
            let mut request = v1::ReleaseOperationRequest {
                application,
                unit,
                operation_id,
                ..Default::default()
            };
            request.fence = fence;
            client.release_operation(request).await?.into_inner().operation
        }
        "complete" => {
            let mut request = v1::CompleteOperationRequest {
                application,
                unit,
                operation_id,
                ..Default::default()
            };
            request.fence = fence;
            client.complete_operation(request).await?.into_inner().operation
        }
        "fail" => {
            let mut request =
                v1::FailOperationRequest { application, unit, operation_id, ..Default::default() };
            (request.fence, request.error) = (fence, Some(error(step)));
            request.touched = step["touched"].as_bool().unwrap_or_default();
            client.fail_operation(request).await?.into_inner().operation
        }
        "verify" => {
            let mut request = v1::VerifyOperationRequest {
                application,
                unit,
                operation_id,
                ..Default::default()
            };
            let observed = format!("OBSERVED_{}", text(step, "observed"));
            request.observed = v1::Observed::from_str_name(&observed).unwrap() as i32;
            request.fence = fence;
            client.verify_operation(request).await?.into_inner().operation
        }
        other => panic!("nothing is done as {other}"),
    })
}

fn acquire(
    application: String,
    unit: String,
    operation_id: String,
    step: &Value,
) -> v1::AcquireOperationRequest {
    let state = format!("PAYLOAD_STATE_{}", text(step, "payload_state").to_uppercase());
    v1::AcquireOperationRequest {
        application,
        unit,
        operation_id,
        verify: step["verify"].as_bool().unwrap_or_default(),
        payload_state: v1::PayloadState::from_str_name(&state).unwrap_or_default() as i32,
        ..Default::default()
    }
}

fn error(step: &Value) -> v1::ErrorReport {
    let class = format!("ERROR_CLASS_{}", text(step, "class"));
    v1::ErrorReport {
        class: v1::ErrorClass::from_str_name(&class).unwrap() as i32,
        message: "no".to_string(),
        ..Default::default()
    }
}

fn begin(
    application: String,
    operation_id: String,
    config: &Value,
    step: &Value,
) -> v1::BeginOperationRequest {
    let kind = match text(step, "kind").as_str() {
        "rollback" => v1::OperationKind::Rollback,
        _ => v1::OperationKind::Upgrade,
    };
    v1::BeginOperationRequest {
        application,
        unit: text(step, "by"),
        operation_id,
        kind: kind as i32,
        from_version: text(step, "from"),
        target_version: text(step, "target"),
        payload: text(step, "payload").into(),
        deterministic: config["deterministic"].as_bool().unwrap(),
        reversible: config["reversible"].as_bool().unwrap(),
        max_attempts: number(config, "max_attempts") as i32,
        max_interruptions: Some(number(config, "max_interruptions") as i32),
        lease_duration: Some(prost_types::Duration { seconds: LEASE_SECONDS, nanos: 0 }),
        supersede: step["supersede"].as_bool().unwrap_or_default(),
        reason: text(step, "reason"),
        ..Default::default()
    }
}

fn check(at: &str, expect: &Value, operation: &v1::Operation) {
    let state = operation.state().as_str_name().trim_start_matches("OPERATION_STATE_");
    let checkpoint = String::from_utf8_lossy(&operation.checkpoint).into_owned();
    let payload = String::from_utf8_lossy(&operation.payload).into_owned();
    for (key, found) in [
        ("state", state),
        ("operation_reason", &operation.reason),
        ("next_target", &operation.next_target_version),
        ("checkpoint", &checkpoint),
        ("payload", &payload),
    ] {
        if let Some(expected) = expect.get(key) {
            assert_eq!(found, expected.as_str().unwrap(), "{at}: {key}");
        }
    }
    for (key, found) in [
        ("fence", operation.fence),
        ("attempts_failed", operation.attempts_failed as u64),
        ("interruptions", operation.interruptions as u64),
    ] {
        if let Some(expected) = expect.get(key) {
            assert_eq!(found, expected.as_u64().unwrap(), "{at}: {key}");
        }
    }
}

async fn run(server: &Server, case: &Value) {
    let mut client = OperationServiceClient::new(server.channel().await);
    let mut applications = server.applications().await;
    let id = text(case, "id");
    for step in case["steps"].as_sequence().unwrap() {
        let at = format!("{id} at {}", number(step, "at"));
        let expect = &step["expect"];
        let answer = play(&mut client, &id, &case["config"], step).await;
        if let Some(ok) = expect.get("ok") {
            assert_eq!(answer.is_ok(), ok.as_bool().unwrap(), "{at}: {answer:?}");
        }
        let mut about = text(step, "op");
        if let Err(refused) = &answer {
            let code = format!("{:?}", refused.code()).to_lowercase();
            if let Some(expected) = expect.get("code") {
                assert_eq!(
                    code,
                    expected.as_str().unwrap().replace('_', "").to_lowercase(),
                    "{at}"
                );
            }
            if let Some(expected) = expect.get("reason") {
                assert_eq!(reason(refused), expected.as_str().unwrap(), "{at}");
            }
            use tonic_types::StatusExt;
            let details = refused.get_error_details();
            let metadata = &details.error_info().unwrap().metadata;
            about = metadata.get("operation_id").cloned().unwrap_or(about);
        }
        if expect.get("state").is_none() {
            continue;
        }
        let request = v1::GetOperationRequest {
            application: id.clone(),
            operation_id: about,
            ..Default::default()
        };
        let operation = client.get_operation(request).await.unwrap().into_inner().operation;
        check(&at, expect, &operation.unwrap());
        if let Some(level) = expect.get("app_level") {
            let got = applications.get_application(get(&id)).await.unwrap().into_inner();
            let found = got.application.unwrap().status.unwrap().level();
            let expected = format!("LEVEL_{}", level.as_str().unwrap().to_uppercase());
            assert_eq!(found.as_str_name(), expected, "{at}");
        }
    }
}

async fn sample(server: &Server) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/operations.yaml");
    let cases: Vec<Value> = yaml_serde::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let timeless: Vec<&Value> = cases.iter().filter(|case| is_timeless(case)).collect();
    for case in &timeless {
        run(server, case).await;
    }
    println!("{} cases hold through the service", timeless.len());
    assert!(5 <= timeless.len(), "only {} cases ran", timeless.len());
}

#[tokio::test]
async fn operations_through_the_service() {
    let dir = tempfile::tempdir().unwrap();
    sample(&Server::on(dir.path())).await;
}

#[tokio::test]
async fn operations_through_the_service_over_redis() {
    let Some(redis) = Redis::start(&[]) else { return };
    sample(&Server::start(&["--store", &redis.url()])).await;
}
