//! `ops`: the operator's view of operations in flight, and the commands that change them.

use bellwether::proto::v1;
use bellwether::proto::v1::operation_service_client::OperationServiceClient;

use crate::cli::{json, ok, run};
use crate::server::Server;

/// Returns a server with the operation `up-v2` of `web`, which failed with an error of this class
/// if there is one.
async fn mk_server(class: Option<v1::ErrorClass>) -> Server {
    let server = Server::ephemeral();
    let mut client = OperationServiceClient::new(server.channel().await);
    let begin = v1::BeginOperationRequest {
        application: "web".into(),
        unit: "web/0".into(),
        operation_id: "up-v2".into(),
        from_version: "v1".into(),
        target_version: "v2".into(),
        ..Default::default()
    };
    let begun = client.begin_operation(begin).await.unwrap().into_inner().operation.unwrap();
    let Some(class) = class else { return server };
    let error = v1::ErrorReport {
        class: class.into(),
        message: "forbidden: cannot patch".into(),
        ..Default::default()
    };
    let failed = v1::FailOperationRequest {
        application: "web".into(),
        operation_id: "up-v2".into(),
        fence: begun.fence,
        error: Some(error),
        touched: true,
        ..Default::default()
    };
    client.fail_operation(failed).await.unwrap();
    server
}

fn fails(server: &Server, line: &[&str], code: i32, words: &str) {
    let said = run(server, line);
    assert_eq!(said.code, Some(code), "{line:?}: {}{}", said.out, said.err);
    assert!(said.err.contains(words), "{words:?} is not in: {}", said.err);
    assert_eq!(said.out, "", "a mistake is no output");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_operation_is_shown_retried_and_cancelled() {
    let server = mk_server(Some(v1::ErrorClass::Blocked)).await;
    let list = ok(&server, &["ops", "list", "web"]);
    assert!(list.contains("up-v2") && list.contains("blocked"), "{list}");
    let show = ok(&server, &["ops", "show", "web", "up-v2"]);
    assert!(show.contains("forbidden: cannot patch"), "{show}");
    let value = json(&server, &["ops", "show", "web", "up-v2", "-o", "json"]);
    assert_eq!(value["state"], "OPERATION_STATE_BLOCKED", "{value}");
    let retried = run(&server, &["ops", "retry", "web", "up-v2"]);
    assert_eq!(retried.code, Some(0), "{}", retried.err);
    assert!(retried.err.starts_with("operation up-v2 to v2 is ready"), "{}", retried.err);
    let cancelled = json(&server, &["ops", "cancel", "web", "up-v2", "-o", "json"]);
    assert_eq!(cancelled["state"], "OPERATION_STATE_ABANDONED", "{cancelled}");
    let list = json(&server, &["ops", "list", "web", "-o", "json"]);
    assert_eq!(list["operations"].as_array().map(Vec::len), Some(1), "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_target_takes_the_place_of_what_has_failed() {
    let server = mk_server(Some(v1::ErrorClass::Fatal)).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "image: web:v3").unwrap();
    let payload = file.path().to_str().unwrap();
    let line = ["ops", "supersede", "web", "up-v2", "--with", "up-v3", "--to", "v3"];
    let line = [&line[..], &["--reason", "v2 loops", "--payload", payload]].concat();
    assert_eq!(run(&server, &line).code, Some(0));
    let list = ok(&server, &["ops", "list", "web"]);
    let at = |id: &str| list.lines().position(|line| line.contains(id));
    assert!(at("up-v3").unwrap() < at("up-v2").unwrap(), "the latest first: {list}");
    let before = json(&server, &["ops", "show", "web", "up-v2", "-o", "json"]);
    assert_eq!(before["state"], "OPERATION_STATE_SUPERSEDED", "{before}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_mistake_has_its_error() {
    let server = mk_server(None).await;
    let supersede = ["ops", "supersede", "web", "up-v2", "--with", "up-v3", "--to", "v3"];
    let supersede = [&supersede[..], &["--reason", "why not"]].concat();
    for (line, code, words) in [
        (&["ops", "show", "web", "up-v9"][..], 3, "[OPERATION_NOT_FOUND]"),
        (&["ops", "retry", "web", "up-v9"], 3, "[OPERATION_NOT_FOUND]"),
        (&["ops", "cancel", "nobody", "up-v2"], 3, "[OPERATION_NOT_FOUND]"),
        (&["ops", "list", "nobody"], 3, "[APPLICATION_NOT_FOUND]"),
        (&["ops", "retry", "web", "up-v2"], 1, "up-v2"),
        (&supersede, 2, "only what has failed or is blocked is superseded"),
        (&supersede[..8], 2, "--reason"),
        (&["ops", "list", "web", "-A"], 2, "cannot be used with"),
    ] {
        fails(&server, line, code, words);
    }
    ok(&server, &["report", "api/0", "--level", "active"]);
    let none = run(&server, &["ops", "list", "api"]);
    assert_eq!((none.code, &*none.out, &*none.err), (Some(0), "", "api has no operations\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_of_all_applications_name_their_application() {
    let server = mk_server(None).await;
    let none = run(&server, &["-n", "prod", "ops", "list"]);
    assert_eq!(none.code, Some(0));
    assert_eq!((&*none.out, &*none.err), ("", "there are no operations in namespace prod\n"));
    for namespace in ["default", "prod"] {
        ok(&server, &["-n", namespace, "report", "api/0", "--level", "active"]);
        let begin = ["op", "begin", "move", "--to", "v9", "--unit", "api/0"];
        ok(&server, &[&["-n", namespace][..], &begin].concat());
    }
    // More operations than a page without a size has.
    let mut client = OperationServiceClient::new(server.channel().await);
    for n in 0..120 {
        let unit = format!("web/{n}");
        let begin = v1::BeginOperationRequest {
            namespace: "prod".into(),
            application: "web".into(),
            unit: unit.clone(),
            for_unit: unit,
            operation_id: format!("step-{n}"),
            target_version: "v2".into(),
            ..Default::default()
        };
        client.begin_operation(begin).await.unwrap();
    }
    let columns = |line: &[&str]| {
        let table = ok(&server, &[&["ops", "list"], line].concat());
        let first = |line: &str| {
            line.split_whitespace().take(2).map(str::to_string).collect::<Vec<_>>().join(" ")
        };
        table.lines().map(first).collect::<Vec<_>>()
    };
    assert_eq!(columns(&[]), ["Application Operation", "api move", "web up-v2"]);
    let all = columns(&["-A"]);
    assert_eq!(
        all[..4],
        ["Application Operation", "default/api move", "default/web up-v2", "prod/api move"]
    );
    assert_eq!((all.len(), &*all[4]), (124, "prod/web step-119"));
    assert_eq!(columns(&["web", "-n", "prod"])[0], "Operation Unit");
    let value = json(&server, &["ops", "list", "-A", "-o", "json"]);
    assert_eq!(value["operations"].as_array().map(Vec::len), Some(123));
}
