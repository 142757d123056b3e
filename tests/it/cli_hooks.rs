//! The command line in hooks of Juju and other short scripts: defaults, limits on the time, and
//! exit codes.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Output, Stdio};

use crate::cli::{command, json, ok, run};
use crate::errors;
use crate::server::{DEADLINE, Server};

/// Runs a command in a hook of `web/0`, with this text on its stdin.
fn hook(server: &Server, line: &[&str], stdin: impl AsRef<[u8]>) -> Output {
    let mut command = command(server, line);
    command.env("JUJU_UNIT_NAME", "web/0").env("JUJU_MODEL_NAME", "prod");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_ref()).unwrap();
    child.wait_with_output().unwrap()
}

/// Runs a command that must succeed in the hook, and returns its stdout and stderr.
fn in_hook(server: &Server, line: &[&str], stdin: &str) -> (String, String) {
    let output = hook(server, line, stdin);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(0), "{line:?}: {out}{err}");
    (out, err)
}

#[test]
fn a_hook_names_neither_its_unit_nor_its_model() {
    let server = Server::ephemeral();
    let (incarnation, _) = in_hook(&server, &["register", "--ttl", "6m"], "");
    assert_eq!(incarnation, "1\n");
    let set = r#"[{"component": "db", "level": "waiting", "message": "no endpoint"},
                  {"level": "active", "message": "serving"}]"#;
    let (_, err) = in_hook(&server, &["replace"], set);
    assert!(err.starts_with("web/0 has 2 statuses (revision "), "{err}");
    let (_, err) = in_hook(&server, &["replace"], set);
    assert!(err.starts_with("no change: web/0 had these 2 statuses"), "{err}");
    let (_, err) = in_hook(&server, &["replace"], r#"[{"level": "active"}]"#);
    assert!(err.starts_with("web/0 has 1 status, 1 removed"), "{err}");
    in_hook(&server, &["report", "--level", "waiting", "--component", "tls"], "");
    in_hook(&server, &["error", "--component", "tls", "--system", "http", "--code", "503"], "");
    in_hook(&server, &["resolve", "--component", "tls"], "");
    in_hook(&server, &["clear", "--component", "tls"], "");
    in_hook(&server, &["leader", "claim", "--lease", "5m"], "");
    in_hook(&server, &["leader", "is"], "");
    in_hook(&server, &["data", "set", "version=2"], "");
    assert_eq!(in_hook(&server, &["data", "get", "--key", "version"], "").0, "2");
    assert_eq!(in_hook(&server, &["leader", "get"], "").0.split(' ').next(), Some("web/0"));
    assert!(in_hook(&server, &["why"], "").0.starts_with("web is active"));
    let units = json(&server, &["-n", "prod", "status", "-o", "json"]);
    assert_eq!(units["applications"][0]["name"], "web", "{units}");
}

#[tokio::test]
async fn the_detail_of_an_error_is_any_output_of_a_program() {
    let server = Server::ephemeral();
    let line =
        ["-n", "default", "error", "--system", "http", "--code", "503", "--internal-detail", "-"];
    let output = hook(&server, &line, b"before \xff after");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let faults = errors::faults(&server, true).await;
    let last = faults[0].last.as_ref().unwrap();
    assert_eq!(last.internal_detail, "before \u{fffd} after");
    // The limit is within a character.
    let output = hook(&server, &line, "\u{20ac}".repeat(30_000));
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(err.contains("65536"), "{err}");
}

#[test]
fn a_leader_elected_by_juju_writes_for_the_application() {
    let server = Server::ephemeral();
    let outside = |line: &[&str], stdin| {
        let line = [&["app-status"], line, &["--decided-outside"]].concat();
        in_hook(&server, &line, stdin).1
    };
    let set = r#"[{"component": "db", "level": "waiting", "message": "no quorum"}]"#;
    let said = outside(&["replace"], set);
    assert!(said.starts_with("web has 1 status (revision "), "{said}");
    let said = outside(&["set", "--level", "blocked", "-m", "act", "--action", "do it"], "");
    assert!(said.starts_with("web is set to blocked (revision "), "{said}");
    assert!(in_hook(&server, &["why"], "").0.starts_with("web is blocked"));
    let said = outside(&["clear"], "");
    assert!(said.starts_with("the status of web is cleared"), "{said}");
    let why = in_hook(&server, &["why"], "").0;
    assert!(why.starts_with("web is waiting") && why.contains("no quorum"), "{why}");
    in_hook(&server, &["leader", "is"], "");
    let other = run(&server, &["-n", "prod", "app-status", "clear", "web/1"]);
    assert_eq!(other.code, Some(7), "{}", other.err);
}

