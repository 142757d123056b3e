//! Needs across applications: what blocks, why, and who may learn it.

use bellwether::proto::v1;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::need::Object;
use bellwether::proto::v1::{CauseState, Level};
use bellwether_client::Client;
use prost::Message;
use tonic::transport::Channel;

use crate::identities::{TokenFile, bearer};
use crate::server::{Server, mk_report, reason};

const LEVELS: [Level; 7] = [
    Level::Unknown,
    Level::Terminated,
    Level::Active,
    Level::Waiting,
    Level::Maintenance,
    Level::Blocked,
    Level::Error,
];

fn app_at(namespace: &str, application: &str, levels: &[Level]) -> v1::Need {
    let levels = levels.iter().map(|level| *level as i32).collect();
    let (namespace, application) = (namespace.into(), application.into());
    let needed = v1::ApplicationNeed { namespace, application, levels };
    v1::Need { object: Some(Object::Application(needed)) }
}

fn app(application: &str) -> v1::Need {
    app_at("", application, &[])
}

fn outside(words: &str) -> v1::Need {
    v1::Need { object: Some(Object::Outside(words.into())) }
}

fn report(
    application: &str,
    level: Level,
    action: &str,
    needs: Vec<v1::Need>,
) -> v1::ReportStatusRequest {
    let unit = format!("{application}/0");
    let mut request = mk_report(application, &unit, level, "");
    let status = request.status.as_mut().unwrap();
    (status.action, status.needs) = (action.into(), needs);
    request
}

async fn blockers(
    applications: &mut ApplicationServiceClient<Channel>,
    namespace: &str,
) -> v1::ListBlockersResponse {
    let request = v1::ListBlockersRequest { namespace: namespace.into(), ..Default::default() };
    applications.list_blockers(request).await.unwrap().into_inner()
}

/// Returns a row in words: `PERSON default/db frees 1 blocks 1`.
fn row(blocker: &v1::Blocker) -> String {
    let objects: Vec<String> = blocker.objects.iter().map(name).collect();
    let state = CauseState::try_from(blocker.state).unwrap();
    let state = state.as_str_name().trim_start_matches("CAUSE_STATE_");
    let v1::Blocker { frees_count, blocks_count, .. } = blocker;
    format!("{state} {} frees {frees_count} blocks {blocks_count}", objects.join(" + "))
}

fn name(need: &v1::Need) -> String {
    match need.object.as_ref().unwrap() {
        Object::Application(needed) => format!("{}/{}", needed.namespace, needed.application),
        Object::Outside(words) => words.clone(),
    }
}

fn rows(answer: &v1::ListBlockersResponse) -> Vec<String> {
    answer.blockers.iter().map(row).collect()
}

#[tokio::test]
async fn a_need_leads_to_its_first_cause_and_leaves_levels_alone() {
    let server = Server::ephemeral();
    let (mut reports, mut applications) = (server.reports().await, server.applications().await);
    let db = report("db", Level::Blocked, "juju integrate db s3", vec![]);
    reports.report_status(db).await.unwrap();
    let needs = vec![app("db"), outside("quota cpu of prod")];
    reports.report_status(report("web", Level::Waiting, "", needs)).await.unwrap();
    reports.report_status(report("shop", Level::Waiting, "", vec![app("db")])).await.unwrap();
    let answer = blockers(&mut applications, "").await;
    assert_eq!(
        rows(&answer),
        ["PERSON default/db frees 1 blocks 2", "OUTSIDE quota cpu of prod frees 0 blocks 1"]
    );
    assert_eq!(answer.blockers[0].frees, ["default/shop"]);
    assert_eq!(answer.blockers[1].named_by, ["default/web"]);
    let why = v1::ExplainApplicationRequest { application: "web".into(), ..Default::default() };
    let why = applications.explain_application(why).await.unwrap().into_inner();
    let lines: Vec<_> =
        why.causes.iter().map(|c| (c.depth, name(c.need.as_ref().unwrap()))).collect();
    assert_eq!(lines, [(1, "default/db".to_string()), (1, "quota cpu of prod".to_string())]);
    assert_eq!((why.causes[0].frees_count, why.causes[0].frees_this), (1, false));
    assert_eq!(why.causes[0].stated_by.as_ref().unwrap().unit, "web/0");
    let web = why.application.unwrap();
    assert_eq!(web.status.unwrap().level, i32::from(Level::Waiting));
    assert_eq!(web.needs.len(), 2);
    // The level of a need changes nothing but what is listed.
    let revision = web.revision;
    reports.report_status(report("db", Level::Active, "", vec![])).await.unwrap();
    let get = v1::GetApplicationRequest { application: "web".into(), ..Default::default() };
    let web = applications.get_application(get).await.unwrap().into_inner().application.unwrap();
    assert_eq!(web.revision, revision);
}

#[tokio::test]
async fn a_list_has_what_was_acknowledged_before_it() {
    let server = Server::ephemeral();
    let (mut reports, mut applications) = (server.reports().await, server.applications().await);
    for turn in 0..50 {
        let level = if turn % 2 == 0 { Level::Error } else { Level::Active };
        reports.report_status(report("db", level, "", vec![])).await.unwrap();
        let listed = blockers(&mut applications, "").await.blockers.len();
        assert_eq!(listed, 1 - turn % 2, "turn {turn}");
    }
}

