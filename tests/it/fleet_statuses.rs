//! Statuses of all applications: the pages, the order, the rights, and what a report says of its
//! start.

use bellwether::proto::v1::{
    self, Level, ListStatusesRequest, ReplaceStatusesRequest, StatusRecord, StatusReport,
};
use bellwether_client::Client;

use crate::cli::{json, ok};
use crate::identities::{TokenFile, bearer};
use crate::server::{Server, mk_report, reason};
use crate::web::{VERSIONS, get};

const ROLES: &str = r#"
[[grant]]
role = "worker"
to = ["token:root"]
namespace = "*"
application = "*"
unit = "*"
[[grant]]
role = "reader"
to = ["token:root"]
namespace = "*"
application = "*"
[[grant]]
role = "reader"
to = ["token:eyes"]
namespace = "lab"
application = "*"
[[grant]]
role = "reader"
to = ["token:eyes"]
namespace = "prod"
application = "web"
"#;

/// Reports a set of statuses of one unit: a component each.
async fn report_set(client: &Client, namespace: &str, unit: &str, components: &[&str]) {
    let status = |component: &&str| StatusReport {
        component: component.to_string(),
        level: Level::Waiting.into(),
        ..StatusReport::default()
    };
    let request = ReplaceStatusesRequest {
        namespace: namespace.into(),
        application: unit.split_once('/').unwrap().0.into(),
        unit: unit.into(),
        statuses: components.iter().map(status).collect(),
        ..ReplaceStatusesRequest::default()
    };
    client.reports().replace_statuses(request).await.unwrap();
}

/// Returns a status in words: `prod/web web/0 db`.
fn line(record: &StatusRecord) -> String {
    let StatusRecord { namespace, application, unit, .. } = record;
    format!("{namespace}/{application} {unit} {}", record.report.as_ref().unwrap().component)
}

/// Returns all pages of one size.
async fn pages(client: &Client, namespace: &str, page_size: i32) -> Vec<String> {
    let mut request =
        ListStatusesRequest { namespace: namespace.into(), page_size, ..Default::default() };
    let mut found = Vec::new();
    loop {
        let page = client.applications().list_statuses(request.clone()).await.unwrap().into_inner();
        assert!(page.statuses.len() <= page_size as usize);
        found.extend(page.statuses.iter().map(line));
        if page.next_page_token.is_empty() {
            return found;
        }
        request.page_token = page.next_page_token;
    }
}

#[tokio::test]
async fn all_statuses_are_listed_once_over_pages() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    assert_eq!(pages(&client, "-", 1).await, Vec::<String>::new());
    let mut expected = Vec::new();
    // More applications than a page reads; some of them without any status.
    for n in 0..140 {
        let (namespace, unit) = (["lab", "prod"][n / 70], format!("app-{n:03}/0"));
        let components = &["a", "b", "c"][..n % 4];
        report_set(&client, namespace, &unit, components).await;
        let app = unit.trim_end_matches("/0");
        expected.extend(components.iter().map(|one| format!("{namespace}/{app} {unit} {one}")));
    }
    // Units in natural order.
    for unit in ["zoo/10", "zoo/9"] {
        report_set(&client, "prod", unit, &["x"]).await;
    }
    expected.extend(["prod/zoo zoo/9 x".to_string(), "prod/zoo zoo/10 x".to_string()]);
    for page_size in [1, 2, 7, 1000] {
        assert_eq!(pages(&client, "-", page_size).await, expected, "in pages of {page_size}");
    }
    let of_prod: Vec<String> =
        expected.iter().filter(|line| line.starts_with("prod/")).cloned().collect();
    assert_eq!(pages(&client, "prod", 3).await, of_prod);
    let all = client.list_statuses("-", "", 0).await.unwrap();
    assert_eq!(all.iter().map(line).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn a_page_ends_by_bytes_and_continues_after_a_deletion() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    let text = "x".repeat(4096);
    for app in ["a", "b", "c"] {
        for n in 0..100 {
            let unit = format!("{app}/{n}");
            let mut request = mk_report(app, &unit, Level::Waiting, &text);
            request.status.as_mut().unwrap().check = text.clone();
            client.reports().report_status(request).await.unwrap();
        }
    }
    let mut request = ListStatusesRequest { page_size: 1000, ..ListStatusesRequest::default() };
    let first = client.applications().list_statuses(request.clone()).await.unwrap().into_inner();
    let last = first.statuses.last().unwrap();
    assert_eq!((last.application.as_str(), first.statuses.len() < 200), ("b", true));
    let delete = v1::DeleteApplicationRequest { application: "b".into(), ..Default::default() };
    client.applications().delete_application(delete).await.unwrap();
    request.page_token = first.next_page_token;
    let next = client.applications().list_statuses(request).await.unwrap().into_inner();
    assert_eq!((next.statuses.len(), next.next_page_token.as_str()), (100, ""));
    assert!(next.statuses.iter().all(|record| record.application == "c"));
}

