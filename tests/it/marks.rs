//! Marks over real sockets: set, shown, listed in pages, kept over a kill, and who may.

use bellwether::proto::v1;
use bellwether::proto::v1::{Level, MarkKind};
use bellwether_client::Client;
use tempfile::tempdir;

use crate::identities::{TokenFile, bearer};
use crate::server::{Server, get, mk_report, reason};

fn mark(kind: MarkKind, unit: &str) -> v1::Mark {
    let (unit, reason) = (unit.to_string(), "ticket 123".to_string());
    v1::Mark { kind: kind.into(), unit, reason, ..v1::Mark::default() }
}

fn set(application: &str, mark: v1::Mark) -> v1::SetMarkRequest {
    v1::SetMarkRequest {
        application: application.into(),
        mark: Some(mark),
        during: Some(prost_types::Duration { seconds: 3600, nanos: 0 }),
        ..v1::SetMarkRequest::default()
    }
}

async fn report(server: &Server, application: &str, level: Level) {
    let report = mk_report(application, &format!("{application}/0"), level, "words");
    server.reports().await.report_status(report).await.unwrap();
}

async fn status(server: &Server, application: &str) -> v1::AggregatedStatus {
    let answer = server.applications().await.get_application(get(application)).await.unwrap();
    answer.into_inner().application.unwrap().status.unwrap()
}

#[tokio::test]
async fn planned_work_counts_as_maintenance_until_it_is_removed_and_after_a_kill() {
    let data = tempdir().unwrap();
    let server = Server::on(data.path());
    report(&server, "web", Level::Error).await;
    let mut applications = server.applications().await;
    let answer = applications.set_mark(set("web", mark(MarkKind::Planned, ""))).await.unwrap();
    let answer = answer.into_inner();
    let known = answer.mark.unwrap();
    assert!(answer.changed && known.in_force && !known.mark_id.is_empty());
    let seen = status(&server, "web").await;
    let other = || v1::SetMarkRequest {
        request_id: "once".into(),
        ..set("web", mark(MarkKind::Planned, "web/0"))
    };
    let first = applications.set_mark(other()).await.unwrap().into_inner();
    assert!(first.mark.is_some());
    assert_eq!(applications.set_mark(other()).await.unwrap().into_inner(), first, "a repeat");
    let mark_id = first.mark.unwrap().mark_id;
    let gone = v1::RemoveMarkRequest { application: "web".into(), mark_id, ..Default::default() };
    applications.remove_mark(gone).await.unwrap();
    assert_eq!((seen.level(), seen.level_without_marks()), (Level::Maintenance, Level::Error));
    assert!(seen.planned && !seen.acknowledged);
    server.kill();
    let server = Server::on(data.path());
    assert_eq!(status(&server, "web").await, seen);
    let mut applications = server.applications().await;
    let explain = v1::ExplainApplicationRequest { application: "web".into(), ..Default::default() };
    let why = applications.explain_application(explain).await.unwrap().into_inner();
    let winner = why.winner.unwrap();
    assert_eq!((winner.level(), winner.counts_as()), (Level::Error, Level::Maintenance));
    assert_eq!((&winner.mark_id, &why.marks), (&known.mark_id, &vec![known.clone()]));
    let remove = v1::RemoveMarkRequest {
        application: "web".into(),
        mark_id: known.mark_id.clone(),
        ..Default::default()
    };
    applications.remove_mark(remove.clone()).await.unwrap();
    assert_eq!(status(&server, "web").await.level(), Level::Error);
    let gone = applications.remove_mark(remove).await.unwrap_err();
    assert_eq!(reason(&gone), "MARK_NOT_FOUND");
    let history = v1::ListStatusEventsRequest { application: "web".into(), ..Default::default() };
    let events = applications.list_status_events(history).await.unwrap().into_inner().events;
    let marks: Vec<(&str, &str)> = events
        .iter()
        .filter(|event| event.kind() == v1::EventKind::Mark)
        .map(|event| (event.cause.as_str(), event.changes[0].to.as_str()))
        .collect();
    let pair = [("MarkEnded", "removed"), ("MarkSet", "in force")];
    assert_eq!(marks, [pair[0], pair[0], pair[1], pair[1]]);
}

