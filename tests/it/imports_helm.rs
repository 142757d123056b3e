//! `bellwether import helm` against the real server: a release that is pending for ever becomes an
//! interrupted operation, once, and a later document ends it.

use std::path::Path;

use serde_json::{Value, json};

use crate::cli::{Said, ok, run};
use crate::server::Server;

/// Releases in each state.
const RELEASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/helm/releases.json");

fn release(name: &str, revision: u32, status: &str, chart: &str) -> Value {
    json!({"name": name, "namespace": "shop", "revision": revision.to_string(), "status": status,
        "updated": "2026-02-24 09:00:00.5 +0000 UTC", "chart": chart, "app_version": "1"})
}

/// Imports these releases, and requires success.
fn import(server: &Server, folder: &Path, more: &[&str], releases: &[Value]) -> Said {
    let file = folder.join("releases.json");
    std::fs::write(&file, Value::from(releases.to_vec()).to_string()).unwrap();
    let line = ["import", "helm", file.to_str().unwrap()];
    let said = run(server, &[&line[..], more].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    said
}

/// Returns id, state, kind and target of each operation of an application, the latest first.
fn operations(server: &Server, application: &str) -> Vec<[String; 4]> {
    let said = ok(server, &["-n", "shop", "ops", "list", application, "-o", "json"]);
    let list: Value = serde_json::from_str(&said).unwrap();
    let all = list["operations"].as_array().cloned().unwrap_or_default();
    let word = |value: &Value, prefix: &str| value.as_str().unwrap().replace(prefix, "");
    let row = |o: &Value| {
        [
            word(&o["operationId"], ""),
            word(&o["state"], "OPERATION_STATE_"),
            word(&o["kind"], "OPERATION_KIND_"),
            word(&o["targetVersion"], ""),
        ]
    };
    all.iter().map(row).collect()
}

#[test]
fn the_releases_of_a_cluster_are_imported_and_a_repeat_changes_nothing() {
    let server = Server::ephemeral();
    let import = |more: &[&str]| run(&server, &[&["import", "helm", RELEASES][..], more].concat());
    let dry = import(&["--dry-run"]);
    assert_eq!(dry.code, Some(0), "{}", dry.err);
    let line = "record operation helm-web-7 of release/web of web\n";
    assert!(dry.out.contains(line), "{}", dry.out);
    assert!(!ok(&server, &["namespaces"]).contains("shop"), "a dry run changes nothing");

    let first = import(&[]);
    assert_eq!(first.code, Some(0), "{}", first.err);
    let all = "imported 15 applications, 15 units into 2 namespaces (15 changed, 0 removed)";
    assert!(first.err.contains(all), "{}", first.err);
    assert!(first.err.contains("note: not imported, there twice: shop/cart"), "{}", first.err);
    let recorded = ok(&server, &["ops", "list", "-A"]);
    let again = import(&[]);
    assert!(again.err.contains("(nothing changed)"), "{}", again.err);
    assert_eq!(import(&["--dry-run"]).out, "", "nothing is left to do");
    assert_eq!(ok(&server, &["ops", "list", "-A"]).lines().count(), recorded.lines().count());

    let why = ok(&server, &["-n", "shop", "why", "web"]);
    for part in [
        "upgrade to web-1.4.0 was cut off at revision 7",
        "from     helm: status=pending-upgrade revision=7",
        "action   if no helm runs any more: helm -n shop rollback web",
        "maintenance  upgrade to web-1.4.0 interrupted at revision 7, resumes when",
    ] {
        assert!(why.contains(part), "{part:?} is not in:\n{why}");
    }
    let why = ok(&server, &["-n", "shop", "why", "mail"]);
    assert!(why.contains("helm -n shop history mail, then helm -n shop rollback mail"), "{why}");
    // Another namespace of the same server is another cluster.
    let east = import(&["--cluster", "east"]);
    assert!(east.err.contains("into 2 namespaces (15 changed, 0 removed)"), "{}", east.err);
    assert!(ok(&server, &["namespaces"]).contains("east.shop"));
}

#[test]
fn work_that_was_cut_off_is_recorded_once_and_ended_by_a_later_document() {
    let server = Server::ephemeral();
    let dir = tempfile::tempdir().unwrap();
    let import = |more: &[&str], releases: &[Value]| import(&server, dir.path(), more, releases);
    let row = |id: &str, state: &str, kind: &str, target: &str| {
        [id, state, kind, target].map(str::to_string)
    };
    let stay = [release("cart", 1, "deployed", "cart-1"), release("mail", 1, "deployed", "mail-1")];
    let with = |release: Value| [&stay[..], &[release]].concat();

    // Young enough: a helm may work on it.
    let pending = with(release("web", 7, "pending-upgrade", "web-1.4"));
    import(&["--pending-after", "1000w"], &pending);
    let why = ok(&server, &["-n", "shop", "why", "web"]);
    assert!(why.contains("web is maintenance since 2026-02-24 09:00:00Z"), "{why}");
    assert!(why.contains("upgrading to web-1.4, revision 7"), "{why}");
    assert_eq!(operations(&server, "web"), [[""; 4]; 0]);

    // Too old, three times.
    for _ in 0..3 {
        import(&[], &pending);
    }
    let cut_off = row("helm-web-7", "INTERRUPTED", "UPGRADE", "web-1.4");
    assert_eq!(operations(&server, "web"), [cut_off]);
    // The helm was only slow.
    import(&[], &with(release("web", 7, "deployed", "web-1.4")));
    assert_eq!(operations(&server, "web"), [row("helm-web-7", "SUCCEEDED", "UPGRADE", "web-1.4")]);
    let why = ok(&server, &["-n", "shop", "why", "web"]);
    assert!(why.contains("web is active"), "{why}");

    // An upgrade that is cut off, and rolled back by a person; the rollback is cut off, too.
    import(&[], &with(release("web", 8, "pending-upgrade", "web-1.5")));
    import(&[], &with(release("web", 9, "pending-rollback", "web-1.4")));
    let two = operations(&server, "web");
    let rollback = row("helm-web-9", "INTERRUPTED", "ROLLBACK", "web-1.4");
    assert_eq!(two[..2], [rollback, row("helm-web-8", "ABANDONED", "UPGRADE", "web-1.5")]);
    import(&[], &with(release("web", 10, "failed", "web-1.4")));
    assert_eq!(operations(&server, "web")[0][1], "ABANDONED");

    // It is cut off again, and uninstalled: the application goes with its operation.
    import(&[], &with(release("web", 11, "pending-upgrade", "web-1.6")));
    assert_eq!(operations(&server, "web")[0][..2], ["helm-web-11", "INTERRUPTED"]);
    let gone = import(&[], &stay);
    assert!(gone.err.contains("removed: web"), "{}", gone.err);
    assert!(!ok(&server, &["-n", "shop", "status", "-o", "name"]).contains("web"));
    // The same release again, which begins at revision 1.
    import(&[], &with(release("web", 1, "pending-install", "web-1.6")));
    let install = row("helm-web-1", "INTERRUPTED", "INSTALL", "web-1.6");
    assert_eq!(operations(&server, "web")[0], install);
}

#[test]
fn a_release_that_a_run_works_on_is_left_to_it() {
    let server = Server::ephemeral();
    let dir = tempfile::tempdir().unwrap();
    let begin = ["-n", "shop", "ops", "begin", "helm-1.4", "--unit", "web/0", "--to", "1.4"];
    ok(&server, &[&begin[..], &["--lease", "1h"]].concat());
    let pending = [release("web", 7, "pending-upgrade", "web-1.4")];
    import(&server, dir.path(), &[], &pending);
    let only = operations(&server, "web");
    assert_eq!((only.len(), only[0][..2].concat()), (1, "helm-1.4RUNNING".to_string()));
    let shown = ok(&server, &["-n", "shop", "ops", "show", "web", "helm-1.4", "-o", "json"]);
    let unasked = "\"nextTargetVersion\": \"\"";
    assert!(shown.contains(unasked), "it is not asked for another target: {shown}");
    // What a person has given up is not recorded again.
    ok(&server, &["-n", "shop", "ops", "complete", "helm-1.4", "--unit", "web/0"]);
    import(&server, dir.path(), &[], &pending);
    assert_eq!(operations(&server, "web")[0][..2], ["helm-web-7", "INTERRUPTED"]);
    ok(&server, &["-n", "shop", "ops", "cancel", "web", "helm-web-7"]);
    import(&server, dir.path(), &[], &pending);
    let all = operations(&server, "web");
    assert_eq!((all.len(), all[0][1].as_str()), (2, "ABANDONED"));
}

#[test]
fn a_release_is_in_the_application_of_its_objects() {
    let server = Server::ephemeral();
    let dir = tempfile::tempdir().unwrap();
    let object = json!({"kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": "web-front", "namespace": "shop", "generation": 1,
            "labels": {"app.kubernetes.io/instance": "web"}},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1,
            "readyReplicas": 1, "availableReplicas": 1}});
    let file = dir.path().join("objects.json");
    std::fs::write(&file, object.to_string()).unwrap();
    ok(&server, &["import", "kubernetes", file.to_str().unwrap()]);
    import(&server, dir.path(), &[], &[release("web", 7, "pending-upgrade", "web-1.4")]);
    let status = ok(&server, &["-n", "shop", "status", "web"]);
    for part in ["deployment/web-front", "release/web", "was cut off at revision 7"] {
        assert!(status.contains(part), "{status}");
    }
    // Each import removes its own.
    import(&server, dir.path(), &["--prune"], &[]);
    let status = ok(&server, &["-n", "shop", "status", "web"]);
    assert!(status.contains("deployment/web-front") && !status.contains("release/"), "{status}");
    assert_eq!(operations(&server, "web")[0][1], "ABANDONED");
}

