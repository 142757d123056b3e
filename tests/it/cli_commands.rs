//! Commands around the server: version, health, check, config, explain, man, completion, and a
//! watch that runs a command.

use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::cli::{Running, command, json, ok, run};
use crate::server::{BINARY, DEADLINE, LOOK_EVERY, Server};

#[test]
fn version_names_client_and_server() {
    let server = Server::ephemeral();
    let said = ok(&server, &["version"]);
    let version = env!("CARGO_PKG_VERSION");
    assert!(said.starts_with(&format!("client  {version}\n")), "{said}");
    assert!(said.contains(&format!("server  {version}, store memory, at http://127")), "{said}");
    let both = json(&server, &["version", "-o", "json"]);
    assert_eq!(both["client"]["version"], both["server"]["version"]);
    let away = run(&server, &["--server", "http://127.0.0.1:1", "version"]);
    assert_eq!(away.code, Some(5), "{}", away.err);
    assert_eq!(away.out, format!("client  {version}\n"));
    let own = run(&server, &["--server", "http://127.0.0.1:1", "version", "--client"]);
    assert_eq!(own.code, Some(0));
}

#[test]
fn health_is_an_exit_code() {
    let server = Server::ephemeral();
    assert_eq!(ok(&server, &["health"]), "serving\n");
    ok(&server, &["report", "web/0", "--level", "error"]);
    let bad = run(&server, &["health", "web"]);
    assert_eq!((bad.code, &*bad.out), (Some(1), "not serving\n"));
    ok(&server, &["report", "web/0", "--level", "active"]);
    assert_eq!(ok(&server, &["health", "web"]), "serving\n");
    assert_eq!(run(&server, &["health", "nobody"]).code, Some(3));
    assert_eq!(run(&server, &["--server", "http://127.0.0.1:1", "health"]).code, Some(5));
}

#[test]
fn check_ends_as_a_nagios_plugin() {
    let server = Server::ephemeral();
    for (level, code, words) in [
        ("active", 0, "OK - web active | units=1 stale=0 lost=0\n"),
        ("waiting", 1, "WARNING - web waiting: web/0: m | "),
        ("blocked", 2, "CRITICAL - web blocked: web/0: m | "),
    ] {
        let message = if level == "active" { "" } else { "m" };
        ok(&server, &["report", "web/0", "--level", level, "-m", message]);
        let said = run(&server, &["check", "web", "--nagios"]);
        assert_eq!(said.code, Some(code), "{}", said.out);
        assert!(said.out.starts_with(words), "{}", said.out);
    }
    for line in [
        &["check", "nobody", "--nagios"][..],
        &["--server", "http://127.0.0.1:1", "check", "web", "--nagios"],
    ] {
        let said = run(&server, line);
        assert_eq!(said.code, Some(3), "{}", said.err);
        assert!(said.out.starts_with("UNKNOWN - "), "{}", said.out);
    }
}

pub fn alone(line: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let mut command = Command::new(BINARY);
    command.args(line).env_remove("BELLWETHER_SERVER").envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn config_print_names_the_source_of_each_value_and_no_password() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "ops_listen = '127.0.0.1:7'\nstore = 'redis://u:hunter2@127.0.0.1:6379'\n\
                [limits]\nunits_max = 5\n";
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap();
    let line = ["config", "print", "--config", path, "--grpc-listen", "127.0.0.1:9"];
    let variables = [("BELLWETHER_DURABILITY", "replicated:1")];
    let (code, out, err) = alone(&line, &variables);
    assert_eq!(code, Some(0), "{err}");
    for (setting, source) in [
        ("grpc_listen = \"127.0.0.1:9\"", "# flag --grpc-listen"),
        ("ops_listen = \"127.0.0.1:7\"", "# file "),
        ("store = \"redis://u:***@127.0.0.1:6379\"", "# file "),
        ("durability = \"replicated:1\"", "# variable BELLWETHER_DURABILITY"),
        ("drain_deadline_seconds = 10", "# default"),
        ("units_max = 5", "# file "),
        ("sessions_max = ", "# default"),
        ("# store_ca is not set", "# default"),
        ("insecure = false", "# default"),
    ] {
        let found = out.lines().find(|line| line.starts_with(setting));
        let found = found.unwrap_or_else(|| panic!("{setting:?} is not in:\n{out}"));
        assert!(found.contains(source), "{found}");
    }
    assert!(!out.contains("hunter2"), "{out}");
    let (_, json, _) = alone(&[&line[..], &["-o", "json"]].concat(), &variables);
    let value: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["limits.units_max"]["value"], 5);
    assert!(!json.contains("hunter2"), "{json}");
}

