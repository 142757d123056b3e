//! The aggregation vectors through the real service.

use std::path::Path;

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use yaml_serde::Value;

use crate::server::{Server, get};

fn level(word: &Value) -> i32 {
    let name = format!("LEVEL_{}", word.as_str().unwrap().to_uppercase());
    Level::from_str_name(&name).unwrap() as i32
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_string()
}

fn number(value: &Value, key: &str) -> i32 {
    value[key].as_i64().unwrap_or_default() as i32
}

/// Runs every case except those with lost units: the loss of a unit takes time, which the core's
/// runner can move.
#[tokio::test]
async fn aggregation_through_the_service() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut applications = server.applications().await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/aggregation.yaml");
    let cases: Vec<Value> = yaml_serde::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut run = 0;
    for case in cases.iter().filter(|case| case.get("lost").is_none()) {
        let id = text(case, "id");
        let leader = text(case, "leader");
        let configure = v1::ConfigureApplicationRequest {
            application: id.clone(),
            config: Some(v1::ApplicationConfig {
                policy: Some(v1::Policy { name: text(case, "policy"), order: vec![] }),
                external_leader: Some(v1::ExternalLeader { unit: leader.clone() }),
                ..Default::default()
            }),
            ..Default::default()
        };
        applications.configure_application(configure).await.unwrap();
        if let Some(given) = case.get("override") {
            let mode = match text(given, "mode").as_str() {
                "override" => v1::ApplicationStatusMode::Override,
                _ => v1::ApplicationStatusMode::Contribute,
            };
            let set = v1::SetApplicationStatusRequest {
                application: id.clone(),
                unit: leader,
                level: level(&given["level"]),
                message: text(given, "message"),
                mode: mode as i32,
                ..Default::default()
            };
            applications.set_application_status(set).await.unwrap();
        }
        for given in case["statuses"].as_sequence().unwrap() {
            reports.report_status(report_of(&id, given)).await.unwrap();
        }
        let got = applications.get_application(get(&id)).await.unwrap().into_inner();
        let status = got.application.unwrap().status.unwrap();
        let expect = &case["expect"];
        assert_eq!(status.level, level(&expect["level"]), "{id}");
        assert_eq!(status.message, text(expect, "message"), "{id}");
        let winner = status.winner.unwrap_or_default();
        if let Some(unit) = expect.get("unit") {
            assert_eq!(winner.unit, unit.as_str().unwrap(), "{id}");
        }
        if let Some(component) = expect.get("component") {
            assert_eq!(winner.component, component.as_str().unwrap(), "{id}");
        }
        run += 1;
    }
    assert!(50 < run, "only {run} cases ran");
}

fn report_of(application: &str, given: &Value) -> v1::ReportStatusRequest {
    let kind = match text(given, "kind").as_str() {
        "pull" => v1::StatusKind::Pull,
        _ => v1::StatusKind::Push,
    };
    let since = given["since"].as_i64().map(|millis| prost_types::Timestamp {
        seconds: millis / 1000,
        nanos: (millis % 1000) as i32 * 1_000_000,
    });
    v1::ReportStatusRequest {
        application: application.to_string(),
        unit: text(given, "unit"),
        status: Some(v1::StatusReport {
            component: text(given, "component"),
            key: text(given, "key"),
            kind: kind as i32,
            level: level(&given["level"]),
            message: text(given, "message"),
            priority: number(given, "priority"),
            precedence: number(given, "precedence"),
            observe_time: since,
            ..Default::default()
        }),
        ..Default::default()
    }
}
