//! `watch --exec` over a restart: the environment of its command, and the file of `--resume`.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use crate::cli::{Running, command, ok};
use crate::server::{DEADLINE, LOOK_EVERY, Server};

fn watch(server: &Server, folder: &Path) -> Running {
    let script = "echo \"$BELLWETHER_APPLICATION $BELLWETHER_LEVEL $BELLWETHER_UNIT \
                  $BELLWETHER_ACTION $BELLWETHER_BECAUSE\" >> log";
    let line = ["watch", "--exec", "--resume", "done", "--", "sh", "-c", script];
    let mut command = command(server, &line);
    Running(command.current_dir(folder).stderr(Stdio::null()).spawn().unwrap())
}

/// Waits until a file has a text, and returns its content.
fn holds(path: &Path, text: &str) -> String {
    let start = Instant::now();
    loop {
        let content = std::fs::read_to_string(path).unwrap_or_default();
        if content.contains(text) {
            return content;
        }
        assert!(start.elapsed() < DEADLINE, "{text:?} is not in {content:?}");
        std::thread::sleep(LOOK_EVERY);
    }
}

#[test]
fn a_restart_runs_the_command_for_what_has_changed() {
    let server = Server::ephemeral();
    let folder = tempfile::tempdir().unwrap();
    let (log, done) = (folder.path().join("log"), folder.path().join("done"));
    ok(&server, &["report", "db/0", "--level", "active"]);
    ok(&server, &["report", "web/0", "--level", "active"]);
    let first = watch(&server, folder.path());
    holds(&log, "db active");
    holds(&log, "web active");
    holds(&done, "\"web\"");
    drop(first);
    ok(&server, &["report", "db/0", "--level", "blocked", "--action", "add a disk"]);
    ok(&server, &["report", "web/0", "--level", "waiting", "--needs", "db"]);
    let _second = watch(&server, folder.path());
    holds(&log, "db blocked db/0 add a disk");
    let lines = holds(&log, "web waiting web/0  ");
    let runs = lines.lines().filter(|line| line.starts_with("db ") || line.starts_with("web "));
    assert_eq!(runs.count(), 4, "{lines}");
    assert!(lines.contains("web waiting web/0  db is blocked"), "{lines}");
}

#[test]
fn a_file_of_another_watch_is_refused() {
    let server = Server::ephemeral();
    let folder = tempfile::tempdir().unwrap();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let first = watch(&server, folder.path());
    holds(&folder.path().join("done"), "\"web\"");
    drop(first);
    let file = folder.path().join("done").display().to_string();
    for (line, text) in [
        (vec!["watch", "web", "--exec", "--resume", &file, "--", "true"], None),
        (vec!["watch", "--exec", "--resume", &file, "--", "true"], Some("{")),
    ] {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let output = command(&server, &line).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("delete it to start anew"), "{said}");
    }
}
