//! Custom error rules: read, checked, and replaced while the server runs. The commands about
//! errors.

use std::process::Command;

use bellwether::proto::v1::ErrorClass;
use serde_json::Value;

use crate::errors::mk_error;
use crate::server::{BINARY, Server, command, eventually, refused};

const RULES: &str = "\
[[gone]]
domain = 'vm.example'
reason = 'NO_SUCH_VM'

[[rule]]
name = 'index-is-rebuilding'
system = 'http'
code = '409'
message = 'rebuilding'
class = 'DEPENDENCY'
";

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

fn bellwether(server: Option<&Server>, line: &[&str]) -> Said {
    let mut command = Command::new(BINARY);
    // A port without a listener, so that only offline commands work.
    let url = server.map_or_else(|| "http://127.0.0.1:1".to_string(), Server::url);
    command.args(line).env("BELLWETHER_SERVER", url).env_remove("BELLWETHER_ERROR_RULES");
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

#[test]
fn an_error_is_explained_without_a_server() {
    let rules = file(RULES);
    let rules = rules.path().to_str().unwrap();
    let busy = ["--system", "http", "--code", "409", "-m", "index is REBUILDING"];
    for (line, expected) in [
        (&["--system", "http", "--code", "409"][..], ["CONFLICT", "http.409", "REREAD", "none"]),
        (&busy[..], ["CONFLICT", "http.409", "REREAD", "none"]),
        (
            &[&busy[..], &["--rules", rules]].concat(),
            ["DEPENDENCY", "index-is-rebuilding", "DEFER", "waiting"],
        ),
        (
            &["--system", "grpc", "--code", "NOT_FOUND", "--origin", "TRANSPORT"],
            ["TRANSIENT", "transport", "RETRY", "none"],
        ),
        (
            &["--system", "http", "--code", "422", "--user-input=false"],
            ["FATAL", "http.422.ours", "HALT", "error"],
        ),
        (
            &[
                "--system",
                "grpc",
                "--code",
                "NOT_FOUND",
                "--domain",
                "vm.example",
                "--reason",
                "NO_SUCH_VM",
                "--rules",
                rules,
            ],
            ["GONE", "grpc.not-found.gone", "RECOVER", "error"],
        ),
    ] {
        let said = bellwether(None, &[&["explain-error", "-o", "json"], line].concat());
        assert_eq!(said.code, Some(0), "{line:?}: {}", said.err);
        let value: Value = serde_json::from_str(&said.out).unwrap();
        let found = ["class", "rule", "verdict", "effect"].map(|key| value[key].as_str().unwrap());
        assert_eq!(found, expected, "{line:?}");
    }
    let said = bellwether(None, &["explain-error", "--system", "http", "--code", "403"]);
    for part in [
        "class    BLOCKED",
        "rule     http.403:",
        "source   IANA HTTP Status Code Registry",
        "verdict  BLOCK",
        "effect   blocked; the component is held\n",
        "remedy",
    ] {
        assert!(said.out.contains(part), "no {part} in {}", said.out);
    }
    let bare = bellwether(None, &["explain-error", "--system", "http", "--code", "400"]);
    assert!(bare.out.contains("the component is not held, and is tried again"), "{}", bare.out);
    let wrong = file("[[rule]]\nname = 'a'\ncode = '1'\nclass = 'BAD'\n");
    let wrong = wrong.path().to_str().unwrap();
    let said = bellwether(None, &["explain-error", "--system", "http", "--rules", wrong]);
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert!(said.err.contains("line 4: class \"BAD\""), "{}", said.err);
    let said = bellwether(None, &["explain-error", "--system", "http", "--reason", "not so"]);
    assert_eq!(said.code, Some(2), "{}", said.err);
}

#[tokio::test]
async fn rules_are_read_again_and_a_wrong_file_changes_nothing() {
    let (rules, log) = (file(RULES), tempfile::NamedTempFile::new().unwrap());
    let mut serve = command(&["--ephemeral", "--error-rules", rules.path().to_str().unwrap()]);
    serve.stderr(log.reopen().unwrap());
    let server = Server::spawn(serve);
    let mut reports = server.reports().await;
    let mut met = mk_error("http", "409", "index");
    met.error.as_mut().unwrap().message = "rebuilding".into();
    let mut class = async || {
        let answer = reports.report_error(met.clone()).await.unwrap().into_inner();
        answer.verdict.unwrap().class()
    };
    assert_eq!(class().await, ErrorClass::Dependency);
    let logged = async |part: &str| {
        eventually(part, async || {
            std::fs::read_to_string(log.path()).unwrap().contains(part).then_some(())
        })
        .await;
    };
    std::fs::write(rules.path(), RULES.replace("DEPENDENCY", "BAD")).unwrap();
    server.signal("HUP");
    logged("line 10: class").await;
    assert_eq!(class().await, ErrorClass::Dependency, "the old rules stay");
    std::fs::write(rules.path(), RULES.replace("DEPENDENCY", "BLOCKED")).unwrap();
    server.signal("HUP");
    logged("read error rules again").await;
    assert_eq!(class().await, ErrorClass::Blocked);
}

#[test]
fn a_server_does_not_start_with_rules_that_make_no_sense() {
    let wrong = file(&RULES.replace("http", "HTTP"));
    let wrong = wrong.path().to_str().unwrap();
    let (code, said) = refused(&["--ephemeral", "--error-rules", wrong]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("line 7: system \"HTTP\""), "{said}");
    let (code, said) = refused(&["--ephemeral", "--error-rules", "/nowhere/rules.toml"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("/nowhere/rules.toml"), "{said}");
    let config = file("ephemeral = true\nerror_rules = '/nowhere/rules.toml'\n");
    let (_, said) = refused(&["--config", config.path().to_str().unwrap()]);
    assert!(said.contains("/nowhere/rules.toml"), "{said}");
}

#[test]
fn the_commands_about_errors() {
    let server = Server::ephemeral();
    let run = |line: &[&str]| {
        let said = bellwether(Some(&server), line);
        assert_eq!(said.code, Some(0), "{line:?}: {}{}", said.out, said.err);
        said
    };
    run(&["report", "web/0", "--level", "active"]);
    let met = ["error", "web/0", "--component", "db", "--target", "pg:5432"];
    let away = ["--system", "grpc", "--code", "UNAVAILABLE", "--origin", "transport", "-m", "away"];
    let said = run(&[&met[..], &away].concat());
    assert!(said.out.contains("class    TRANSIENT"), "{}", said.out);
    assert!(said.out.contains("attempt  1, 9 left"), "{}", said.out);
    let why = run(&["why", "web"]).out;
    assert!(why.contains("web/0 db pg:5432  TRANSIENT 1x"), "{why}");
    let said = run(&["resolve", "web/0", "--component", "db", "--target", "pg:5432"]);
    assert!(said.err.contains("resolved 1 error of web/0"), "{}", said.err);
    run(&[&met[..], &["--system", "grpc", "--code", "DATA_LOSS"]].concat());
    let why = run(&["why", "web"]).out;
    assert!(why.contains("web is error") && why.contains("resolve web/0 --component db --retry"));
    let halted = bellwether(Some(&server), &["resolve", "web/0", "--component", "db"]);
    assert_eq!(halted.code, Some(1), "{}", halted.err);
    assert!(halted.err.contains("1 error of web/0 holds its component"), "{}", halted.err);
    let retried = run(&["resolve", "web/0", "--component", "db", "--retry", "--reason", "mended"]);
    assert!(retried.err.contains("1 error of web/0 to be tried again"), "{}", retried.err);
    let skipped = run(&["resolve", "web/0", "--component", "db", "--skip", "-o", "json"]);
    let value: Value = serde_json::from_str(&skipped.out).unwrap();
    assert_eq!(value["releasedCount"], 1);
    let log = run(&["log", "web"]).out;
    assert!(log.contains("mended"), "{log}");
    let unknown = bellwether(Some(&server), &["resolve", "web/7", "--skip"]);
    assert_eq!(unknown.code, Some(3), "{}", unknown.err);
}
