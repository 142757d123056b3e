//! `bellwether import` against the real server: what it shows, when it is old, and what it
//! never removes by itself.

use std::process::Stdio;
use std::time::Instant;

use crate::cli::{Running, Said, command, ok, run};
use crate::server::{DEADLINE, LOOK_EVERY, Server};

fn fixture(name: &str) -> String {
    format!("{}/tests/data/juju-status/{name}.json", env!("CARGO_MANIFEST_DIR"))
}

/// Runs a command until its result is as expected.
fn until(server: &Server, line: &[&str], is_it: impl Fn(&Said) -> bool) -> Said {
    let start = Instant::now();
    loop {
        let said = run(server, line);
        if is_it(&said) {
            return said;
        }
        assert!(start.elapsed() < DEADLINE, "{line:?}: {:?} {}{}", said.code, said.out, said.err);
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn an_agent_that_is_alive_hides_no_workload() {
    let server = Server::ephemeral();
    let said = run(&server, &["-n", "m", "import", "juju", &fixture("alive-agents")]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let status = ok(&server, &["-n", "m", "status"]);
    let row = |name: &str| {
        let row = status.lines().find(|line| line.starts_with(&format!("{name} ")));
        row.unwrap_or_else(|| panic!("{name} is not in:\n{status}")).to_string()
    };
    for (name, level) in
        [("shop", "unknown"), ("offered", "unknown"), ("batch", "terminated"), ("odd", "waiting")]
    {
        assert!(row(name).contains(level), "{status}");
    }
    assert!(row("odd").contains("failed: disk is gone"), "{status}");
    let odd = ok(&server, &["-n", "m", "status", "odd", "-o", "json"]);
    assert!(odd.contains("UnrecognizedStatus"), "{odd}");
    assert_eq!(run(&server, &["-n", "m", "status", "--exit-status"]).code, Some(13));
    let wait = ["-n", "m", "wait", "--for", "active", "shop", "--timeout", "1s"];
    assert_eq!(run(&server, &wait).code, Some(124));
    assert_eq!(run(&server, &["-n", "m", "health", "shop"]).code, Some(1));
}

#[test]
fn facts_about_machines_reach_their_units() {
    let server = Server::ephemeral();
    let said = run(&server, &["-n", "m", "import", "juju", &fixture("broken-machines")]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    for note in [
        "note: the model: suspended: the cloud credential is not valid\n",
        "note: machine 4: down\n",
        "note: storage data/0: error: volume refused\n",
        "note: facts that no status shows: ",
    ] {
        assert!(said.err.contains(note), "{note:?} is not in:\n{}", said.err);
    }
    let shop = ok(&server, &["-n", "m", "why", "shop"]);
    assert!(shop.contains("shop is error"), "{shop}");
    assert!(shop.contains("machine 3: provisioning error: no images for arch riscv64"), "{shop}");
    let fine = ok(&server, &["-n", "m", "why", "fine"]);
    for expected in [
        "machine 5: error: profile refused",
        "over budget",
        "application fine is dying",
        "unit fine/0 is dying",
        "scale 3: 1 unit there",
    ] {
        assert!(fine.contains(expected), "{expected:?} is not in:\n{fine}");
    }
}

#[test]
fn an_import_that_fails_is_seen_and_makes_nothing_look_fresh() {
    let server = Server::ephemeral();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("status.json");
    std::fs::copy(fixture("snappass"), &path).unwrap();
    let line = ["import", "juju", "--every", "1s", "--", "cat", path.to_str().unwrap()];
    let importer = Running(command(&server, &line).stderr(Stdio::null()).spawn().unwrap());
    let status = ["-n", "tt", "status", "--exit-status"];
    until(&server, &status, |said| said.code == Some(0));
    std::fs::remove_file(&path).unwrap();
    let shown = until(&server, &status, |said| said.out.contains("the import fails"));
    assert!(shown.out.contains("import.juju    waiting"), "{}", shown.out);
    until(&server, &status, |said| said.code == Some(13) && said.out.contains("1 stale"));
    let wait = ["-n", "tt", "wait", "snappass-test", "--for", "active", "--timeout", "1s"];
    assert_eq!(run(&server, &wait).code, Some(124));
    // The next document ends it.
    std::fs::copy(fixture("snappass"), &path).unwrap();
    let well = until(&server, &status, |said| said.code == Some(0));
    assert!(!well.out.contains("import.juju"), "{}", well.out);
    // An importer that is gone is noticed by the ttl alone.
    drop(importer);
    until(&server, &status, |said| said.code == Some(13));
}

#[test]
fn a_repeat_of_an_import_with_a_ttl_changes_nothing() {
    let server = Server::ephemeral();
    let import = ["import", "juju", "--ttl", "1m", &fixture("snappass")];
    ok(&server, &import);
    let again = run(&server, &import);
    assert!(again.err.contains("(nothing changed)"), "{}", again.err);
    let log = ok(&server, &["-n", "tt", "status", "-o", "json"]);
    let application: serde_json::Value = serde_json::from_str(&log).unwrap();
    let revision = application["applications"][0]["revision"].clone();
    ok(&server, &import);
    let log = ok(&server, &["-n", "tt", "status", "-o", "json"]);
    let application: serde_json::Value = serde_json::from_str(&log).unwrap();
    assert_eq!(application["applications"][0]["revision"], revision);
    let wrong = run(&server, &["import", "juju", "--ttl", "0", &fixture("snappass")]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
}

#[test]
fn a_filtered_document_removes_nothing_without_prune() {
    let server = Server::ephemeral();
    let names = |status: &str| {
        let name = |name: &&str| status.lines().any(|line| line.starts_with(&format!("{name} ")));
        ["ca", "db", "mq", "web"].into_iter().filter(name).collect::<Vec<_>>().join(" ")
    };
    ok(&server, &["import", "juju", &fixture("four-applications")]);
    let filtered = run(&server, &["import", "juju", &fixture("one-of-four")]);
    assert_eq!(filtered.code, Some(1), "{}", filtered.err);
    assert!(filtered.err.contains("which stays: ca, db, mq; "), "{}", filtered.err);
    assert_eq!(names(&ok(&server, &["-n", "m", "status"])), "ca db mq web");
    let pruned = run(&server, &["import", "juju", "--prune", &fixture("one-of-four")]);
    assert_eq!(pruned.code, Some(0), "{}", pruned.err);
    assert!(pruned.err.contains("removed: ca, db, mq\n"), "{}", pruned.err);
    assert_eq!(names(&ok(&server, &["-n", "m", "status"])), "web");
}

#[test]
fn an_importer_shows_that_it_keeps_what_the_document_lacks() {
    let server = Server::ephemeral();
    ok(&server, &["import", "juju", &fixture("four-applications")]);
    let document = fixture("one-of-four");
    let line = ["import", "juju", "--every", "1s", "--", "cat", &document];
    let _importer = Running(command(&server, &line).stderr(Stdio::null()).spawn().unwrap());
    let status = ["-n", "m", "status", "import.juju"];
    let shown = until(&server, &status, |said| said.out.contains("blocked"));
    assert!(
        shown.out.contains("lacks more than half of the imported: ca, db, mq"),
        "{}",
        shown.out
    );
    assert!(shown.out.contains("start the import with --prune"), "{}", shown.out);
}

/// What `systemctl show` printed on a host with a unit in each state.
const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/systemd/host.txt");

#[test]
fn the_units_of_two_hosts_share_applications_and_each_import_keeps_to_its_host() {
    let server = Server::ephemeral();
    let import = |host: &str, more: &[&str]| {
        let line = ["-n", "m", "import", "systemd", "--host", host];
        run(&server, &[&line[..], more].concat())
    };
    let units = |name: &str| {
        let said = ok(&server, &["-n", "m", "status", name, "-o", "json"]);
        ["db-1", "db-2"].map(|host| said.contains(&format!("\"{host}\"")))
    };
    let dry = import("db-1", &["--dry-run", HOST]);
    assert!(dry.out.contains("report db-1 of web 3 active: ready, 12 requests\n"), "{}", dry.out);
    assert!(dry.err.contains("note: not imported, without a name"), "{}", dry.err);
    assert!(run(&server, &["-n", "m", "status"]).out.lines().all(|line| !line.contains("web")));

    for host in ["db-1", "db-2"] {
        let said = import(host, &[HOST]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let all = "imported 12 applications, 12 units into namespace m (12 changed, 0 removed)";
        assert!(said.err.contains(all), "{}", said.err);
    }
    let again = import("db-1", &[HOST]);
    assert!(again.err.contains("(nothing changed)"), "{}", again.err);
    assert_eq!(units("web"), [true, true]);
    let why = ok(&server, &["-n", "m", "why", "broken"]);
    for part in ["exit-code 1", "action   journalctl -u broken.service"] {
        assert!(why.contains(part), "{why}");
    }

    // A document with one unit: what is gone stays without --prune, and never is another host's.
    let dir = tempfile::tempdir().unwrap();
    let only = dir.path().join("only.txt");
    std::fs::write(&only, "Id=broken.service\nLoadState=loaded\nActiveState=active\n").unwrap();
    let only = only.to_str().unwrap();
    let dry = import("db-1", &["--dry-run", only]);
    assert!(dry.code == Some(1) && dry.err.contains("which stays: db-1 of backup"), "{}", dry.err);
    assert_eq!(import("db-1", &[only]).code, Some(1));
    assert_eq!(units("web"), [true, true]);
    let pruned = import("db-1", &["--prune", only]);
    assert_eq!(pruned.code, Some(0), "{}", pruned.err);
    assert_eq!(units("web"), [false, true]);
    assert_eq!(units("broken"), [true, true]);
}

#[test]
fn a_document_of_systemd_with_a_mistake_changes_nothing_and_says_where_it_is() {
    let server = Server::ephemeral();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("host.txt");
    for (text, expected) in [
        ("Id=a.service\nActiveState=active\n\n\u{0}\u{1}\n", "line 4 is not KEY=VALUE"),
        ("{\"applications\": {}}", "not KEY=VALUE; print the units with `systemctl show`"),
        ("Id=a.service\n", "the unit at line 1 has no ActiveState"),
    ] {
        std::fs::write(&file, text).unwrap();
        let said = run(&server, &["import", "systemd", "--host", "h", file.to_str().unwrap()]);
        assert_eq!(said.code, Some(1), "{text:?}");
        assert!(said.err.contains(expected), "{text:?}: {}", said.err);
    }
    let unsafe_text = "Id=b.service\nActiveState=active\nStatusText=\u{1b}[31mred\u{7}\n";
    std::fs::write(&file, unsafe_text).unwrap();
    let line = ["import", "systemd", "--host", "h", "--dry-run", file.to_str().unwrap()];
    let dry = run(&server, &line).out;
    assert!(dry.contains("red") && !dry.contains(['\u{1b}', '\u{7}']), "{dry:?}");
    let bad = run(&server, &["import", "systemd", "--host", "a b", file.to_str().unwrap()]);
    assert!(bad.err.contains("name the host with --host"), "{}", bad.err);
    assert!(!ok(&server, &["status", "-o", "json"]).contains("\"a\""));
}

/// Objects of a cluster in each state.
const CLUSTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/kubernetes/cluster.json");

#[test]
fn a_cluster_is_imported_into_its_namespaces_and_a_repeat_reports_nothing() {
    let server = Server::ephemeral();
    let import = |more: &[&str]| run(&server, &[&["import", "kubernetes"][..], more].concat());
    let first = import(&[CLUSTER]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    let all = "imported 16 applications, 25 units into 4 namespaces (25 changed, 0 removed)";
    assert!(first.err.contains(all), "{}", first.err);
    let note = "note: objects that no status shows: 8 (ConfigMap 1";
    assert!(first.err.contains(note), "{}", first.err);
    let again = import(&[CLUSTER]);
    assert!(again.err.contains("(nothing changed)"), "{}", again.err);
    let dry = import(&["--dry-run", CLUSTER]);
    assert_eq!((dry.code, dry.out.as_str()), (Some(0), ""), "nothing is left to report");

    let why = ok(&server, &["-n", "shop", "why", "web"]);
    for part in [
        "chosen   web-7f4-b web",
        "ImagePullBackOff",
        "action   correct the image, or push it: registry.example/web:1.5 does not exist",
    ] {
        assert!(why.contains(part), "{why}");
    }
    let why = ok(&server, &["-n", "flux-system", "why", "apps"]);
    assert!(why.contains("because  infra is error"), "{why}");
    let why = ok(&server, &["-n", "shop", "why", "db"]);
    assert!(why.contains("pvc shop/data-db-0"), "{why}");

    // A part of the cluster: what is missing stays, unless --prune says otherwise.
    let dir = tempfile::tempdir().unwrap();
    let part = dir.path().join("part.json");
    let text = std::fs::read_to_string(CLUSTER).unwrap();
    let mut list: serde_json::Value = serde_json::from_str(&text).unwrap();
    list["items"].as_array_mut().unwrap().truncate(4);
    std::fs::write(&part, list.to_string()).unwrap();
    let part = part.to_str().unwrap();
    let kept = import(&[part]);
    assert_eq!(kept.code, Some(1));
    assert!(kept.err.contains("import all objects of the cluster"), "{}", kept.err);
    let pruned = import(&["--prune", part]);
    assert_eq!(pruned.code, Some(0), "{}", pruned.err);
    assert!(!ok(&server, &["namespaces"]).contains("argocd"));
    assert!(ok(&server, &["-n", "shop", "status", "-o", "name"]).contains("web"));
}

#[test]
fn an_import_leaves_what_a_worker_reports_of_the_same_unit() {
    let server = Server::ephemeral();
    let line = ["-n", "shop", "report", "web-7f4-b", "--application", "web", "-l", "active"];
    let more = ["-m", "by the worker", "--component", "web", "--kind", "pull"];
    ok(&server, &[&line[..], &more].concat());
    let said = run(&server, &["import", "kubernetes", CLUSTER]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let note = "note: not imported, a worker reports it: web-7f4-b of web web";
    assert!(said.err.contains(note), "{}", said.err);
    let shown = ok(&server, &["-n", "shop", "why", "web", "-o", "json"]);
    assert!(shown.contains("by the worker") && shown.contains("pending"), "{shown}");
    // What the import had reported goes, and the status of the worker stays.
    let other = r#"{"items": [{"kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "other", "namespace": "shop"}}]}"#;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("other.json");
    std::fs::write(&file, other).unwrap();
    ok(&server, &["import", "kubernetes", "--prune", file.to_str().unwrap()]);
    let shown = ok(&server, &["-n", "shop", "why", "web", "-o", "json"]);
    assert!(shown.contains("by the worker") && !shown.contains("pending"), "{shown}");
}

#[test]
fn rules_and_a_command_of_the_user_judge_kinds_that_are_not_known() {
    let server = Server::ephemeral();
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_string()
    };
    let object = write(
        "lamp.json",
        r#"{"kind": "Lamp", "apiVersion": "example.org/v1", "status": {"colour": "blue"},
            "metadata": {"name": "lamp", "namespace": "house"}}"#,
    );
    let shown = || ok(&server, &["-n", "house", "status", "lamp", "-o", "json"]);
    ok(&server, &["import", "kubernetes", &object]);
    assert!(shown().contains("HealthUnknown"), "{}", shown());
    let rules = write(
        "rules.toml",
        "[[rule]]\napiVersion = \"example.org/v1\"\nkind = \"Lamp\"\n\
         current = \"status.colour == 'blue'\"\n",
    );
    ok(&server, &["import", "kubernetes", "--rules", &rules, &object]);
    assert!(shown().contains("by the rule `current`"), "{}", shown());
    let answer = r#"{"status": "Degraded", "message": "blue is bad"}"#;
    let script = write("health.sh", &format!("while read -r line; do echo '{answer}'; done\n"));
    let command = format!("sh {script}");
    ok(&server, &["import", "kubernetes", "--health-command", &command, &object]);
    assert!(shown().contains("blue is bad"), "{}", shown());
    let failed = run(&server, &["import", "kubernetes", "--health-command", "false", &object]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.err.contains("`false` fails for Lamp lamp"), "{}", failed.err);
    assert!(shown().contains("blue is bad"), "a failure changes nothing");
}
