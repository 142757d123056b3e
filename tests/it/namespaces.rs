//! Namespaces: their list, their health by gRPC and HTTP, and who may learn of them.

use bellwether::proto::health::HealthCheckRequest;
use bellwether::proto::health::health_check_response::ServingStatus;
use bellwether::proto::v1::{
    self, DeleteApplicationRequest, Level, ListNamespacesRequest, ReportStatusRequest,
};
use bellwether_client::Client;
use serde_json::json as literal;
use tonic::Code;

use crate::cli::{json, ok, run};
use crate::identities::{TokenFile, bearer};
use crate::server::{DEADLINE, Server, mk_report, reason};
use crate::web::{Version, get};

const ROLES: &str = r#"
[[grant]]
role = "operator"
to = ["token:root"]
namespace = "*"
application = "*"
[[grant]]
role = "worker"
to = ["token:root"]
namespace = "*"
application = "*"
unit = "*"
[[grant]]
role = "reader"
to = ["token:partial"]
namespace = "prod"
application = "*"
[[grant]]
role = "reader"
to = ["token:partial"]
namespace = "lab"
application = "web"
[[grant]]
role = "worker"
to = ["token:worker"]
namespace = "prod"
application = "web"
unit = "web/0"
"#;

fn report(namespace: &str, application: &str, level: Level, message: &str) -> ReportStatusRequest {
    let unit = format!("{application}/0");
    let namespace = namespace.to_string();
    ReportStatusRequest { namespace, ..mk_report(application, &unit, level, message) }
}

fn delete(namespace: &str, application: &str) -> DeleteApplicationRequest {
    let (namespace, application) = (namespace.to_string(), application.to_string());
    DeleteApplicationRequest { namespace, application, ..Default::default() }
}

/// Returns a namespace in words: `prod 2: 1 blocked 1 active; db: no target`.
fn line(namespace: &v1::Namespace) -> String {
    let word = |level: i32| {
        let name = Level::try_from(level).unwrap().as_str_name();
        name.trim_start_matches("LEVEL_").to_lowercase()
    };
    let levels = namespace.applications_by_level.iter();
    let levels: Vec<_> = levels.map(|of| format!("{} {}", of.count, word(of.level))).collect();
    let worst = namespace.worst.as_ref().unwrap();
    let message = &worst.status.as_ref().unwrap().message;
    let v1::Namespace { name, application_count, .. } = namespace;
    format!("{name} {application_count}: {}; {}: {message}", levels.join(" "), worst.name)
}

async fn lines(client: &Client) -> Vec<String> {
    client.list_namespaces().await.unwrap().iter().map(line).collect()
}

fn service(name: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: name.into() }
}

