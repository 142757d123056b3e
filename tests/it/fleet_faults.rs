//! Open errors of several applications: as a list, by target, and as far as a caller may read them.

use bellwether::proto::v1::{
    self, ErrorClass, ErrorOrigin, ErrorReport, ListFaultsRequest, ReportErrorRequest,
    ResolveErrorRequest,
};
use bellwether_client::Client;

use crate::cli::{json, ok, run};
use crate::identities::{TokenFile, bearer};
use crate::server::{Server, reason};

const ROLES: &str = r#"
[[grant]]
role = "worker"
to = ["token:root"]
namespace = "*"
application = "*"
unit = "*"
[[grant]]
role = "operator"
to = ["token:root"]
namespace = "*"
application = "*"
[[grant]]
role = "reader"
to = ["token:partial"]
namespace = "prod"
application = "web"
[[grant]]
role = "reader"
to = ["token:partial"]
namespace = "lab"
application = "*"
"#;

/// Each error: namespace, unit, target, code. The number of units that see a target orders them.
const ERRORS: [(&str, &str, &str, &str); 6] = [
    ("lab", "web/0", "quay.io", "UNAVAILABLE"),
    ("prod", "api/0", "pg:5432", "UNAVAILABLE"),
    ("prod", "api/0", "quay.io", "RESOURCE_EXHAUSTED"),
    ("prod", "api/1", "pg:5432", "UNAVAILABLE"),
    ("prod", "web/0", "quay.io", "UNAVAILABLE"),
    ("prod", "web/1", "quay.io", "DATA_LOSS"),
];

async fn report_all(client: &Client) {
    for (namespace, unit, target, code) in ERRORS {
        let (application, _) = unit.split_once('/').unwrap();
        let error = ErrorReport {
            target: target.into(),
            system: "grpc".into(),
            code: code.into(),
            origin: ErrorOrigin::Peer.into(),
            message: "no".into(),
            internal_detail: "secret".into(),
            ..ErrorReport::default()
        };
        let request = ReportErrorRequest {
            namespace: namespace.into(),
            application: application.into(),
            unit: unit.into(),
            error: Some(error),
            ..ReportErrorRequest::default()
        };
        client.reports().report_error(request).await.unwrap();
    }
}

/// Returns an error in words: `prod/web web/0 quay.io`.
fn line(fault: &v1::Fault) -> String {
    let v1::Fault { namespace, application, unit, target, .. } = fault;
    assert_eq!(fault.last.as_ref().unwrap().internal_detail, "");
    format!("{namespace}/{application} {unit} {target}")
}

/// Returns a row in words: `quay.io 4 units 3 applications: lab/web prod/api TRANSIENT`.
fn row(target: &v1::FaultTarget) -> String {
    let class = |class: i32| {
        let name = ErrorClass::try_from(class).unwrap().as_str_name();
        name.trim_start_matches("ERROR_CLASS_").to_string()
    };
    let classes: Vec<String> = target.classes.iter().map(|one| class(*one)).collect();
    let v1::FaultTarget { target: name, unit_count, application_count, .. } = target;
    assert!(target.first_time.is_some() && target.last_time.is_some());
    let (applications, classes) = (target.applications.join(" "), classes.join(" "));
    format!("{name} {unit_count} units {application_count}: {applications} {classes}")
}

async fn lines(client: &Client, namespace: &str) -> Vec<String> {
    client.list_faults(namespace, "").await.unwrap().iter().map(line).collect()
}

async fn rows(client: &Client, namespace: &str) -> Vec<String> {
    client.list_fault_targets(namespace, "").await.unwrap().iter().map(row).collect()
}

#[tokio::test]
async fn errors_of_all_applications_are_listed_and_grouped_by_target() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    assert_eq!((lines(&client, "-").await, rows(&client, "-").await), (vec![], vec![]));
    report_all(&client).await;
    let all: Vec<String> = ERRORS
        .map(|(namespace, unit, target, _)| {
            let (application, _) = unit.split_once('/').unwrap();
            format!("{namespace}/{application} {unit} {target}")
        })
        .to_vec();
    assert_eq!(lines(&client, "-").await, all);
    assert_eq!(lines(&client, "prod").await, all[1..]);
    let by_target = [
        "quay.io 4 units 3: lab/web prod/api prod/web TRANSIENT THROTTLED FATAL",
        "pg:5432 2 units 1: prod/api TRANSIENT",
    ];
    assert_eq!(rows(&client, "-").await, by_target);
    assert_eq!(rows(&client, "lab").await, ["quay.io 1 units 1: lab/web TRANSIENT"]);
    let of_one = client.list_fault_targets("prod", "api").await.unwrap();
    let of_one: Vec<String> = of_one.iter().map(row).collect();
    assert_eq!(
        of_one,
        ["pg:5432 2 units 1: prod/api TRANSIENT", "quay.io 1 units 1: prod/api THROTTLED"]
    );
    let resolve = ResolveErrorRequest {
        namespace: "prod".into(),
        application: "api".into(),
        unit: "api/0".into(),
        all_components: true,
        ..ResolveErrorRequest::default()
    };
    client.reports().resolve_error(resolve).await.unwrap();
    assert_eq!(rows(&client, "-").await[1], "pg:5432 1 units 1: prod/api TRANSIENT");
}

