//! Who may do what: every method against callers without rights, and the attacks that other servers
//! have met, as a table of identity, method and target.

use std::collections::BTreeMap;

use bellwether_client::{Client, Security};
use prost_reflect::MethodDescriptor;
use serde_json::{Value, json};
use tonic::Status;
use tonic::transport::{Channel, Endpoint};
use tonic_types::StatusExt;

use crate::authority::EVERYTHING;
use crate::identities::TokenFile;
use crate::ops::fetch;
use crate::raw_call::{call, call_path, methods, path, request};
use crate::server::{Server, eventually, reason};

const ROLES: &str = r#"
[[grant]]
role = "worker"
to = ["token:web-0"]
namespace = "default"
application = "web"
unit = "web/0"
[[grant]]
role = "worker"
to = ["token:web-1"]
namespace = "default"
application = "web"
unit = "web/1"
[[grant]]
role = "reader"
to = ["token:reader"]
namespace = "default"
application = "web"
[[grant]]
role = "reader"
to = ["token:data"]
namespace = "default"
application = "web"
data = true
[[grant]]
role = "reader"
to = ["token:lister"]
namespace = "default"
application = "*"
[[grant]]
role = "operator"
to = ["token:operator"]
namespace = "default"
application = "web"
[[grant]]
role = "worker"
to = ["token:root", "token:elsewhere"]
namespace = "other"
application = "*"
unit = "*"
[[grant]]
role = "operator"
to = ["token:elsewhere"]
namespace = "other"
application = "*"
[[grant]]
role = "reader"
to = ["token:elsewhere"]
namespace = "other"
application = "*"
data = true
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
"#;

/// A server with identities, by name.
struct Stage {
    server: Server,
    channel: Channel,
    tokens: TokenFile,
    headers: BTreeMap<&'static str, String>,
}

impl Stage {
    async fn set() -> Stage {
        let tokens = TokenFile::new();
        let mut headers = BTreeMap::new();
        for name in [
            "web-0",
            "web-1",
            "reader",
            "data",
            "lister",
            "operator",
            "root",
            "elsewhere",
            "nothing",
        ] {
            let text = std::fs::read_to_string(tokens.create(name, "1h")).unwrap();
            headers.insert(name, format!("Bearer {}", text.trim()));
        }
        let server = tokens.serve(ROLES);
        let channel = Endpoint::from_shared(server.url()).unwrap().connect().await.unwrap();
        Stage { server, channel, tokens, headers }
    }

    /// Returns the reason with which a call is refused; empty: it is served.
    async fn refusal(&self, who: &str, method: &str, messages: &[Value]) -> String {
        let method = method_named(method);
        match self.call(who, &method, messages).await {
            Ok(_) => String::new(),
            Err(status) => reason(&status),
        }
    }

    async fn call(
        &self,
        who: &str,
        method: &MethodDescriptor,
        messages: &[Value],
    ) -> Result<Vec<Vec<u8>>, Status> {
        let header = self.headers.get(who).map(String::as_str);
        let count = if messages.len() == 1 { 1 } else { 5 };
        call(&self.channel, method, header.as_slice(), messages, count).await
    }
}

fn method_named(name: &str) -> MethodDescriptor {
    methods().into_iter().find(|method| method.name() == name).unwrap()
}

/// Methods that need no role: any known caller may call them.
const WITHOUT_ROLE: [&str; 1] = ["GetServerInfo"];