#[test]
fn config_print_of_origins_is_a_file_that_is_read_again() {
    let line = |text: &str| {
        let found = text.lines().find(|line| line.starts_with("allowed_origins"));
        found.and_then(|line| line.split("  #").next()).unwrap_or_default().trim_end().to_string()
    };
    for (given, expected) in [
        ("https://a.example", r#"["https://a.example"]"#),
        ("https://a.example,http://b:1", r#"["https://a.example","http://b:1"]"#),
    ] {
        let (_, out, err) = alone(&["config", "print", "--allowed-origins", given], &[]);
        assert_eq!(line(&out), format!("allowed_origins = {expected}"), "{err}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), line(&out)).unwrap();
        let path = file.path().to_str().unwrap();
        let (_, again, err) = alone(&["config", "print", "--config", path], &[]);
        assert_eq!(line(&again), line(&out), "{err}");
    }
}

/// Returns the keys that a file may contain, as the error about an unknown key lists them.
fn keys(section: &str) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let head = if section.is_empty() { String::new() } else { format!("[{section}]\n") };
    std::fs::write(file.path(), format!("{head}nonsense = 1\n")).unwrap();
    let (code, _, err) =
        alone(&["config", "check", "--config", file.path().to_str().unwrap()], &[]);
    assert_eq!(code, Some(2), "{err}");
    let list = err.split("expected").nth(1).unwrap_or_else(|| panic!("no list in {err}"));
    list.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

#[test]
fn config_print_leaves_no_setting_out() {
    let (_, json, err) = alone(&["config", "print", "-o", "json"], &[]);
    let value: Value = serde_json::from_str(&json).unwrap_or_else(|_| panic!("{err}"));
    let sections: Vec<String> =
        keys("").into_iter().filter(|key| !keys_of_value(&value, key)).collect();
    assert!(!sections.is_empty() && sections.len() < 10, "{sections:?}");
    for section in sections {
        for key in keys(&section) {
            assert!(keys_of_value(&value, &format!("{section}.{key}")), "{section}.{key}");
        }
    }
}

fn keys_of_value(value: &Value, key: &str) -> bool {
    value.get(key).is_some()
}

#[test]
fn config_check_names_the_mistake_without_a_password() {
    let (code, _, err) = alone(&["config", "check"], &[]);
    assert_eq!((code, err.as_str()), (Some(0), "the configuration is valid\n"));
    let store = "mysql://u:hunter2@h";
    let (code, _, err) = alone(&["config", "check", "--store", store], &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(!err.contains("hunter2"), "{err}");
    let (code, _, err) = alone(&["config", "check", "--grpc-listen", "0.0.0.0:1"], &[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("say --insecure"), "{err}");
}

#[test]
fn explain_and_man_need_no_server() {
    let (code, out, _) = alone(&["explain", "lease_held"], &[]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("LEASE_HELD (FAILED_PRECONDITION)\n  Another unit leads"), "{out}");
    let (code, _, err) = alone(&["explain", "LEASE"], &[]);
    assert_eq!(code, Some(3));
    assert!(err.contains("did you mean LEASE_HELD?"), "{err}");
    let (_, list, _) = alone(&["explain"], &[]);
    assert!(list.lines().any(|line| line.starts_with("STALE_FENCE  ")), "{list}");
    let (_, page, _) = alone(&["explain", "concepts"], &[]);
    assert!(page.starts_with("# Concepts\n") && page.contains("## The seven levels"), "{page}");
    let (_, help, _) = alone(&["report", "--help"], &[]);
    let first: Vec<&str> = help.lines().take(4).collect();
    assert!(first.concat().contains("bellwether explain concepts"), "{help}");
    let (code, _, help) = alone(&[], &[("BELLWETHER_SERVER", "http://127.0.0.1:1")]);
    assert_eq!(code, Some(2));
    assert!(help.contains("Exit codes") && help.contains("  status "), "{help}");
    let (code, _, err) = alone(&["staus"], &[]);
    assert_eq!(code, Some(2));
    assert!(err.contains("a similar subcommand exists: 'status'"), "{err}");
    let (_, page, _) = alone(&["man"], &[]);
    assert!(page.contains(".TH bellwether 1") && page.contains("Exit codes"), "{page}");
    let dir = tempfile::tempdir().unwrap();
    let (code, _, err) = alone(&["man", "--dir", dir.path().to_str().unwrap()], &[]);
    assert_eq!(code, Some(0), "{err}");
    for page in ["bellwether.1", "bellwether-status.1", "bellwether-leader-claim.1"] {
        assert!(dir.path().join(page).exists(), "{page}");
    }
}

#[test]
fn completion_offers_the_names_that_the_server_has() {
    let server = Server::ephemeral();
    for unit in ["web/0", "web/1", "worker/0"] {
        ok(&server, &["-n", "prod", "report", unit, "--level", "active"]);
    }
    let complete = |words: &[&str]| {
        let mut command = command(&server, &[&["--", "bellwether"], words].concat());
        let index = words.len().to_string();
        command.env("BELLWETHER_COMPLETE", "bash").env("_CLAP_COMPLETE_INDEX", index);
        command.env("_CLAP_IFS", "\n");
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(complete(&["-n", "prod", "why", "w"]), ["web", "worker"]);
    assert_eq!(complete(&["-n", "prod", "clear", "web/"]), ["web/0", "web/1"]);
    assert_eq!(complete(&["-n", "prod", "report", "db/0", "--needs", "w"]), ["web", "worker"]);
    assert_eq!(complete(&["-n", "p"]), ["prod"]);
    assert_eq!(complete(&["explain", "STALE_F"]), ["STALE_FENCE"]);
    assert_eq!(complete(&["explain", "conc"]), ["concepts"]);
    assert_eq!(complete(&["--server", "http://127.0.0.1:1", "why", "w"]), Vec::<String>::new());
}

#[test]
fn a_command_is_run_for_each_change_one_at_a_time() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("log");
    let script = "echo \"$BELLWETHER_APPLICATION $BELLWETHER_LEVEL_FROM>$BELLWETHER_LEVEL \
                  $BELLWETHER_MESSAGE\" >> \"$LOG\"";
    let mut watch = command(&server, &["watch", "web", "--exec", "--", "sh", "-c", script]);
    watch.env("LOG", &log).stdout(Stdio::null());
    let _watching = Running(watch.spawn().unwrap());
    let lines = |count: usize| {
        let start = Instant::now();
        loop {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            if text.lines().count() == count {
                return text;
            }
            assert!(start.elapsed() < DEADLINE, "{text}");
            std::thread::sleep(LOOK_EVERY);
        }
    };
    assert_eq!(lines(1), "web >active \n");
    ok(&server, &["report", "web/0", "--level", "blocked", "-m", "add a db"]);
    assert_eq!(lines(2), "web >active \nweb active>blocked web/0: add a db\n");
    let missing = run(&server, &["watch", "web", "--exec", "--", "no-such-command-here"]);
    assert_eq!(missing.code, Some(1), "{}", missing.err);
    assert!(missing.err.contains("cannot run `no-such-command-here`"), "{}", missing.err);
}