#[tokio::test]
async fn namespaces_come_with_their_first_application_and_go_with_the_last() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    assert_eq!(lines(&client).await, [""; 0]);
    for (namespace, application, level, message) in [
        ("prod", "web", Level::Active, "fine"),
        ("prod", "db", Level::Blocked, "no target"),
        ("lab", "web", Level::Waiting, "soon"),
    ] {
        let report = report(namespace, application, level, message);
        client.reports().report_status(report).await.unwrap();
    }
    let all = ["lab 1: 1 waiting; web: soon", "prod 2: 1 blocked 1 active; db: no target"];
    assert_eq!(lines(&client).await, all);
    let mut applications = client.applications();
    let page = |token: &str| ListNamespacesRequest { page_size: 1, page_token: token.into() };
    let first = applications.list_namespaces(page("")).await.unwrap().into_inner();
    assert_eq!(first.namespaces.len(), 1);
    let second = applications.list_namespaces(page(&first.next_page_token)).await;
    let second = second.unwrap().into_inner();
    assert_eq!((line(&second.namespaces[0]).as_str(), &*second.next_page_token), (all[1], ""));
    let wrong = applications.list_namespaces(page("rubbish")).await.unwrap_err();
    assert_eq!(reason(&wrong), "INVALID_PAGE_TOKEN");
    applications.delete_application(delete("lab", "web")).await.unwrap();
    assert_eq!(lines(&client).await, all[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_of_a_namespace_is_that_of_all_its_applications() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    let (mut reports, mut applications) = (client.reports(), client.applications());
    let mut health = client.health();
    let unknown = health.check(service("prod/")).await.unwrap_err();
    assert_eq!((unknown.code(), reason(&unknown).as_str()), (Code::NotFound, "SERVICE_NOT_FOUND"));
    assert_eq!(health.check(service("-/")).await.unwrap_err().code(), Code::NotFound);
    let mut watch = health.watch(service("prod/")).await.unwrap().into_inner();
    let mut next = async || {
        let next = tokio::time::timeout(DEADLINE, watch.message()).await;
        next.expect("in time").unwrap().expect("the call stays open").status()
    };
    assert_eq!(next().await, ServingStatus::ServiceUnknown);
    let mut put = async |application, level| {
        reports.report_status(report("prod", application, level, "")).await.unwrap();
    };
    put("web", Level::Active).await;
    assert_eq!(next().await, ServingStatus::Serving);
    let now = health.check(service("prod/")).await.unwrap().into_inner();
    assert_eq!(now.status(), ServingStatus::Serving);
    assert_eq!(get(&server, Version::Http1, "/health/prod").await.status, 200);
    assert_eq!(run(&server, &["-n", "prod", "health", "--all"]).code, Some(0));
    put("db", Level::Error).await;
    assert_eq!(next().await, ServingStatus::NotServing);
    let answer = get(&server, Version::Http1, "/health/prod").await;
    assert_eq!((answer.status, answer.text().as_str()), (503, "prod/ is not serving\n"));
    assert_eq!(run(&server, &["-n", "prod", "health", "--all"]).code, Some(1));
    // Another application that fails changes nothing.
    put("web", Level::Error).await;
    put("web", Level::Active).await;
    applications.delete_application(delete("prod", "db")).await.unwrap();
    assert_eq!(next().await, ServingStatus::Serving);
    applications.delete_application(delete("prod", "web")).await.unwrap();
    assert_eq!(next().await, ServingStatus::ServiceUnknown);
    assert_eq!(get(&server, Version::Http1, "/health/prod").await.status, 404);
    put("web", Level::Active).await;
    assert_eq!(next().await, ServingStatus::Serving);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_learns_of_namespaces_that_it_may_list_and_of_no_other() {
    let tokens = TokenFile::new();
    let token = |name: &str| tokens.create(name, "1h");
    let (root, partial, worker) = (token("root"), token("partial"), token("worker"));
    let server = tokens.serve(ROLES);
    let connect = async |token| Client::connect_with(&server.url(), bearer(token)).await.unwrap();
    let (root, partial) = (connect(&root).await, connect(&partial).await);
    let worker = connect(&worker).await;
    for namespace in ["infra", "lab", "prod"] {
        let report = report(namespace, "web", Level::Active, "fine");
        root.reports().report_status(report).await.unwrap();
    }
    let of = |name: &str| format!("{name} 1: 1 active; web: fine");
    assert_eq!(lines(&root).await, ["infra", "lab", "prod"].map(of));
    assert_eq!(lines(&partial).await, [of("prod")]);
    assert_eq!(lines(&worker).await, [""; 0]);
    let mut health = partial.health();
    assert_eq!(health.check(service("prod/")).await.unwrap().into_inner().status, 1);
    // One that is there and one that is not are refused alike.
    for name in ["lab/", "ghost/"] {
        let refused = health.check(service(name)).await.unwrap_err();
        assert_eq!(reason(&refused), "SCOPE_DENIED", "{name}");
        let refused = health.watch(service(name)).await.unwrap_err();
        assert_eq!(reason(&refused), "SCOPE_DENIED", "{name}");
    }
}

#[test]
fn the_command_line_lists_namespaces() {
    let server = Server::ephemeral();
    let said = run(&server, &["namespaces"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""));
    assert!(said.err.contains("no namespaces with applications"), "{}", said.err);
    ok(&server, &["-n", "lab", "report", "web/0", "--level", "active"]);
    ok(&server, &["-n", "prod", "report", "db/0", "--level", "blocked", "-m", "no target"]);
    let text = ok(&server, &["namespaces"]);
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!(rows[0], "Namespace  Apps  Levels     Worst");
    assert_eq!(rows[1], "lab           1  1 active");
    assert!(rows[2].starts_with("prod          1  1 blocked  db is blocked ("), "{text}");
    assert!(rows[2].ends_with("): no target"), "{text}");
    let list = json(&server, &["namespaces", "-o", "json"]);
    let prod = &list["namespaces"][1];
    assert_eq!(prod["name"], "prod");
    assert_eq!(prod["applicationsByLevel"], literal!([{"level": "LEVEL_BLOCKED", "count": 1}]));
    assert_eq!(prod["freshApplications"], 1);
    assert_eq!(prod["worst"]["status"]["message"], "no target");
}