#[tokio::test(flavor = "multi_thread")]
async fn no_method_serves_a_caller_without_rights() {
    let stage = Stage::set().await;
    stage.refusal("root", "ReportStatus", &[report("default", "web", "web/0")]).await;
    let invalid = ["Bearer bw_root_0000"];
    let twice = [stage.headers["root"].as_str(); 2];
    for method in methods() {
        let name = path(&method);
        let messages = [request(&method, "default", "web", "web/0")];
        for (headers, expected) in [
            (&[][..], "CREDENTIALS_MISSING"),
            (&invalid[..], "CREDENTIALS_INVALID"),
            (&twice[..], "CREDENTIALS_INVALID"),
        ] {
            let answer = call(&stage.channel, &method, headers, &messages, 1).await;
            assert_eq!(reason(&answer.expect_err(&name)), expected, "{name}");
        }
        for who in ["nothing", "elsewhere"] {
            let answer = stage.call(who, &method, &messages).await;
            match WITHOUT_ROLE.contains(&method.name()) {
                true => drop(answer.unwrap()),
                // A watch that is refused ends alone; the stream goes on.
                false if who == "elsewhere" && method.name() == "MultiplexWatches" => {
                    let answer = answer.unwrap().concat();
                    assert!(String::from_utf8_lossy(&answer).contains(DENIED), "{name}");
                }
                // It names no namespace; the list has those of the caller, and there is none.
                false if who == "elsewhere" && method.name() == "ListNamespaces" => {
                    assert!(answer.unwrap().concat().is_empty(), "{name}");
                }
                false => assert_eq!(reason(&answer.expect_err(&name)), DENIED, "{name}"),
            }
        }
    }
    for method in ["Check", "Watch"].map(method_named) {
        let server = [json!({"service": ""})];
        call(&stage.channel, &method, &[], &server, 1).await.unwrap();
        call(&stage.channel, &method, &invalid, &server, 1).await.unwrap_err();
    }
    for reflection in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{reflection}.ServerReflection/ServerReflectionInfo");
        let answer = call_path(&stage.channel, &path, &[], Vec::new()).await;
        assert_eq!(reason(&answer.unwrap_err()), "CREDENTIALS_MISSING");
    }
    for path in [
        "//bellwether.v1.ServerService/GetServerInfo",
        "/bellwether.v1.ServerService/GetServerInfo/",
        "/bellwether.v1.ServerService/GetServerInfo?x=1",
        "/bellwether.v1.serverservice/getserverinfo",
        "/bellwether.v1.ServerService/%47etServerInfo",
        "/x/../bellwether.v1.ServerService/GetServerInfo",
    ] {
        for header in [&[][..], &invalid[..]] {
            let answer = call_path(&stage.channel, path, header, vec![Vec::new()]).await;
            assert!(answer.is_err(), "{path}");
        }
    }
}

fn report(namespace: &str, application: &str, unit: &str) -> Value {
    json!({"namespace": namespace, "application": application, "unit": unit,
        "status": {"level": "LEVEL_ACTIVE"}})
}

