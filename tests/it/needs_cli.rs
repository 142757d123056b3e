//! Needs on the command line: a report states them, `why` and `blockers` follow them to the first
//! causes, a `wait` that gives up names these, and `attend` notifies when they are met.

use serde_json::{Value, json as literal};

use crate::attend::{Hook, attend};
use crate::cli::{Said, json, ok, run};
use crate::identities::TokenFile;
use crate::server::{Server, eventually};

const ASKS: &str = "juju integrate postgresql s3-integrator";

/// `web` needs `data` and something outside; `data` needs `postgresql`, which asks a person for
/// something.
fn chain(server: &Server) {
    let web =
        ["report", "web/0", "--level", "waiting", "-m", "no database yet", "--component", "db"];
    let needs = ["--needs", "data", "--needs-outside", "quota cpu of prod"];
    ok(server, &[&web[..], &needs].concat());
    let data = ["report", "data/0", "--level", "waiting", "-m", "no primary"];
    ok(server, &[&data[..], &["--needs", "default/postgresql=active,maintenance"]].concat());
    let postgresql = ["report", "postgresql/0", "--level", "blocked", "-m", "no backup target"];
    ok(server, &[&postgresql[..], &["--action", ASKS]].concat());
}

/// Runs a command until it says a text: a deadlock and a silent unit need time.
async fn says(server: &Server, line: &[&str], text: &str) -> Said {
    let says = |said: &Said| said.out.contains(text) || said.err.contains(text);
    eventually(text, async || Some(run(server, line)).filter(says)).await
}

/// Returns the text with each span of time, as `(3s)`, as `(0s)`.
fn without_ages(text: &str) -> String {
    let mut parts = text.split('(');
    let mut shown = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let digits = part.chars().take_while(char::is_ascii_digit).count();
        let is_age = 0 < digits && part[digits..].starts_with("s)");
        shown.push_str(if is_age { "(0" } else { "(" });
        shown.push_str(if is_age { &part[digits..] } else { part });
    }
    shown
}

#[test]
fn why_follows_needs_to_their_first_causes() {
    let server = Server::ephemeral();
    chain(&server);
    let why = without_ages(&ok(&server, &["why", "web"]));
    let expected = "  because  quota cpu of prod (0s): outside of Bellwether  \
         (not web alone, which needs postgresql too)\n  \
         because  data is waiting: no primary\n             \
         postgresql is blocked (0s), needed at active or maintenance: no backup target\n\
         \u{20}            -> action: juju integrate postgresql s3-integrator  \
         (frees 1; not web alone, which needs quota cpu of prod too)\n";
    assert!(why.contains(expected), "{why}\nhas not\n{expected}");
    let rule = why.find("rule: ").expect("a rule");
    assert!(rule < why.find("because").expect("a cause"), "{why}");
    let why = json(&server, &["why", "web", "-o", "json"]);
    let causes = why["causes"].as_array().unwrap();
    let depths: Vec<&Value> = causes.iter().map(|cause| &cause["depth"]).collect();
    assert_eq!(depths, [&literal!(1), &literal!(1), &literal!(2)], "{why}");
    assert_eq!(causes[2]["state"], "CAUSE_STATE_PERSON");
    assert_eq!(causes[2]["action"], ASKS);
    let status = json(&server, &["status", "web", "-o", "json"]);
    let needs = &status["applications"][0]["needs"];
    assert_eq!(needs.as_array().map(Vec::len), Some(2), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn blockers_are_a_list_of_what_to_do_with_an_exit_code() {
    let server = Server::ephemeral();
    let said = run(&server, &["blockers"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""));
    assert_eq!(said.err, "nothing blocks an application in namespace default\n");
    // What waits without saying for what heals itself.
    ok(&server, &["report", "busy/0", "--level", "maintenance", "-m", "compacting"]);
    ok(&server, &["report", "late/0", "--level", "waiting", "--needs", "busy"]);
    let said = says(&server, &["blockers", "-A"], "application; 1 cause heals itself\n").await;
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""));
    chain(&server);
    ok(&server, &["report", "typo/0", "--level", "waiting", "--needs", "infra/posgresql"]);
    let said = says(&server, &["blockers"], "posgresql").await;
    assert_eq!(said.code, Some(11), "{}", said.err);
    let header = "Frees  Blocks  Since  Cause                         Do this";
    let rows: Vec<&str> = said.out.lines().collect();
    assert_eq!((rows.len(), rows[0]), (5, header), "{}", said.out);
    for (counts, end) in [
        ("    1       1  ", "infra/posgresql is not known  misspelt? named by typo"),
        ("    1       2  ", &format!("postgresql is blocked         {ASKS}")),
        ("    0       1  ", "quota cpu of prod             (outside) named by web"),
    ] {
        let row = rows.iter().find(|row| row.ends_with(end));
        assert!(row.is_some_and(|row| row.starts_with(counts)), "{counts}{end}:\n{}", said.out);
    }
    assert_eq!(rows[4], "1 more heals itself");
    let everywhere = run(&server, &["blockers", "-A"]);
    assert!(everywhere.out.contains("default/postgresql is blocked"), "{}", everywhere.out);
    assert_eq!(everywhere.code, Some(11));
    let elsewhere = run(&server, &["-n", "infra", "blockers"]);
    assert_eq!((elsewhere.code, elsewhere.out.as_str()), (Some(0), ""), "{}", elsewhere.out);
    let said = run(&server, &["blockers", "-o", "json"]);
    assert_eq!(said.code, Some(11));
    let list: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(list["blockers"].as_array().map(Vec::len), Some(3), "{list}");
    assert_eq!((&list["selfHealingCount"], &list["nextPageToken"]), (&literal!(1), &literal!("")));
}

