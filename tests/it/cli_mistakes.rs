//! Mistakes at the command line, against the real server: wrong addresses, flags, names and values
//! are answered with what is meant, and with an exit code that tells them apart.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::authority::Authority;
use crate::cli::{Running, Said, command, json, ok, run};
use crate::ops::fetch;
use crate::server::{Server, command as serve};

/// Checks the exit code, and what stderr contains.
#[track_caller]
fn assert_answer(said: &Said, code: i32, words: &str) {
    assert_eq!(said.code, Some(code), "{}{}", said.out, said.err);
    assert!(said.err.contains(words), "{words:?} is not in: {}", said.err);
}

#[test]
fn a_wait_may_begin_before_its_server() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let line = ["--server", &address, "wait", "web", "--timeout", "60s"];
    let somewhere = Server::ephemeral();
    let mut waiting = command(&somewhere, &line);
    let mut waiting = Running(waiting.stderr(Stdio::piped()).spawn().unwrap());
    let mut progress = BufReader::new(waiting.0.stderr.take().unwrap()).lines();
    let first = progress.next().unwrap().unwrap();
    assert!(first.contains(&format!("cannot reach {address}: connection refused")), "{first}");
    let mut late = serve(&["--ephemeral"]);
    late.env("BELLWETHER_GRPC_LISTEN", &address);
    let late = Server::spawn(late);
    ok(&late, &["report", "web/0", "--level", "active"]);
    assert_eq!(waiting.0.wait().unwrap().code(), Some(0));
    drop(late);
    let never = run(&somewhere, &["--server", &address, "wait", "web", "--timeout", "1s"]);
    assert_answer(&never, 5, "timed out after 1s");
}

#[test]
fn a_level_among_the_names_of_a_wait_is_refused() {
    let server = Server::ephemeral();
    let said = run(&server, &["wait", "web", "active", "--timeout", "100ms"]);
    assert_answer(&said, 2, "`active` is a level: write --for=active");
}

#[test]
fn an_address_is_completed_and_a_wrong_port_or_scheme_is_explained() {
    let server = Server::ephemeral();
    let authority = Authority::new();
    let with_tls = authority.serve(&[]);
    let at = |address: &str| run(&server, &["--server", address, "status"]);
    // Nothing listens at this address of the loopback network.
    assert_answer(&at("127.9.8.7"), 5, "cannot reach 127.9.8.7:50051: connection refused");
    assert_answer(&at("127.0.0.1:"), 2, "its port is no number from 1 to 65535");
    assert_answer(&at("::1"), 2, "an address of IPv6 is in brackets, as [::1]");
    let port = server.grpc.port();
    assert_answer(&at(&format!("https://localhost:{port}")), 5, "if it has no TLS, use http://");
    let tls = with_tls.grpc.port();
    assert_answer(&at(&format!("http://localhost:{tls}")), 5, "if it has TLS, use https://");
    let ops = at(&server.ops.to_string());
    assert_answer(&ops, 5, "if this is the ops port, use that of the calls, 50051 by default");
}

#[test]
fn a_wrong_argument_is_answered_with_the_right_one() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "blocked", "-m", "no db", "--action", "add it"]);
    for (line, words) in [
        (&["status", "--level", "blocked"][..], "tip: a level is a word without a flag"),
        (&["report", "web/0", "active"], "tip: a level follows its flag: --level active"),
        (&["op", "begin", "up", "--to", "v2"], "write --unit APP/UNIT"),
    ] {
        let said = run(&server, line);
        assert_answer(&said, 2, words);
        assert!(!said.err.contains("--server"), "{}", said.err);
    }
    let status = ok(&server, &["status", "blocked"]);
    assert!(status.contains("web  blocked"), "{status}");
    let begun = ok(&server, &["op", "begin", "up", "--to", "v2", "--unit", "web/0"]);
    assert_eq!(begun, "begun\n");
}