/// A row of the table: who calls, the method, the request, and the reason of the refusal.
type Attack = (&'static str, &'static str, Value, &'static str);

const DENIED: &str = "SCOPE_DENIED";

/// A worker acts as another unit.
fn as_another_unit() -> Vec<Attack> {
    let mut rows = vec![
        ("web-0", "ReportStatus", report("default", "web", "web/0"), ""),
        ("web-0", "ReportStatus", report("", "web", "web/0"), ""),
        ("web-1", "ReportStatus", report("default", "web", "web/1"), ""),
        ("operator", "ReportStatus", report("default", "web", "web/0"), DENIED),
        ("reader", "ReportStatus", report("default", "web", "web/0"), DENIED),
    ];
    for (namespace, application, unit) in [
        ("default", "web", "web/1"),
        ("default", "api", "web/0"),
        ("default", "api", "api/0"),
        ("other", "web", "web/0"),
        ("default", "web", "web/0 "),
        ("default", "web", "WEB/0"),
        ("Default", "web", "web/0"),
        ("default", "web", "web/00"),
        ("default", "web", ""),
        ("default", "web", "*"),
        ("default", "*", "web/0"),
    ] {
        for method in [
            "ReportStatus",
            "ReplaceStatuses",
            "ClearStatus",
            "ReportError",
            "ResolveError",
            "RegisterUnit",
            "ClaimLeadership",
            "RenewLeadership",
            "ReleaseLeadership",
            "UpdateAppData",
            "SetApplicationStatus",
            "ReplaceApplicationStatuses",
            "ClearApplicationStatus",
            "BeginOperation",
            "AcquireOperation",
            "HeartbeatOperation",
            "ReleaseOperation",
            "CompleteOperation",
            "FailOperation",
            "VerifyOperation",
        ] {
            let request = request(&method_named(method), namespace, application, unit);
            // `*` is no name, so the request is refused before its rights are.
            let expected = if application == "*" { "INVALID_NAME" } else { DENIED };
            rows.push(("web-0", method, request, expected));
        }
    }
    rows
}

/// A caller asks for more than its role has.
fn beyond_the_role() -> Vec<Attack> {
    let web = json!({"application": "web"});
    let of = |more: Value| {
        let mut request = web.clone();
        request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        request
    };
    let id = json!({"operationId": "up", "fence": "1"});
    let own = json!({"operationId": "up", "fence": "1", "unit": "web/0"});
    let mut rows = Vec::new();
    for method in ["CancelOperation", "RetryOperation"] {
        rows.push(("web-0", method, of(id.clone()), DENIED));
        rows.push(("web-0", method, of(own.clone()), DENIED));
    }
    for method in [
        "CollectApplication",
        "ResolveHold",
        "RemoveUnit",
        "DeleteApplication",
        "ConfigureApplication",
        "TransferLeadership",
    ] {
        for who in ["web-0", "reader", "data", "lister", "elsewhere"] {
            rows.push((who, method, of(json!({"unit": "web/0"})), DENIED));
        }
    }
    // `unit` and others are unknown fields of some methods.
    for (_, method, request, _) in &mut rows {
        let input = method_named(method).input();
        let has = |name: &str| input.get_field_by_json_name(name).is_some();
        request.as_object_mut().unwrap().retain(|name, _| has(name));
    }
    let begin = json!({"unit": "web/0", "operationId": "up", "supersede": true});
    let outside = json!({"unit": "web/0", "decidedOutside": true});
    rows.extend([
        ("web-0", "BeginOperation", of(begin), DENIED),
        ("web-0", "UpdateAppData", of(outside.clone()), DENIED),
        ("web-0", "ReplaceApplicationStatuses", of(outside.clone()), DENIED),
        ("operator", "UpdateAppData", of(outside), ""),
        ("web-0", "BeginOperation", of(json!({"operationId": "up"})), DENIED),
        ("web-0", "GetAppData", web.clone(), ""),
        ("reader", "GetAppData", web.clone(), DENIED),
        ("data", "GetAppData", web.clone(), ""),
        ("operator", "GetAppData", web.clone(), ""),
        ("reader", "WatchAppData", web.clone(), DENIED),
        ("reader", "GetOperation", of(json!({"operationId": "up"})), DENIED),
        ("reader", "ListFaults", web.clone(), ""),
        ("reader", "ListFaults", of(json!({"includeInternalDetail": true})), DENIED),
        ("web-0", "ListFaults", of(json!({"includeInternalDetail": true})), DENIED),
        ("operator", "ListFaults", of(json!({"includeInternalDetail": true})), ""),
        ("web-0", "GetApplication", web.clone(), ""),
        ("reader", "GetApplication", web.clone(), ""),
        ("reader", "GetApplication", json!({"application": "api"}), DENIED),
        ("operator", "UpdateAppData", of(json!({"unit": "web/0"})), DENIED),
    ]);
    rows
}

/// Lists and watches reach beyond what the caller may read.
fn beyond_the_scope() -> Vec<Attack> {
    let watch = |names: &[&str]| json!({"applications": names});
    let create = |names: &[&str]| json!({"create": {"watchId": "1", "watch": watch(names)}});
    vec![
        ("web-0", "WatchApplications", watch(&["web"]), ""),
        ("reader", "WatchApplications", watch(&["web"]), ""),
        ("reader", "WatchApplications", watch(&["web", "api"]), DENIED),
        ("reader", "WatchApplications", watch(&["not-there-yet"]), DENIED),
        ("reader", "WatchApplications", watch(&[]), DENIED),
        ("reader", "WatchApplications", json!({"namespace": "-"}), DENIED),
        ("lister", "WatchApplications", watch(&[]), ""),
        ("lister", "WatchApplications", json!({"namespace": "other"}), DENIED),
        ("lister", "WatchApplications", json!({"namespace": "-"}), DENIED),
        ("root", "WatchApplications", json!({"namespace": "-"}), ""),
        ("reader", "MultiplexWatches", create(&["web"]), ""),
        ("web-0", "ListApplications", json!({}), DENIED),
        ("reader", "ListApplications", json!({}), DENIED),
        ("lister", "ListApplications", json!({}), ""),
        ("lister", "ListApplications", json!({"namespace": "-"}), DENIED),
        ("root", "ListApplications", json!({"namespace": "-"}), ""),
        ("web-0", "ListNamespaces", json!({}), ""),
        ("lister", "ListNamespaces", json!({}), ""),
        ("lister", "List", json!({}), DENIED),
        ("root", "List", json!({}), ""),
        ("reader", "Check", json!({"service": "default/web"}), ""),
        ("reader", "Check", json!({"service": "default/api"}), DENIED),
        ("reader", "Watch", json!({"service": "default/ghost"}), DENIED),
        ("reader", "Check", json!({"service": "default/"}), DENIED),
        ("lister", "Check", json!({"service": "default/"}), ""),
        ("lister", "Check", json!({"service": "other/"}), DENIED),
        ("reader", "Watch", json!({"service": "default/"}), DENIED),
        ("lister", "Watch", json!({"service": "default/"}), ""),
        ("web-1", "Connect", json!({"hello": {"application": "web", "unit": "web/0"}}), DENIED),
        ("operator", "Connect", json!({"hello": {"application": "web", "unit": "web/0"}}), DENIED),
        ("web-1", "Connect", json!({"hello": {"application": "web", "unit": "web/1"}}), ""),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn attacks_are_refused_and_what_is_granted_is_served() {
    let stage = Stage::set().await;
    for (application, unit) in [("web", "web/0"), ("api", "api/0")] {
        let reported = report("default", application, unit);
        assert_eq!(stage.refusal("root", "ReportStatus", &[reported]).await, "");
    }
    let rows = [as_another_unit(), beyond_the_role(), beyond_the_scope()].concat();
    let mut wrong = Vec::new();
    for (who, method, request, expected) in &rows {
        let refusal = stage.refusal(who, method, std::slice::from_ref(request)).await;
        if refusal != *expected {
            wrong.push(format!("{who} {method} {request}: {refusal:?} instead of {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn later_messages_of_a_stream_have_no_more_rights_than_the_first() {
    let stage = Stage::set().await;
    let hello = |unit: &str| json!({"hello": {"application": "web", "unit": unit}});
    let connect = method_named("Connect");
    let answer = stage.call("web-0", &connect, &[hello("web/0"), hello("web/1")]).await;
    assert_eq!(reason(&answer.unwrap_err()), "INVALID_VALUE", "a second hello");
    let removed = [hello("web/0"), json!({"goodbye": {"removed": true}})];
    stage.call("web-0", &connect, &removed).await.unwrap();

    let create = |id: &str, names: &[&str]| {
        let watch = json!({"applications": names});
        json!({"create": {"watchId": id, "watch": watch}})
    };
    let multiplex = method_named("MultiplexWatches");
    let creates = [create("1", &["web"]), create("2", &["api"]), create("3", &["web", "api"])];
    let answers = stage.call("reader", &multiplex, &creates).await.unwrap();
    let texts: Vec<String> =
        answers.iter().map(|answer| String::from_utf8_lossy(answer).into_owned()).collect();
    let denied = texts.iter().filter(|text| text.contains(DENIED)).count();
    assert_eq!(denied, 2, "{texts:?}");
    assert!(texts.len() > denied, "the first watch goes on: {texts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_does_not_disclose_what_exists() {
    let stage = Stage::set().await;
    stage.refusal("root", "ReportStatus", &[report("default", "api", "api/0")]).await;
    for (method, more) in [
        ("GetApplication", json!({})),
        ("GetApplication", json!({"minRevision": "1000"})),
        ("ExplainApplication", json!({})),
        ("ListStatusEvents", json!({})),
        ("GetLeader", json!({})),
        ("GetAppData", json!({})),
        ("Check", json!({})),
    ] {
        let mut said = Vec::new();
        for name in ["api", "ape"] {
            let method = method_named(method);
            let mut wire = request(&method, "default", name, "");
            wire.as_object_mut().unwrap().remove("unit");
            wire.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let status = stage.call("reader", &method, &[wire]).await.unwrap_err();
            let details = status.get_error_details();
            let info = details.error_info().unwrap();
            let facts: BTreeMap<_, _> = info.metadata.clone().into_iter().collect();
            let size = status.details().len();
            let text = status.message().replace(name, "NAME");
            said.push((status.code(), text, info.reason.clone(), facts, size));
        }
        assert_eq!(said[0], said[1], "{method}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_of_another_unit_is_out_of_reach() {
    let stage = Stage::set().await;
    stage.refusal("root", "ReportStatus", &[report("default", "web", "web/0")]).await;
    let of = |unit: &str, fence: u64| {
        let fence = fence.to_string();
        json!({"application": "web", "unit": unit, "operationId": "up", "fence": fence})
    };
    let begin = json!({"application": "web", "unit": "web/0", "operationId": "up",
        "targetVersion": "v2"});
    let begun = stage.refusal("web-0", "BeginOperation", &[begin]).await;
    assert_eq!(begun, "");
    for fence in 1..=3 {
        for method in ["HeartbeatOperation", "CompleteOperation", "ReleaseOperation"] {
            assert_eq!(stage.refusal("web-1", method, &[of("", fence)]).await, DENIED);
            assert_eq!(stage.refusal("web-1", method, &[of("web/0", fence)]).await, DENIED);
            let as_itself = stage.refusal("web-1", method, &[of("web/1", fence)]).await;
            assert!(!as_itself.is_empty(), "{method} with fence {fence}");
        }
    }
    assert_eq!(stage.refusal("web-0", "HeartbeatOperation", &[of("web/0", 1)]).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_taken_end_streams_and_a_broken_file_changes_nothing() {
    let stage = Stage::set().await;
    let watch = async |who: &str| {
        let path = path(&method_named("WatchApplications"));
        // The field `applications`: web.
        let message = vec![vec![0x12, 3, b'w', b'e', b'b']];
        call_path(&stage.channel, &path, &[&*stage.headers[who]], message).await.unwrap()
    };
    let (mut loses, mut keeps) = (watch("reader").await, watch("data").await);
    let roles = |text: &str| drop(stage.tokens.write("roles.toml", text));
    let stale = || fetch(stage.server.ops, "/metrics").1.contains("security_stale_files 1");
    for broken in ["[[grant]", "", "[[grant]]\nrole = 'reader'\n"] {
        roles(broken);
        stage.server.signal("HUP");
        eventually("the file is stale", async || stale().then_some(())).await;
        let get = json!({"application": "web"});
        let refusal = stage.refusal("reader", "ListFaults", std::slice::from_ref(&get)).await;
        assert_eq!(refusal, "APPLICATION_NOT_FOUND", "the rights are as before");
        assert_eq!(stage.refusal("nothing", "ListFaults", &[get]).await, DENIED);
    }
    roles(&ROLES.replace("token:reader", "token:somebody"));
    let status = loop {
        if let Err(status) = loses.message().await {
            break status;
        }
    };
    assert_eq!(reason(&status), "RIGHTS_CHANGED");
    let watch_web = [json!({"applications": ["web"]})];
    assert_eq!(stage.refusal("reader", "WatchApplications", &watch_web).await, DENIED);
    // More rights end no stream.
    roles(&format!("{ROLES}{EVERYTHING}"));
    stage.server.signal("HUP");
    eventually("the new rights", async || {
        let refusal = stage.refusal("nothing", "WatchApplications", &watch_web).await;
        refusal.is_empty().then_some(())
    })
    .await;
    stage.refusal("root", "ReportStatus", &[report("default", "web", "web/9")]).await;
    loop {
        let message = keeps.message().await.unwrap().unwrap();
        if String::from_utf8_lossy(&message).contains("web/9") {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_protection_everything_is_served_as_before() {
    let server = Server::ephemeral();
    let client = Client::connect_with(&server.url(), Security::default()).await.unwrap();
    let applications = client.list_applications("-").await.unwrap();
    assert!(applications.is_empty());
}