#[test]
fn all_pages_are_one_list() {
    let server = Server::ephemeral();
    let file = tempfile::NamedTempFile::new().unwrap();
    for app in 0..32 {
        let words =
            |part: usize, nth: usize| literal!({ "outside": format!("{app} {part} {nth}") });
        let status = |part: usize| {
            let needs: Vec<Value> = (0..8).map(|nth| words(part, nth)).collect();
            literal!({ "component": format!("c{part}"), "level": "waiting", "needs": needs })
        };
        let set: Vec<Value> = (0..4).map(status).collect();
        std::fs::write(file.path(), Value::from(set).to_string()).unwrap();
        let path = file.path().to_str().unwrap();
        ok(&server, &["replace", &format!("app-{app}/0"), "--file", path]);
    }
    let said = run(&server, &["blockers", "-o", "json"]);
    let list: Value = serde_json::from_str(&said.out).unwrap();
    let blockers = list["blockers"].as_array().unwrap();
    assert_eq!(blockers.len(), 1_024);
    let mut words: Vec<String> =
        blockers.iter().map(|blocker| blocker["objects"][0].to_string()).collect();
    words.sort();
    words.dedup();
    assert_eq!(words.len(), 1_024, "each once");
}

#[test]
fn sets_and_errors_state_needs() {
    let server = Server::ephemeral();
    let needed = |app: &str| {
        let status = json(&server, &["status", app, "-o", "json"]);
        let needs = status["applications"][0]["needs"].as_array().unwrap().clone();
        let name = |need: &Value| match &need["need"]["outside"] {
            Value::String(words) => words.clone(),
            _ => need["need"]["application"]["application"].as_str().unwrap().to_string(),
        };
        let mut names: Vec<String> = needs.iter().map(name).collect();
        names.sort();
        names.join(" ")
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let set = r#"[{"component": "db", "level": "waiting", "needs": ["data", {"outside": "dns"}]},
                  {"component": "ok", "level": "active", "needs": ["nobody"]}]"#;
    std::fs::write(file.path(), set).unwrap();
    let path = file.path().to_str().unwrap();
    ok(&server, &["replace", "web/0", "--file", path, "--needs", "vault"]);
    assert_eq!(needed("web"), "data dns vault");
    let leader = ["app-status", "replace", "shop/0", "--decided-outside", "--file", path];
    ok(&server, &leader);
    assert_eq!(needed("shop"), "data dns");
    let error = ["error", "api/0", "--system", "grpc", "--code", "DATA_LOSS", "--needs", "data"];
    ok(&server, &[&error[..], &["--needs-outside", "a route"]].concat());
    assert_eq!(needed("api"), "a route data");
    // A status that is well states nothing, and a report without needs takes them back.
    ok(&server, &["report", "job/0", "--level", "waiting", "--needs", "data"]);
    assert_eq!(needed("job"), "data");
    ok(&server, &["report", "job/0", "--level", "waiting"]);
    assert_eq!(needed("job"), "");
}

