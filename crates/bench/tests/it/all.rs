//! Every row of the targets in one table: a failed row does not affect the others, no process or
//! file remains, and the documentation page has a place for the table.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{LOOK_EVERY, bench};

/// Longer than any row takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

fn all(line: &[&str], directory: &Path) -> Command {
    let mut command = bench(&["all"]);
    command.args(line).arg("--dir").arg(directory);
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn rows_without_peers_in_one_report() {
    let directory = tempfile::tempdir().unwrap();
    let output = all(&["--quick", "--only", "11,10", "--json"], directory.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(is_empty(directory.path()), "files are left");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let measurements = report["measurements"].as_array().unwrap();
    let rows: Vec<&Value> = measurements.iter().map(|measured| &measured["row"]).collect();
    assert_eq!(rows, [10, 11], "in the order of the targets");
    for (measured, (command, count)) in measurements.iter().zip([("growth", 4), ("collect", 3)]) {
        assert_eq!(measured["command"], format!("bellwether-bench {command}"));
        let rows = measured["report"]["rows"].as_array().unwrap();
        assert_eq!(rows.len(), count, "also those without a target: {measured}");
    }
    let machine = &report["machine"];
    assert!(machine["cores"].is_u64() && machine["memory_bytes"].is_u64(), "{machine}");
}

#[test]
fn a_row_that_fails_is_in_the_table_with_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.md");
    fs::write(&page, "# Page\n<!-- begin: bench all -->\n<!-- end: bench all -->\n").unwrap();
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut command = all(&["--quick", "--only", "1,11"], &data);
    // Redis and etcd are not in the path; the second row needs neither.
    let output = command.arg("--page").arg(&page).env("PATH", &data).output().unwrap();
    let table = text(&output);
    assert!(!output.status.success(), "{table}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of 2 measurements failed"));
    for expected in ["bench streams", "is not on the", "failed", "CollectApplication", "<= 5.00 ms"]
    {
        assert!(table.contains(expected), "{expected} is not in:\n{table}");
    }
    assert!(fs::read_to_string(&page).unwrap().contains(&table), "the page has the table");
}

#[test]
fn a_page_without_a_place_is_refused_before_anything_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.md");
    fs::write(&page, "# Page\n").unwrap();
    let output = all(&[], directory.path()).arg("--page").arg(&page).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("begin: bench all"), "{said}");
    let output = all(&["--only", "99"], directory.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no command measures"), "{said}");
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = all(&["--only", "10"], directory.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + DEADLINE;
    while is_empty(directory.path()) {
        assert!(Instant::now() < deadline, "no server is started");
        std::thread::sleep(LOOK_EVERY);
    }
    let id = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(id, Signal::INT).unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success() && said.is_empty(), "{status}: {said}");
    assert!(is_empty(directory.path()), "files are left");
}

#[test]
fn the_page_has_a_place_for_each_table() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md");
    let page = fs::read_to_string(page).unwrap();
    for block in ["bench all", "bench instructions"] {
        for (mark, other) in [("begin", "end"), ("end", "begin")] {
            let mark = format!("<!-- {mark}: {block} -->");
            assert_eq!(page.matches(&mark).count(), 1, "{mark}, and an {other}");
        }
        let begin = page.find(&format!("<!-- begin: {block} -->")).unwrap();
        assert!(begin < page.find(&format!("<!-- end: {block} -->")).unwrap(), "{block}");
    }
}
