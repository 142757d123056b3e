//! The status page without scripts: what the server renders, and what it allows a browser to do.

use std::time::Instant;

use bellwether::proto::v1::{self, Level};
use http::Method;
use serde_json::json;

use crate::identities::TokenFile;
use crate::ops::fetch;
use crate::server::{Server, eventually, mk_report};
use crate::web::{Answer, VERSIONS, Version, get, post, report, request, send};

async fn page(server: &Server, path: &str) -> Answer {
    get(server, Version::Http1, path).await
}

fn position(text: &str, part: &str) -> usize {
    text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"))
}

#[tokio::test]
async fn the_bar_and_the_title_name_the_installation() {
    let server = Server::start(&["--ephemeral", "--page-name", "shop <eu>"]);
    report_one(&server).await;
    let text = get(&server, VERSIONS[0], "/").await.text();
    position(&text, "id=\"installation\">shop &lt;eu&gt;</span>");
    position(&text, "1 fine \u{b7} shop &lt;eu&gt;</title>");
}

async fn report_one(server: &Server) {
    let report = mk_report("web", "web/0", Level::Active, "");
    server.reports().await.report_status(report).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_the_worst_first_and_keeps_its_filters_in_the_url() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for (name, level) in
        [("a-well", Level::Active), ("b-ill", Level::Error), ("c-busy", Level::Waiting)]
    {
        reports.report_status(mk_report(name, "one/0", level, "text")).await.unwrap();
    }
    for version in VERSIONS {
        let all = get(&server, version, "/").await;
        assert_eq!((all.status, all.header("content-type")), (200, "text/html; charset=utf-8"));
        let text = all.text();
        let places = ["default/b-ill", "default/c-busy", "default/a-well"];
        let places = places.map(|name| position(&text, &format!("data-key=\"{name}\"")));
        assert!(places.is_sorted(), "{text}");
        for part in [
            "id=\"level-error\" href=\"/?level=error\">error <b>1</b>",
            "<span class=\"s error\">1 in error</span> <span class=\"rest\">1 under way, 1 fine",
            "<title id=\"title\">1 error \u{b7} ",
            "href=\"/page.svg?is=error\"",
            "<table class=\"with-past\" id=\"apps\"",
            "aria-label=\"Last 24 hours: error 30m",
        ] {
            position(&text, part);
        }
    }
    for (path, shown, hidden) in [
        ("/?level=error", "b-ill", "a-well"),
        ("/?q=BUSY", "c-busy", "b-ill"),
        ("/?ns=default&level=active", "a-well", "c-busy"),
        ("/?level=active,waiting", "c-busy", "b-ill"),
        ("/?show=attention", "b-ill", "c-busy"),
        ("/?show=way", "c-busy", "a-well"),
    ] {
        let text = page(&server, path).await.text();
        assert!(text.contains(&format!("data-key=\"default/{shown}\"")), "{path}: {text}");
        assert!(!text.contains(&format!("data-key=\"default/{hidden}\"")), "{path}: {text}");
    }
    assert!(page(&server, "/?ns=other").await.text().contains("No application matches."));
    let wrong = page(&server, "/?level=foo").await.text();
    position(&wrong, "foo is no level. Levels: error, blocked, unknown");
    assert!(!wrong.contains("data-key="), "{wrong}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_applications_says_how_to_begin() {
    let server = Server::ephemeral();
    let text = page(&server, "/").await.text();
    for part in [
        "Nothing has reported yet".to_string(),
        format!("bellwether --server http://{} report web/0 --level blocked", server.grpc),
        format!("curl -sf http://{}/bellwether.v1.ReportService/ReportStatus", server.grpc),
    ] {
        position(&text, &part);
    }
    assert!(page(&server, "/?q=web").await.text().contains("No application matches."));
    server.reports().await.report_status(mk_report("web", "a/0", Level::Active, "")).await.unwrap();
    let text = page(&server, "/").await.text();
    position(&text, "<span class=\"s active\">All 1 fine</span>");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_causes_are_a_view_and_the_first_of_them_a_line() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let need = |name: &str| v1::Need {
        object: Some(v1::need::Object::Application(v1::ApplicationNeed {
            namespace: "default".into(),
            application: name.into(),
            ..v1::ApplicationNeed::default()
        })),
    };
    let mut blocked = mk_report("db", "db/0", Level::Blocked, "no <backup>");
    blocked.status.as_mut().unwrap().action = "integrate db s3".into();
    reports.report_status(blocked).await.unwrap();
    for name in ["web", "shop"] {
        let mut waiting = mk_report(name, "a/0", Level::Waiting, "no database");
        waiting.status.as_mut().unwrap().needs = vec![need("db")];
        reports.report_status(waiting).await.unwrap();
    }
    let mut lost = mk_report("cart", "a/0", Level::Waiting, "no session");
    lost.status.as_mut().unwrap().needs = vec![need("sesions")];
    reports.report_status(lost).await.unwrap();
    let list = page(&server, "/").await.text();
    for part in [
        "Start with <a href=\"/?why=default/db\">default/db</a>: 2 others need nothing else. \
         <code>integrate db s3</code>",
        "What blocks <b>2</b>",
    ] {
        position(&list, part);
    }
    let text = page(&server, "/?view=blockers").await.text();
    let parts = [
        "aria-current=\"page\">What blocks",
        "<span class=\"hidden\">Frees </span>2</p>",
        "<span class=\"s blocked\">blocked</span> <a href=\"/?why=default/db\">",
        "no &lt;backup&gt;",
        "<code>integrate db s3</code>",
        "Frees <a href=\"/?why=default/shop\">default/shop</a>, <a",
        "<span class=\"s unknown\">not known</span>",
        "Is the name misspelt",
    ];
    let places = parts.map(|part| position(&text, part));
    assert!(places.is_sorted(), "{text}");
    assert!(!text.contains("data-key="), "{text}");
    let why = page(&server, "/?why=default/web").await.text();
    position(&why, "Because it needs");
    position(&why, "frees 2, this one among them");
    position(&why, "data-key=\"default/web\" aria-current=\"true\"");
    assert!(!why.contains("http-equiv"), "a page with an open panel stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_page_leads_to_what_its_words_mean() {
    let server = Server::ephemeral();
    let empty = page(&server, "/").await.text();
    assert_eq!(empty.matches("href=\"/concepts\"").count(), 2, "{empty}");
    assert!(empty.contains("role=\"status\" class=\"off\">"), "{empty}");
    let concepts = page(&server, "/concepts").await;
    assert_eq!(concepts.status, 200);
    assert!(concepts.header("content-type").starts_with("text/html"));
    let text = concepts.text();
    assert!(text.contains("The seven levels") && text.contains("<title id=\"title\">Concepts"));
    assert!(text.contains("role=\"status\" class=\"off\" hidden>"), "it has no data: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_have_a_validator_and_are_compressed() {
    let server = Server::ephemeral();
    for path in ["/page.css", "/page.js", "/page.svg?is=error"] {
        let headers = [("accept-encoding", "gzip")];
        let asked = request(&server, Method::GET, path, &headers, "");
        let first = send(&server, Version::Http1, asked).await;
        assert_eq!(first.status, 200);
        let packed = first.header("content-encoding");
        assert_eq!(packed == "gzip", !path.contains("svg"), "{path}: {packed}");
        let headers = [("if-none-match", first.header("etag"))];
        let asked = request(&server, Method::GET, path, &headers, "");
        let again = send(&server, Version::Http1, asked).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
        assert_eq!(again.header("etag"), first.header("etag"));
        println!("{path}: {} bytes", first.body.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn why_is_one_click_away_with_winner_rule_beaten_and_action() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    let mut blocked = mk_report("web", "web/0", Level::Blocked, "add a database");
    blocked.status.as_mut().unwrap().action = "juju integrate web postgresql".into();
    reports.report_status(blocked).await.unwrap();
    reports.report_status(mk_report("web", "web/1", Level::Active, "ready")).await.unwrap();
    let list = page(&server, "/?level=blocked").await.text();
    assert!(list.contains("href=\"/?level=blocked&amp;why=default/web\""), "{list}");
    let why = page(&server, "/?why=default/web").await;
    let text = why.text();
    let parts = ["add a database", "Action: ", "Why this one", "highest level", "web/0"];
    for part in
        parts.into_iter().chain(["juju integrate web postgresql", "It beats 1 other", "web/1"])
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(page(&server, "/?why=default/nothing").await.status, 404);
}

/// Calls a method with JSON; returns the answer.
async fn call(server: &Server, method: &str, body: serde_json::Value) -> serde_json::Value {
    let answer = post(server, Version::Http1, method, &body.to_string()).await;
    assert_eq!(answer.status, 200, "{method}: {answer:?}");
    answer.json()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_shows_its_units_faults_operations_and_last_day() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for (unit, level) in
        [("web/0", Level::Active), ("web/1", Level::Active), ("web/1", Level::Blocked)]
    {
        reports.report_status(mk_report("web", unit, level, "a text")).await.unwrap();
    }
    crate::leader::claim(&server, "web", "web/1").await.unwrap();
    let error = json!({"component": "db", "target": "postgres:5432", "system": "io",
        "code": "ECONNREFUSED", "origin": "ERROR_ORIGIN_TRANSPORT", "message": "no <answer>"});
    let error = json!({"application": "web", "unit": "web/0", "error": error});
    call(&server, "ReportService/ReportError", error).await;
    let begin = json!({"application": "web", "unit": "web/0", "operationId": "up-2",
        "kind": "OPERATION_KIND_UPGRADE", "fromVersion": "v1", "targetVersion": "v2"});
    let held = call(&server, "OperationService/BeginOperation", begin).await;
    let fence = &held["operation"]["fence"];
    let beat = json!({"application": "web", "unit": "web/0", "operationId": "up-2",
        "fence": fence, "progress": "step 3/7"});
    call(&server, "OperationService/HeartbeatOperation", beat).await;
    let text = page(&server, "/?why=default/web").await.text();
    for part in [
        "<b>web/1</b><span title=\"leader\">*</span>",
        "<b>web/0 db postgres:5432</b>: no &lt;answer&gt;",
        "next attempt <time class=\"next\" datetime=",
        "upgrade <b>up-2</b>: v1 to v2, <b>running</b>, step 3/7, held by web/0",
        "Next: ",
        "UTC: blocked: a text</title>",
        "<path class=\"none\" d=\"M0 15.5H",
        "<b>application</b> ",
        "2 of 2 reported in time \u{b7} * leads",
        "bellwether ack web --for 4h",
        "<dt>Well, 24 h</dt><dd>",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The time before the first report is no time with a level.
    assert!(text.contains("no record 23h 59m"), "{text}");
    assert_eq!(text.matches("title=\"leader\"").count(), 1, "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_of_users_stay_text_and_no_other_host_is_loaded() {
    let server = Server::ephemeral();
    report(&server, "LEVEL_ERROR", "<script>alert(1)</script>\"'&<img src=x onerror=x>").await;
    let bad = "/?q=%22%3E%3Cscript%3E&ns=%3Cb%3E&level=%22x&why=%3Ci%3E/%3Cu%3E";
    for path in ["/", "/?why=default/web", bad] {
        let answer = page(&server, path).await;
        let text = answer.text();
        for markup in ["<script>", "<img", "<i>", "<u>"] {
            assert!(!text.contains(markup), "{path}: {markup}: {text}");
        }
        assert!(!text.contains("http://") && !text.contains("https://"), "{text}");
        let policy = answer.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
        assert!(
            !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
    }
    assert!(page(&server, "/").await.text().contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    for (path, kind) in [("/page.css", "text/css"), ("/page.js", "text/javascript")] {
        let answer = page(&server, path).await;
        assert!(answer.header("content-type").starts_with(kind) && answer.status == 200);
    }
    let head = send(&server, Version::Http1, request(&server, Method::HEAD, "/", &[], "")).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(page(&server, "/favicon.ico").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_status_is_marked_and_never_green() {
    let server = Server::ephemeral();
    let mut short = mk_report("web", "web/0", Level::Active, "");
    let ttl = prost_types::Duration { seconds: 1, nanos: 0 };
    short.status.as_mut().unwrap().ttl = Some(ttl);
    server.reports().await.report_status(short).await.unwrap();
    assert!(
        page(&server, "/").await.text().contains("<td role=\"cell\"><span class=\"s active\">")
    );
    let text = eventually("the status is stale", async || {
        let text = page(&server, "/").await.text();
        text.contains("1 stale").then_some(text)
    });
    let text = text.await;
    assert!(text.contains("<td role=\"cell\"><span class=\"s active doubt\">"), "{text}");
    assert!(!text.contains("<td role=\"cell\"><span class=\"s active\">"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_applications_are_a_page_within_a_second() {
    let server = Server::ephemeral();
    let reports = server.reports().await;
    let reporting = (0..5000).map(|n| {
        let mut reports = reports.clone();
        async move {
            let report = mk_report(&format!("app-{n}"), "one/0", Level::Active, "ready");
            reports.report_status(report).await.unwrap();
        }
    });
    let reporting = futures_util::stream::iter(reporting);
    let reported = futures_util::StreamExt::buffer_unordered(reporting, 100);
    futures_util::StreamExt::collect::<Vec<()>>(reported).await;
    let start = Instant::now();
    let text = page(&server, "/").await.text();
    let took = start.elapsed();
    println!("{} bytes in {took:?}", text.len());
    let headers = [("accept-encoding", "gzip")];
    let packed = request(&server, Method::GET, "/", &headers, "");
    let packed = send(&server, Version::Http1, packed).await;
    assert_eq!(packed.header("content-encoding"), "gzip");
    println!("{} bytes compressed", packed.body.len());
    assert!(text.contains("All <b>5000</b>") && text.contains("4500 more"), "{text:.2000}");
    // A debug build on a loaded machine; a page takes a fraction of that.
    assert!(took.as_secs() < 5, "{took:?}");
}

/// Returns how many lists of the page were rendered.
fn rendered(server: &Server) -> u64 {
    let text = fetch(server.ops, "/metrics").1;
    let mut lines = text.lines();
    let count =
        lines.find_map(|line| line.strip_prefix("bellwether_offloaded_total{work=\"page\"} "));
    count.unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_list_is_rendered_for_many_and_has_every_acknowledged_change() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for n in 0..30 {
        let app = format!("app-{n}");
        reports.report_status(mk_report(&app, "a/0", Level::Active, "text")).await.unwrap();
        let text = page(&server, "/").await.text();
        assert!(text.contains(&format!("data-key=\"default/{app}\"")), "{app}: {text}");
    }
    let before = rendered(&server);
    let asked = 40_u64;
    let all = futures_util::future::join_all((0..asked).map(|_| page(&server, "/"))).await;
    assert!(all.iter().all(|answer| answer.status == 200));
    let after = rendered(&server);
    assert!(30 <= before, "{before}: each page shows the change before it");
    assert!(after < before + asked, "{} lists for {asked} pages", after - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_another_caller_has_read_is_not_shown_without_the_right() {
    let tokens = TokenFile::new();
    let header = |id: &str| {
        let token = std::fs::read_to_string(tokens.create(id, "1h")).unwrap();
        format!("Bearer {}", token.trim())
    };
    let [all, one, worker] = ["all", "one", "worker"].map(header);
    let server = tokens.serve(
        r#"
        [[grant]]
        role = "reader"
        to = ["token:all"]
        namespace = "*"
        application = "*"
        [[grant]]
        role = "reader"
        to = ["token:one"]
        namespace = "own"
        application = "*"
        [[grant]]
        role = "worker"
        to = ["token:worker"]
        namespace = "other"
        application = "web"
        unit = "web/0"
        "#,
    );
    let body = json!({"namespace": "other", "application": "web", "unit": "web/0",
        "status": {"level": "LEVEL_BLOCKED", "message": "secret"}});
    let headers = [("content-type", "application/json"), ("authorization", &*worker)];
    let path = "/bellwether.v1.ReportService/ReportStatus";
    let report = request(&server, Method::POST, path, &headers, body.to_string());
    assert_eq!(send(&server, Version::Http1, report).await.status, 200);
    for _ in 0..3 {
        for (path, token, status, is_shown) in [
            ("/", &all, 200, true),
            ("/?ns=other", &all, 200, true),
            ("/", &one, 403, false),
            ("/?ns=other", &one, 403, false),
            ("/?ns=own", &one, 200, false),
            ("/", &"Bearer bw_all_00".to_string(), 401, false),
        ] {
            let headers = [("authorization", token.as_str()), ("accept-encoding", "identity")];
            let asked = request(&server, Method::GET, path, &headers, "");
            let answer = send(&server, Version::Http1, asked).await;
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            assert_eq!(answer.text().contains("secret"), is_shown, "{path}");
        }
    }
}