#[test]
fn a_wrong_need_is_refused_with_what_to_write() {
    let server = Server::ephemeral();
    for (flag, value, expected) in [
        ("--needs", "db/0", "is a unit; an application is needed as a whole: db"),
        ("--needs", "db=up", "has no level \"up\"; use active"),
        ("--needs", "quota cpu", "write NAME, NAMESPACE/NAME or NAME=LEVEL,LEVEL"),
        ("--needs", "web", "--needs is the application itself"),
        ("--needs-outside", "", "say in words what is needed"),
        ("--needs-outside", "a\nb", "--needs-outside "),
    ] {
        let said = run(&server, &["report", "web/0", "--level", "waiting", flag, value]);
        assert_eq!(said.code, Some(2), "{value:?}: {}", said.err);
        assert!(said.err.contains(expected), "{value:?}: {}", said.err);
    }
}

#[test]
fn a_wait_that_gives_up_says_what_is_needed() {
    let server = Server::ephemeral();
    chain(&server);
    let said = run(&server, &["wait", "web", "--timeout", "200ms"]);
    assert_eq!(said.code, Some(124));
    let lines: Vec<&str> = said.err.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("error: timed out")).unwrap();
    assert!(lines[at + 1].starts_with("  because  "), "{}", said.err);
    let action = format!("             -> action: {ASKS}  (frees 1; ");
    assert!(lines[at + 1..].iter().any(|line| line.starts_with(&action)), "{}", said.err);
    let said = run(&server, &["wait", "web", "postgresql", "data", "--timeout", "200ms"]);
    assert_eq!(said.code, Some(124));
    for title in ["data:\n  because  postgresql is blocked ", "web:\n  because  "] {
        assert!(said.err.contains(title), "{title:?} is not in:\n{}", said.err);
    }
    assert!(!said.err.contains("postgresql:\n"), "it needs nothing: {}", said.err);
    let said = run(&server, &["wait", "data", "--fail-on", "waiting", "--timeout", "10s"]);
    assert_eq!(said.code, Some(6));
    assert!(said.err.contains("can no longer be met"), "{}", said.err);
    assert!(said.err.contains("\n  because  postgresql is blocked "), "{}", said.err);
    // A wait that is met explains nothing.
    let said = run(&server, &["wait", "data", "--for=waiting", "--timeout", "10s"]);
    assert_eq!((said.code, said.err.contains("because")), (Some(0), false), "{}", said.err);
}

/// Two charms that wait for each other, each for a good reason.
#[tokio::test(flavor = "multi_thread")]
async fn two_that_wait_for_each_other_are_a_deadlock() {
    let server = Server::ephemeral();
    let report = |unit: &str, message: &str, needed: &str| {
        ok(&server, &["report", unit, "--level", "waiting", "-m", message, "--needs", needed]);
    };
    report("data/0", "Waiting for every unit in main to start", "main");
    report("main/0", "Waiting for data node...", "data");
    report("web/0", "no search yet", "main");
    let young = run(&server, &["blockers"]);
    assert_eq!((young.code, young.out.as_str()), (Some(0), ""), "10 s make a deadlock");
    let said = says(&server, &["blockers"], "deadlock").await;
    let row = "deadlock  data needs main, main needs data: break it at either end\n";
    assert!(said.out.contains(row) && said.out.contains("\n    3       3  "), "{}", said.out);
    assert_eq!(said.code, Some(11));
    let why = ok(&server, &["why", "web"]);
    for expected in [
        "  because  main is waiting: Waiting for data node...\n             \
         data is waiting: Waiting for every unit in main to start\n               \
         main (above): deadlock since ",
        "  (frees 3, web among them)\n",
    ] {
        assert!(why.contains(expected), "{expected:?} is not in:\n{why}");
    }
    let why = ok(&server, &["why", "data"]);
    let closes = "  because  main is waiting: Waiting for data node...\n             \
                  data (above): deadlock since ";
    assert!(why.contains(closes), "{why}");
    report("main/0", "Waiting for data node...", "disk");
    ok(&server, &["report", "disk/0", "--level", "active"]);
    let said = says(&server, &["blockers"], "1 cause heals itself").await;
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_met_need_and_silent_units_are_facts() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "waiting", "--component", "db", "--needs", "data"]);
    ok(&server, &["report", "data/0", "--level", "active", "--ttl", "1s"]);
    let said = run(&server, &["why", "web"]);
    let met = said.out.lines().find(|line| line.contains("because")).unwrap();
    assert!(met.starts_with("  because  data is active since "), "{met}");
    assert!(met.ends_with("; web/0 db has not reported otherwise since"), "{met}");
    let said = says(&server, &["blockers"], "data has silent units").await;
    assert!(said.out.contains("data has silent units  1 of 1 unit stale\n"), "{}", said.out);
    assert_eq!(said.code, Some(11));
    let why = ok(&server, &["why", "web"]);
    assert!(why.contains("because  data is active, but has silent units"), "{why}");
}