#[test]
fn a_document_with_a_mistake_changes_nothing_and_says_where_it_is() {
    let server = Server::ephemeral();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("releases.json");
    let good = release("web", 7, "pending-upgrade", "web-1.4");
    for (text, expected) in [
        (format!("[{good}, {{}}]"), "release 2 of the document is wrong: it has no `revision`"),
        (format!("[{good}"), "EOF while parsing"),
        (
            "NAME\tNAMESPACE\n".to_string(),
            "print it with `helm list -A -m 0 -o json`, by Helm 3 also with `-a`",
        ),
        ("[\"web\"]".to_string(), "it is no object; print it with"),
        ("\u{feff}[]".to_string(), "is no list in JSON"),
    ] {
        std::fs::write(&file, &text).unwrap();
        let said = run(&server, &["import", "helm", file.to_str().unwrap()]);
        assert_eq!((said.code, said.err.lines().count()), (Some(1), 1), "{text}: {}", said.err);
        assert!(said.err.contains(expected), "{text}: {}", said.err);
    }
    assert!(!ok(&server, &["status", "-A", "-o", "json"]).contains("web"));
    let text = json!([release("web", 1, "\u{1b}[31mred\u{7}", "x\u{1b}[2J")]).to_string();
    std::fs::write(&file, text).unwrap();
    let dry = run(&server, &["import", "helm", "--dry-run", file.to_str().unwrap()]).out;
    assert!(dry.contains("red") && !dry.contains(['\u{1b}', '\u{7}']), "{dry:?}");
}