#[test]
fn a_name_that_nothing_has_is_an_error_and_a_close_one_is_offered() {
    let server = Server::ephemeral();
    for unit in ["web/0", "postgresql/0"] {
        ok(&server, &["report", unit, "--level", "active"]);
    }
    for (line, words) in [
        (&["leader", "get", "nope"][..], "there is no application nope"),
        (&["log", "web/99"], "web in namespace default has no unit web/99"),
        (&["data", "get", "nope"], "there is no application nope"),
        (&["why", "postgres"], "; is postgresql meant?"),
        (&["log", "wbe"], "; is web meant?"),
        (&["status", "wbe"], "there is no application wbe in namespace default; is web meant?"),
        (&["status", "blokced"], "; is blocked meant?"),
        (&["clear", "web/O"], "; is web/0 meant?"),
        (&["-n", "defualt", "why", "web"], "; is namespace default meant?"),
    ] {
        assert_answer(&run(&server, line), 3, words);
    }
    let check = run(&server, &["check", "wbe", "--nagios"]);
    assert!(check.out.ends_with("; is web meant?\n"), "{}", check.out);
    let wait = run(&server, &["wait", "wbe", "--timeout", "1s"]);
    assert_answer(&wait, 124, "wbe not there yet; is web meant?");
    let mut watching = command(&server, &["watch", "wbe"]);
    let mut watching = Running(watching.stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stderr.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "wbe is not there yet; is web meant?");
    assert_eq!(run(&server, &["leader", "get", "web"]).code, Some(0));
    let empty = run(&server, &["data", "get", "web"]);
    assert_answer(&empty, 0, "web has no data");
}

#[test]
fn a_value_that_the_server_refuses_is_wrong_usage_named_by_its_flag() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let report = |more: &[&str]| {
        run(&server, &[&["report", "web/0", "--level", "active"][..], more].concat())
    };
    for (said, words) in [
        (report(&["--priority", "9999999"]), "error: --priority is 9999999; give"),
        (report(&["--ttl", "900d"]), "error: --ttl is 77760000s; give"),
        (run(&server, &["report", "a b/0", "--level", "active"]), "error: unit has ' ' at byte 1"),
        (run(&server, &["-n", "a b", "status"]), "error: -n has ' ' at byte 1"),
        (run(&server, &["configure", "web", "--policy", "x"]), "error: --policy is \"x\"; known"),
        (run(&server, &["leader", "claim", "web/0", "--lease", "9d"]), "error: --lease is"),
    ] {
        assert_answer(&said, 2, words);
        assert!(!said.err.contains("config.") && !said.err.contains("status."), "{}", said.err);
    }
    // What the server refuses must not fail a hook that asked for that.
    let hook = report(&["--priority", "9999999", "--best-effort"]);
    assert_answer(&hook, 0, "ignored (--best-effort): --priority is 9999999");
    assert_answer(&report(&["--best-effort", "active"]), 2, "a level follows its flag");
}

#[test]
fn a_doctor_that_asks_a_server_judges_no_store_without_a_flag_for_it() {
    let server = Server::ephemeral();
    let folder = tempfile::tempdir().unwrap();
    let doctor = |flags: &[&str]| {
        let mut doctor = Command::new(crate::server::BINARY);
        doctor.arg("doctor").args(["--ops", &server.ops.to_string()]).args(flags);
        for name in ["STORE", "DURABILITY", "EPHEMERAL", "DATA_DIR", "CONFIG"] {
            doctor.env_remove(format!("BELLWETHER_{name}"));
        }
        let output = doctor.current_dir(folder.path()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let said = doctor(&[]);
    assert!(said.starts_with("no store is named by a flag: only the server is examined"), "{said}");
    assert!(said.contains("in contact with its workers"), "{said}");
    assert!(!said.contains("data-directory"), "{said}");
    let value: Value = serde_json::from_str(&doctor(&["-o", "json"])).unwrap();
    assert_eq!(value["store"], Value::Null, "{value}");
    let named = doctor(&["--ephemeral"]);
    assert!(named.starts_with("memory, as the flags of this command name it\n"), "{named}");
}

#[test]
fn every_answer_ends_with_a_line_and_text_is_text() {
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    ok(&server, &["leader", "claim", "web/0", "--lease", "5m"]);
    ok(&server, &["data", "set", "web/0", "database=db:5432"]);
    for line in [
        "status",
        "status -o json",
        "status -o yaml",
        "why web",
        "log web",
        "leader get web",
        "data get web",
        "data get web -o json",
        "version",
        "explain LEASE_HELD",
        "health",
        "check web --nagios",
        "configure web",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let out = ok(&server, &words);
        assert!(out.ends_with('\n') && !out.ends_with("\n\n"), "{line}: {out:?}");
    }
    for path in ["/livez", "/readyz", "/metrics"] {
        assert!(fetch(server.ops, path).1.ends_with('\n'), "{path}");
    }
    for path in ["/", "/health", "/health/default/web"] {
        assert!(fetch(server.grpc, path).1.ends_with('\n'), "{path}");
    }
    let mut watching = command(&server, &["data", "watch", "web"]);
    let mut watching = Running(watching.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines();
    let first: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["data"]["database"], "db:5432", "{first}");
    assert_eq!(ok(&server, &["data", "get", "web", "database"]), "db:5432");
    assert_eq!(json(&server, &["status", "-o", "json"])["applications"][0]["name"], "web");
}