const ROLES: &str = r#"
[[grant]]
role = "reader"
to = ["token:reader"]
namespace = "prod"
application = "*"
[[grant]]
role = "worker"
to = ["token:root"]
namespace = "*"
application = "*"
unit = "*"
"#;

#[test]
fn an_application_that_the_caller_may_not_read_has_a_name_alone() {
    let tokens = TokenFile::new();
    let files = ["reader", "root"].map(|id| tokens.create(id, "1h"));
    let server = tokens.serve(ROLES);
    let [reader, root] = files.each_ref().map(|file| file.to_str().unwrap());
    let report = ["report", "--level", "waiting", "--token-file", root];
    ok(&server, &[&report[..], &["-n", "prod", "web/0", "--needs", "infra/dns"]].concat());
    ok(&server, &[&report[..], &["-n", "infra", "dns/0", "-m", "hidden", "--needs", "x"]].concat());
    let as_reader = ["--token-file", reader, "-n", "prod"];
    let why = ok(&server, &[&as_reader[..], &["why", "web"]].concat());
    assert!(why.contains("  because  infra/dns: you may not read it\n"), "{why}");
    let said = run(&server, &[&as_reader[..], &["blockers"]].concat());
    assert!(said.out.contains("infra/dns  (not readable) named by web\n"), "{}", said.out);
    assert_eq!(said.code, Some(11));
    let denied = run(&server, &[&as_reader[..], &["blockers", "-A"]].concat());
    assert_eq!(denied.code, Some(4), "{}", denied.err);
    for text in [why, said.out, said.err, denied.out, denied.err] {
        assert!(!text.contains("hidden") && !text.contains("infra/x"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn attend_notifies_when_the_needs_of_a_status_or_of_an_error_are_met() {
    let server = Server::ephemeral();
    let hook = Hook::new(r#"echo "key=$BELLWETHER_KEY kind=$BELLWETHER_KIND" >> log"#);
    let status = ["report", "web/0", "--level", "waiting", "--component", "db", "--key", "main"];
    ok(&server, &[&status[..], &["--needs", "data", "--needs", "infra/dns"]].concat());
    let error = ["error", "web/0", "--component", "disk", "--target", "pv", "--needs", "storage"];
    ok(&server, &[&error[..], &["--system", "grpc", "--code", "DATA_LOSS"]].concat());
    let _running = attend(&server, &hook);
    ok(&server, &["report", "data/0", "--level", "active"]);
    ok(&server, &["report", "storage/0", "--level", "active"]);
    hook.rang("need-met|disk|pv|||").await;
    hook.rang("key= kind=").await;
    let is_of_status = |line: &String| line.starts_with("need-met|db|");
    assert!(!hook.notifications().iter().any(is_of_status), "one of two needs is not met");
    ok(&server, &["-n", "infra", "report", "dns/0", "--level", "active"]);
    hook.rang("need-met|db||||").await;
    hook.rang("key=main kind=push").await;
}