#[tokio::test]
async fn a_list_of_all_refuses_what_is_about_one_application() {
    let server = Server::ephemeral();
    let client = Client::connect(&server.url()).await.unwrap();
    report_set(&client, "prod", "web/0", &["a", "b"]).await;
    let mut applications = server.applications().await;
    let all = || ListStatusesRequest { namespace: "-".into(), ..ListStatusesRequest::default() };
    let page = ListStatusesRequest { page_size: 1, ..all() };
    let page_token = applications.list_statuses(page).await.unwrap().into_inner().next_page_token;
    assert!(!page_token.is_empty());
    for (request, expected) in [
        (ListStatusesRequest { unit: "web/0".into(), ..all() }, "INVALID_VALUE"),
        (ListStatusesRequest { min_revision: 1, ..all() }, "INVALID_VALUE"),
        (ListStatusesRequest { application: "web".into(), ..all() }, "INVALID_NAME"),
        (ListStatusesRequest { namespace: "a/b".into(), ..all() }, "INVALID_NAME"),
        (
            ListStatusesRequest {
                namespace: "prod".into(),
                page_token: page_token.clone(),
                ..all()
            },
            "INVALID_PAGE_TOKEN",
        ),
    ] {
        let refused = applications.list_statuses(request.clone()).await.unwrap_err();
        assert_eq!(reason(&refused), expected, "{request:?}");
        if expected == "INVALID_VALUE" {
            let text = "is about one application; name it in application, or leave this out";
            assert!(refused.message().contains(text), "{}", refused.message());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_lists_the_statuses_of_what_it_may_list() {
    let tokens = TokenFile::new();
    let (root, eyes) = (tokens.create("root", "1h"), tokens.create("eyes", "1h"));
    let server = tokens.serve(ROLES);
    let connect = async |token| Client::connect_with(&server.url(), bearer(token)).await.unwrap();
    let (root, eyes) = (connect(&root).await, connect(&eyes).await);
    report_set(&root, "lab", "web/0", &["a"]).await;
    report_set(&root, "prod", "web/0", &["b"]).await;
    assert_eq!(pages(&root, "-", 10).await, ["lab/web web/0 a", "prod/web web/0 b"]);
    assert_eq!(pages(&eyes, "lab", 10).await, ["lab/web web/0 a"]);
    assert_eq!(eyes.list_statuses("prod", "web", 0).await.unwrap().len(), 1);
    for namespace in ["-", "prod"] {
        let request = ListStatusesRequest { namespace: namespace.into(), ..Default::default() };
        let refused = eyes.applications().list_statuses(request).await.unwrap_err();
        assert_eq!(reason(&refused), "SCOPE_DENIED", "{namespace}");
    }
}

/// Returns the winner of an application.
async fn winner(server: &Server) -> v1::Contribution {
    let request = v1::ExplainApplicationRequest { application: "web".into(), ..Default::default() };
    let why = server.applications().await.explain_application(request).await.unwrap();
    why.into_inner().winner.unwrap()
}

/// Makes a report; returns whether it changed something.
async fn is_change(server: &Server, request: &v1::ReportStatusRequest) -> bool {
    server.reports().await.report_status(request.clone()).await.unwrap().into_inner().changed
}

#[tokio::test]
async fn an_unknown_start_and_labels_are_kept_and_explained() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::on(dir.path());
    let mut request = mk_report("web", "web/0", Level::Error, "down");
    let status = request.status.as_mut().unwrap();
    (status.since_unknown, status.check) = (true, "condition Ready=False".into());
    status.labels.insert("imported-from".into(), "kubernetes".into());
    assert!(is_change(&server, &request).await);
    assert!(!is_change(&server, &request).await, "a repeat");
    server.terminate();
    assert!(server.wait().success());
    // The next process reads it from the store.
    let server = Server::on(dir.path());
    let client = Client::connect(&server.url()).await.unwrap();
    let listed = client.list_statuses("-", "", 0).await.unwrap();
    let unknown: Vec<bool> =
        listed.iter().map(|record| record.report.as_ref().unwrap().since_unknown).collect();
    assert_eq!(unknown, [true]);
    let first = winner(&server).await;
    assert!(first.since_unknown);
    assert_eq!(first.labels.get("imported-from").map(String::as_str), Some("kubernetes"));
    let shown = json(&server, &["why", "web", "-o", "json"]);
    assert_eq!(shown["winner"]["sinceUnknown"], true, "{shown}");
    assert_eq!(shown["winner"]["labels"]["imported-from"], "kubernetes", "{shown}");
    let why = ok(&server, &["why", "web"]);
    assert!(why.contains("Z or earlier ("), "{why}");
    assert!(why.contains("\n  from     kubernetes: condition Ready=False\n"), "{why}");
    let panel = get(&server, VERSIONS[0], "/?why=default/web").await.text();
    assert!(panel.contains(" UTC or earlier</span>"), "{panel}");
    // A report without the flag takes it away, and the start stays.
    request.status.as_mut().unwrap().since_unknown = false;
    assert!(is_change(&server, &request).await);
    let then = winner(&server).await;
    assert_eq!((then.since_unknown, then.since_time), (false, first.since_time));
}