#[tokio::test]
async fn a_mark_without_a_reason_an_end_or_a_place_is_refused_with_the_field() {
    let server = Server::ephemeral();
    report(&server, "web", Level::Blocked).await;
    let mut applications = server.applications().await;
    let good = mark(MarkKind::Acknowledged, "web/0");
    let field = |status: &tonic::Status| {
        use tonic_types::StatusExt;
        let details = status.get_error_details();
        details.bad_request().unwrap().field_violations[0].field.clone()
    };
    let no_reason = v1::Mark { reason: String::new(), ..good.clone() };
    let no_kind = v1::Mark { kind: 0, ..good.clone() };
    let no_unit = v1::Mark { component: Some("db".into()), ..mark(MarkKind::Planned, "") };
    for (wrong, named) in [
        (set("web", no_reason), "mark.reason"),
        (set("web", no_kind), "mark.kind"),
        (set("web", no_unit), "mark.unit"),
        (v1::SetMarkRequest { during: None, ..set("web", good.clone()) }, "mark.end_time"),
        (v1::SetMarkRequest { mark: None, ..set("web", good.clone()) }, "mark"),
    ] {
        let refused = applications.set_mark(wrong).await.unwrap_err();
        assert_eq!(field(&refused), named, "{refused:?}");
    }
    let long = prost_types::Duration { seconds: 31 * 86_400, nanos: 0 };
    let refused = applications
        .set_mark(v1::SetMarkRequest { during: Some(long), ..set("web", good.clone()) })
        .await
        .unwrap_err();
    assert_eq!((reason(&refused).as_str(), field(&refused).as_str()), ("INVALID_VALUE", "during"));
    let other = applications.set_mark(set("nothing", good.clone())).await.unwrap_err();
    assert_eq!(reason(&other), "APPLICATION_NOT_FOUND");
    let unit = v1::Mark { unit: "web/7".into(), ..good.clone() };
    let other = applications.set_mark(set("web", unit)).await.unwrap_err();
    assert_eq!(reason(&other), "UNIT_NOT_FOUND");
    report(&server, "web", Level::Active).await;
    let well = applications.set_mark(set("web", good)).await.unwrap().into_inner();
    assert!(well.advice[0].starts_with("nothing is wrong there"), "{:?}", well.advice);
}

#[tokio::test]
async fn all_marks_are_listed_once_over_pages() {
    let server = Server::ephemeral();
    let mut applications = server.applications().await;
    let mut expected = Vec::new();
    for n in 0..140 {
        let app = format!("app-{n:03}");
        report(&server, &app, Level::Blocked).await;
        for id in 0..(n % 3) {
            let mark = v1::Mark { mark_id: format!("m{id}"), ..mark(MarkKind::Planned, "") };
            applications.set_mark(set(&app, mark)).await.unwrap();
            expected.push((app.clone(), format!("m{id}")));
        }
    }
    for page_size in [1, 7, 1000] {
        let mut listed = Vec::new();
        let mut page_token = String::new();
        loop {
            let namespace = "-".to_string();
            let request =
                v1::ListMarksRequest { namespace, page_size, page_token, ..Default::default() };
            let page = applications.list_marks(request).await.unwrap().into_inner();
            listed.extend(page.marks.into_iter().map(|mark| (mark.application, mark.mark_id)));
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(listed, expected, "in pages of {page_size}");
    }
    let client = Client::connect(&server.url()).await.unwrap();
    assert_eq!(client.list_marks("default", "app-002").await.unwrap().len(), 2);
}

const ROLES: &str = r#"
[[grant]]
role = "operator"
to = ["token:ops"]
namespace = "default"
application = "*"
[[grant]]
role = "worker"
to = ["token:ops"]
namespace = "default"
application = "*"
unit = "*"
[[grant]]
role = "reader"
to = ["token:eyes"]
namespace = "default"
application = "*"
"#;

#[tokio::test]
async fn only_an_operator_sets_a_mark_and_the_author_is_its_principal() {
    let tokens = TokenFile::new();
    let (ops, eyes) = (tokens.create("ops", "1h"), tokens.create("eyes", "1h"));
    let server = tokens.serve(ROLES);
    let connect = async |token| Client::connect_with(&server.url(), bearer(token)).await.unwrap();
    let (ops, eyes) = (connect(&ops).await, connect(&eyes).await);
    let web = mk_report("web", "web/0", Level::Error, "down");
    ops.reports().report_status(web).await.unwrap();
    let new = v1::Mark { author: "somebody else".into(), ..mark(MarkKind::Acknowledged, "") };
    let refused = eyes.applications().set_mark(set("web", new.clone())).await.unwrap_err();
    assert_eq!(reason(&refused), "SCOPE_DENIED");
    let known = ops.applications().set_mark(set("web", new)).await.unwrap().into_inner();
    assert_eq!(known.mark.unwrap().author, "token:ops");
    assert_eq!(eyes.list_marks("default", "").await.unwrap().len(), 1);
    assert_eq!(eyes.list_marks("default", "web").await.unwrap().len(), 1);
    let all = v1::ListMarksRequest { namespace: "-".into(), ..Default::default() };
    let refused = eyes.applications().list_marks(all).await.unwrap_err();
    assert_eq!(reason(&refused), "SCOPE_DENIED");
}