#[test]
fn work_is_taken_up_by_the_next_hook() {
    let server = Server::ephemeral();
    let begin = ["op", "begin", "up-v2", "--to", "v2", "--own", "--lease", "1s"];
    assert_eq!(in_hook(&server, &begin, "").0, "begun\n");
    in_hook(&server, &["op", "heartbeat", "up-v2", "--checkpoint", "3", "--progress", "3/5"], "");
    // The hook was killed here: the lease ends, and the next hook resumes.
    let started = std::time::Instant::now();
    let word = loop {
        let output = hook(&server, &begin, "");
        let word = String::from_utf8(output.stdout).unwrap();
        assert!(started.elapsed() < DEADLINE, "{word}");
        match output.status.code() {
            Some(0) => break word,
            code => assert_eq!(code, Some(8), "held until the lease ends"),
        }
    };
    assert!(["resumed\n", "verify\n"].contains(&word.as_str()), "{word}");
    let held = in_hook(&server, &["op", "show", "up-v2", "-o", "json"], "").0;
    let held: serde_json::Value = serde_json::from_str(&held).unwrap();
    assert_eq!(held["checkpoint"], "Mw==", "{held}");
    let other = hook(&server, &["op", "complete", "up-v2", "--unit", "web/1"], "");
    let err = String::from_utf8(other.stderr).unwrap();
    assert_eq!(other.status.code(), Some(7), "another unit does not complete it: {err}");
    assert_eq!(err, "error: unit web/0 holds operation up-v2, and web/1 does not\n");
    if word == "verify\n" {
        in_hook(&server, &["op", "verify", "up-v2", "--observed", "not-applied"], "");
    }
    in_hook(&server, &["op", "complete", "up-v2"], "");
    let (_, again) = in_hook(&server, &["op", "complete", "up-v2"], "");
    assert_eq!(again, "operation up-v2 to v2 is succeeded\n");
    let shown = ["show", "show web"].map(|words| {
        let line = format!("op {words} up-v2 -o json");
        in_hook(&server, &line.split(' ').collect::<Vec<_>>(), "").0
    });
    assert_eq!(shown[0], shown[1]);
    assert_eq!(in_hook(&server, &begin, "").0, "done\n");
    let begin = ["op", "begin", "up-v3", "--to", "v3"];
    assert_eq!(in_hook(&server, &begin, "").0, "begun\n");
    let fail = ["op", "fail", "up-v3", "--system", "http", "--code", "503"];
    let (_, err) = in_hook(&server, &fail, "");
    assert!(err.starts_with("operation up-v3 to v3 is "), "{err}");
}

#[test]
fn a_wrong_set_is_refused_before_the_server_is_called() {
    let server = Server::ephemeral();
    for (set, cause) in [
        ("", "EOF"),
        (r#"[{"levl": "active"}]"#, "levl"),
        (r#"[{"level": "green"}]"#, "statuses[0]: `green` is no level: write one of "),
        ("7", "write [{"),
    ] {
        let output = hook(&server, &["replace", "--server", "http://127.0.0.1:1"], set);
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{set}: {err}");
        assert!(err.contains(cause), "{set}: {err}");
    }
}

#[test]
fn another_unit_and_a_later_time_are_no_failure() {
    let server = Server::ephemeral();
    for unit in ["web/0", "web/1"] {
        ok(&server, &["report", unit, "--level", "active"]);
    }
    assert_eq!(run(&server, &["leader", "is", "web/0"]).code, Some(8), "nobody leads yet");
    ok(&server, &["leader", "claim", "web/1", "--lease", "5m"]);
    let other = run(&server, &["leader", "is", "web/0"]);
    assert_eq!(other.code, Some(7), "{}", other.err);
    assert!(other.err.starts_with("web/1 leads"), "{}", other.err);
    assert_eq!(run(&server, &["leader", "is", "web/1"]).code, Some(0));
    assert_eq!(run(&server, &["data", "set", "web/0", "a=1"]).code, Some(7));
    assert_eq!(
        run(&server, &["report", "web/0", "--level", "active", "--incarnation", "0"]).code,
        Some(0)
    );
    ok(&server, &["register", "web/0"]);
    ok(&server, &["register", "web/0"]);
    let late = run(&server, &["report", "web/0", "--level", "active", "--incarnation", "1"]);
    assert_eq!(late.code, Some(7), "{}", late.err);
}

#[test]
fn a_hook_goes_on_without_its_server() {
    let server = Server::ephemeral();
    // It accepts connections, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    let report =
        |more: &[&str]| run(&server, &[&["report", "web/0", "--level", "active"], more].concat());
    let late = report(&["--server", &silent, "--timeout", "300ms"]);
    assert_eq!(late.code, Some(124), "{}", late.err);
    assert!(late.err.contains("not done within 300ms"), "{}", late.err);
    for url in [silent.as_str(), "http://127.0.0.1:1"] {
        let ended = report(&["--server", url, "--timeout", "300ms", "--best-effort"]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.err.contains("--best-effort"), "{}", ended.err);
    }
    let limits = ["--server", silent.as_str(), "--timeout", "300ms", "--best-effort"];
    for words in
        [["leader", "is", "web/0"], ["data", "get", "web"], ["app-status", "clear", "web/0"]]
    {
        let ended = run(&server, &[&words[..], &limits[..]].concat());
        assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.err);
        assert!(ended.err.contains("not done within 300ms"), "{words:?}: {}", ended.err);
    }
    let refused = run(&server, &["report", "a b/0", "--level", "active", "--best-effort"]);
    assert_eq!(refused.code, Some(0), "{}", refused.err);
    let mistyped = run(&server, &["report", "--level", "active", "--best-effort"]);
    assert_eq!(mistyped.code, Some(2), "{}", mistyped.err);
}