#[tokio::test]
async fn needs_that_are_wrong_are_refused_with_their_place() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let cases = [
        (vec![app("web")], "needs[0].application.application is the application itself"),
        (vec![app("db"), v1::Need { object: None }], "needs[1].object is required"),
        (vec![outside("")], "needs[0].outside is required"),
        (vec![app("db"); 9], "needs are 9; at most 8"),
    ];
    for (needs, text) in cases {
        let refused = reports.report_status(report("web", Level::Waiting, "", needs)).await;
        let refused = refused.unwrap_err();
        assert!(refused.message().contains(text), "{}", refused.message());
    }
    let error = v1::ErrorReport {
        system: "grpc".into(),
        code: "UNAVAILABLE".into(),
        origin: v1::ErrorOrigin::Peer.into(),
        needs: vec![app("web")],
        ..Default::default()
    };
    let request = v1::ReportErrorRequest {
        application: "web".into(),
        unit: "web/0".into(),
        error: Some(error),
        ..Default::default()
    };
    let refused = reports.report_error(request).await.unwrap_err();
    assert!(refused.message().contains("cannot need itself"), "{}", refused.message());
}

#[tokio::test]
async fn pages_are_those_of_one_evaluation() {
    let server = Server::ephemeral();
    let (mut reports, mut applications) = (server.reports().await, server.applications().await);
    for n in 0..5 {
        let needs = vec![outside(&format!("thing {n}"))];
        reports.report_status(report(&format!("a{n}"), Level::Waiting, "", needs)).await.unwrap();
    }
    assert_eq!(blockers(&mut applications, "").await.blockers.len(), 5);
    let page = |token: &str| v1::ListBlockersRequest {
        page_size: 2,
        page_token: token.into(),
        ..Default::default()
    };
    let first = applications.list_blockers(page("")).await.unwrap().into_inner();
    for n in 0..5 {
        let request = report(&format!("a{n}"), Level::Active, "", vec![]);
        reports.report_status(request).await.unwrap();
    }
    let second = applications.list_blockers(page(&first.next_page_token)).await;
    let second = second.unwrap().into_inner();
    let third = applications.list_blockers(page(&second.next_page_token)).await;
    let third = third.unwrap().into_inner();
    assert_eq!((second.blockers.len(), third.blockers.len()), (2, 1));
    assert_eq!(third.next_page_token, "");
    let other = v1::ListBlockersRequest { namespace: "-".into(), ..page(&first.next_page_token) };
    let refused = applications.list_blockers(other).await.unwrap_err();
    assert_eq!(reason(&refused), "INVALID_PAGE_TOKEN");
}

const ROLES: &str = r#"
[[grant]]
role = "worker"
to = ["token:root"]
namespace = "*"
application = "*"
unit = "*"
[[grant]]
role = "reader"
to = ["token:lister"]
namespace = "default"
application = "*"
"#;

/// Reports one status of `infra/secret`, as root.
fn secret(level: Level, action: &str, needs: Vec<v1::Need>) -> v1::ReportStatusRequest {
    v1::ReportStatusRequest { namespace: "infra".into(), ..report("secret", level, action, needs) }
}

/// Everything that a caller can ask about causes gives the same answer whatever a namespace that it
/// may not read has: eleven states of an application, in three views.
#[tokio::test]
async fn no_answer_shows_anything_of_an_application_that_the_caller_may_not_read() {
    let tokens = TokenFile::new();
    let token = |name: &str| tokens.create(name, "1h");
    let (root, lister) = (token("root"), token("lister"));
    let server = tokens.serve(ROLES);
    let connect = async |token| Client::connect_with(&server.url(), bearer(token)).await.unwrap();
    let (root, lister) = (connect(&root).await, connect(&lister).await);
    let (mut reports, mut applications) = (root.reports(), lister.applications());
    let needs = LEVELS.map(|level| app_at("infra", "secret", &[level])).to_vec();
    let web = report("web", Level::Waiting, "", needs);
    reports.report_status(web).await.unwrap();
    reports.report_status(report("shop", Level::Waiting, "", vec![app("web")])).await.unwrap();
    let back = || vec![app_at("default", "web", &[])];
    let mut states = vec![None];
    states.extend(LEVELS.map(|level| Some(secret(level, "", vec![]))));
    states.push(Some(secret(Level::Blocked, "do this", vec![])));
    states.push(Some(secret(Level::Waiting, "", back())));
    states.push(Some(secret(Level::Waiting, "and that", vec![app_at("infra", "other", &[])])));
    let mut answers = Vec::new();
    for state in states {
        if let Some(report) = state {
            reports.report_status(report).await.unwrap();
        }
        let own = v1::ListBlockersRequest::default();
        let list = applications.list_blockers(own).await.unwrap().into_inner();
        let mut views = vec![list.encode_to_vec()];
        for name in ["web", "shop"] {
            let why =
                v1::ExplainApplicationRequest { application: name.into(), ..Default::default() };
            let why = applications.explain_application(why).await.unwrap().into_inner();
            let frees = why.causes.iter().map(|c| v1::Cause { frees_count: 0, ..c.clone() });
            views.extend(frees.map(|cause| cause.encode_to_vec()));
        }
        answers.push((rows(&list), views));
    }
    assert_eq!(answers[0].0, ["NOT_READABLE infra/secret frees 2 blocks 2"]);
    for answer in &answers {
        assert_eq!(answer, &answers[0]);
    }
    let all = v1::ListBlockersRequest { namespace: "-".into(), ..Default::default() };
    let refused = applications.list_blockers(all).await.unwrap_err();
    assert_eq!(reason(&refused), "SCOPE_DENIED");
    let other = v1::ListBlockersRequest { namespace: "infra".into(), ..Default::default() };
    assert_eq!(reason(&applications.list_blockers(other).await.unwrap_err()), "SCOPE_DENIED");
}