#[tokio::test]
async fn pages_of_every_size_are_the_same_list() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    report_all(&client).await;
    let whole = (lines(&client, "-").await, rows(&client, "-").await);
    let mut applications = client.applications();
    for page_size in 1..=7 {
        for group_by_target in [false, true] {
            let mut request = ListFaultsRequest {
                namespace: "-".into(),
                page_size,
                group_by_target,
                ..ListFaultsRequest::default()
            };
            let mut found = Vec::new();
            loop {
                let page = applications.list_faults(request.clone()).await.unwrap().into_inner();
                found.extend(page.faults.iter().map(line));
                found.extend(page.targets.iter().map(row));
                if page.next_page_token.is_empty() {
                    break;
                }
                request.page_token = page.next_page_token;
            }
            let expected = if group_by_target { &whole.1 } else { &whole.0 };
            assert_eq!(found, *expected, "pages of {page_size}");
            // A token is bound to its list.
            if !request.page_token.is_empty() {
                request.namespace = "prod".into();
                let refused = applications.list_faults(request).await.unwrap_err();
                assert_eq!(reason(&refused), "INVALID_PAGE_TOKEN");
            }
        }
    }
}

#[tokio::test]
async fn a_request_about_one_application_needs_its_name() {
    let server = Server::ephemeral();
    let mut applications = server.applications().await;
    let all = || ListFaultsRequest { namespace: "-".into(), ..ListFaultsRequest::default() };
    for (request, expected) in [
        (ListFaultsRequest { unit: "web/0".into(), ..all() }, "INVALID_VALUE"),
        (ListFaultsRequest { min_revision: 1, ..all() }, "INVALID_VALUE"),
        (ListFaultsRequest { include_internal_detail: true, ..all() }, "INVALID_VALUE"),
        (ListFaultsRequest { application: "web".into(), ..all() }, "INVALID_NAME"),
        (ListFaultsRequest { namespace: "a/b".into(), ..all() }, "INVALID_NAME"),
    ] {
        let refused = applications.list_faults(request.clone()).await.unwrap_err();
        assert_eq!(reason(&refused), expected, "{request:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_applications_that_the_caller_may_not_read_count_nowhere() {
    let tokens = TokenFile::new();
    let token = |name: &str| tokens.create(name, "1h");
    let (root, partial) = (token("root"), token("partial"));
    let server = tokens.serve(ROLES);
    let connect = async |token| Client::connect_with(&server.url(), bearer(token)).await.unwrap();
    let (root, partial) = (connect(&root).await, connect(&partial).await);
    report_all(&root).await;
    let own = ["lab/web web/0 quay.io", "prod/web web/0 quay.io", "prod/web web/1 quay.io"];
    assert_eq!(lines(&partial, "-").await, own);
    let seen = ["quay.io 3 units 2: lab/web prod/web TRANSIENT FATAL"];
    assert_eq!(rows(&partial, "-").await, seen);
    assert_eq!(lines(&partial, "ghost").await, [""; 0]);
    // The token of another caller leads nowhere else.
    let page = |token: &str| ListFaultsRequest {
        namespace: "-".into(),
        page_size: 2,
        page_token: token.into(),
        ..ListFaultsRequest::default()
    };
    let first = root.applications().list_faults(page("")).await.unwrap().into_inner();
    let next = partial.applications().list_faults(page(&first.next_page_token)).await.unwrap();
    let next: Vec<String> = next.into_inner().faults.iter().map(line).collect();
    assert_eq!(next, own[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_errors_and_their_targets() {
    let server = Server::ephemeral();
    assert_eq!(run(&server, &["faults"]).err, "no error is open\n");
    let client = Client::connect(&server.url()).await.unwrap();
    report_all(&client).await;
    let text = ok(&server, &["faults", "-A"]);
    assert!(text.starts_with("lab/web\n  web/0 quay.io  TRANSIENT 1x in "), "{text}");
    let text = ok(&server, &["-n", "prod", "faults", "--by-target"]);
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[1].starts_with("    3     2  "), "{text}");
    assert_eq!(rows[2].trim(), "api, web");
    let one = ok(&server, &["-n", "prod", "faults", "web"]);
    assert_eq!(one.lines().count(), 2, "{one}");
    let list = json(&server, &["faults", "-A", "--by-target", "-o", "json"]);
    assert_eq!(list["targets"][0]["target"], "quay.io");
    assert_eq!(list["targets"][0]["unitCount"], 4);
}
