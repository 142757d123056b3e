//! Every measurement once, as short as possible: both sides do some work, and the report names it.
//! The tests do not check the amounts.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::program;

/// Returns true if all of these programs are installed. Prints a warning if one is missing; in CI
/// that is a failure.
pub fn available(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|p| Command::new(p).arg("--version").output().is_err());
    let Some(missing) = missing else { return true };
    let in_ci = std::env::var_os("CI").is_some();
    assert!(!in_ci, "{missing} is missing, and in CI nothing is skipped");
    eprintln!("SKIPPED: {missing} is missing; run tools/install");
    false
}

fn bench(line: &[&str], directory: &Path) -> Output {
    let mut command = program::bench(line);
    command.arg("--dir").arg(directory);
    command.args(["--seconds", "1", "--warm-up", "0", "--rounds", "1"]);
    command.output().unwrap()
}

/// Returns the report of a measurement and checks that no file remains.
pub fn measure(line: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let output = bench(&[line, &["--json"]].concat(), directory.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line:?}: {said}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "files are left");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["machine", "sent", "rows"] {
        assert!(report.get(key).is_some(), "{key} is not in {report}");
    }
    report
}

pub fn positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number > 0.0)
}

/// Checks reports and commits, each beside etcd.
fn check_ingest(report: &Value, store: &str) {
    let rows = report["rows"].as_array().unwrap();
    let works: Vec<&str> = rows.iter().map(|row| row["work"].as_str().unwrap()).collect();
    assert_eq!(rows.len(), 3, "{works:?}");
    assert!(works[2].starts_with("Processor time of the server"), "{works:?}");
    assert!(positive(&rows[2]["ours"]["value"]), "{rows:?}");
    for (row, what) in rows.iter().zip(["Unary ReportStatus", "Commits of these reports"]) {
        let work = row["work"].as_str().unwrap();
        assert!(work.starts_with(what), "{work}");
        assert!(work.contains(store) && work.ends_with("beside etcd puts with fsync"), "{work}");
        for side in ["ours", "peer"] {
            assert!(positive(&row[side]["per_second"]), "{row}");
            assert_eq!(row[side]["per_second_by_round"].as_array().unwrap().len(), 1, "{row}");
        }
        for key in ["value", "min", "max"] {
            assert!(positive(&row["ratio"][key]), "{row}");
        }
        let has_target = what == "Unary ReportStatus" && store == "AOF everysec";
        assert_eq!(row["target"].is_number(), has_target, "{row}");
    }
    let (reports, commits) = (&rows[0]["ours"], &rows[1]["ours"]);
    assert!(positive(&reports["p50_seconds"]) && positive(&reports["p99_seconds"]), "{reports}");
    assert_eq!(commits["p50_seconds"], Value::Null, "a commit is no call");
    assert_eq!(report["sent"]["connections"], 8, "by default");
}

#[test]
fn ingest_on_the_embedded_store() {
    if available(&["etcd"]) {
        check_ingest(&measure(&["ingest", "--in-flight", "8"]), "embedded store");
    }
}

#[test]
fn ingest_on_redis() {
    if available(&["redis-server", "etcd"]) {
        let line = ["ingest", "--store", "redis", "--in-flight", "8"];
        check_ingest(&measure(&line), "AOF everysec");
        let always = [&line[..], &["--fsync", "always"]].concat();
        check_ingest(&measure(&always), "AOF always");
    }
}

#[test]
fn ingest_in_memory_beside_the_echo() {
    let report = measure(&["ingest", "--store", "memory", "--peer", "echo", "--in-flight", "8"]);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3, "and the processor time");
    assert!(positive(&rows[0]["target"]) && positive(&rows[0]["peer"]["per_second"]), "{rows:?}");
    assert!(positive(&rows[1]["ours"]["per_second"]), "commits are counted: {rows:?}");
    assert_eq!(rows[1]["peer"], Value::Null, "an echo commits nothing");
}

#[test]
fn json_beside_grpc() {
    let report = measure(&["json", "--in-flight", "8", "--connections", "2"]);
    for work in ["Unary ReportStatus as JSON", "Unary GetApplication as JSON"] {
        let row = row(&report, work);
        for side in ["ours", "peer"] {
            assert!(positive(&row[side]["per_second"]), "{row}");
        }
        assert_eq!(row["target"], 0.5, "{row}");
    }
}

#[test]
fn ingest_on_two_stores_in_one_run() {
    if !available(&["redis-server", "etcd"]) {
        return;
    }
    let report = measure(&["ingest", "--store", "redis,memory", "--in-flight", "8"]);
    let targets = [
        ("AOF everysec, beside etcd puts with fsync", true),
        ("memory store, beside etcd puts with fsync", false),
        ("memory store, beside plain tonic unary echo", true),
    ];
    for (beside, has_target) in targets {
        let row = row(&report, &format!("Unary ReportStatus, {}", on_redis(&report, beside)));
        assert_eq!(row["target"].is_number(), has_target, "{row}");
        assert!(positive(&row["ours"]["per_second"]) && positive(&row["ratio"]["value"]), "{row}");
    }
    assert_eq!(
        report["rows"].as_array().unwrap().len(),
        7,
        "and the commits and the cost of each store"
    );
}

/// Returns the name of a row with the version of Redis on this machine.
fn on_redis(report: &Value, work: &str) -> String {
    let works = report["rows"].as_array().unwrap().iter().map(|row| row["work"].as_str().unwrap());
    let redis = works.filter_map(|work| work.split_once("Redis ")).next().unwrap().1;
    let version = redis.split(' ').next().unwrap();
    work.replace("AOF everysec", &format!("Redis {version} with AOF everysec"))
}

#[test]
fn reports_on_streams() {
    if !available(&["redis-server", "etcd"]) {
        return;
    }
    // In memory the processor time is also beside reads of memory.
    for (store, costs) in [("redis", 2), ("memory", 2)] {
        let report = measure(&["streams", "--store", store, "--keys", "1000"]);
        let rows = report["rows"].as_array().unwrap();
        let works: Vec<&str> = rows.iter().map(|row| row["work"].as_str().unwrap()).collect();
        assert_eq!(rows.len(), 2 + costs, "{works:?}");
        assert!(works[0].ends_with("beside etcd puts with fsync"), "{works:?}");
        assert!(works[1].ends_with("beside plain tonic stream echo"), "{works:?}");
        let (rates, costs) = rows.split_at(2);
        assert!(costs.iter().all(|row| positive(&row["ours"]["value"])), "{costs:?}");
        for side in rates.iter().flat_map(|row| [&row["ours"], &row["peer"]]) {
            assert!(positive(&side["per_second"]) && positive(&side["p50_seconds"]), "{side}");
        }
        assert_eq!(report["sent"]["keys"], 1000);
    }
}

#[test]
fn delays_between_replicas() {
    if !available(&["redis-server", "etcd"]) {
        return;
    }
    let report = measure(&["replicas", "--rate", "100"]);
    assert_eq!(
        (&report["sent"]["per_second"], &report["sent"]["seconds"]),
        (&100.into(), &1.into())
    );
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        for side in ["ours", "peer"] {
            let side = &row[side];
            assert_eq!(side["count"], 100, "each write counts, however late: {row}");
            for key in ["p50_seconds", "p90_seconds", "p99_seconds", "max_seconds"] {
                assert!(side[key].is_number(), "{key}: {row}");
            }
        }
    }
    for side in ["ours", "peer"] {
        let watcher = &rows[0][side]["watcher"];
        assert!(watcher["seen_first"].is_u64() && watcher["overtaken"].is_u64(), "{watcher}");
        assert_eq!(rows[2][side]["watcher"], Value::Null, "an acknowledgement has no watcher");
    }
    let (seen, ratio) = (&rows[0], &rows[0]["ratio_p99"]);
    assert!(seen["work"].as_str().unwrap().ends_with("from sending to the watcher's event"));
    assert!(positive(&seen["ours"]["p50_seconds"]) && positive(&seen["peer"]["p50_seconds"]));
    assert!(positive(&ratio["value"]) && positive(&ratio["min"]), "{seen}");
}

#[test]
fn delays_for_people() {
    if available(&["redis-server"]) {
        let directory = tempfile::tempdir().unwrap();
        let output = bench(&["replicas", "--peer", "none", "--fsync", "always"], directory.path());
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for expected in ["AOF always: from sending", "p90", "seen before acknowledged", "200 req"] {
            assert!(text.contains(expected), "{expected} is not in:\n{text}");
        }
    }
}

#[test]
fn bytes_at_the_disk() {
    if !available(&["etcd"]) {
        return;
    }
    let report = measure(&["written", "--rate", "100", "--settle", "0"]);
    let row = &report["rows"][0];
    let work = row["work"].as_str().unwrap();
    assert!(work.starts_with("Bytes at the disk for each change, 100 changes a second"), "{work}");
    // Each change is synced, so it is more than its message.
    assert!(100.0 < row["ours"]["value"].as_f64().unwrap(), "{row}");
}

#[test]
fn delays_to_many_watchers() {
    if !available(&["etcd"]) {
        return;
    }
    for (sees, of) in [("own", "its own"), ("all", "all")] {
        let line = ["watchers", "--rate", "100", "--watchers", "4", "--sees", sees];
        let report = measure(&line);
        let seen = row(&report, "from sending to the watcher's event");
        let work = seen["work"].as_str().unwrap();
        assert!(work.contains(&format!("4 watchers, each of {of}, ")), "{work}");
        for side in ["ours", "peer"] {
            assert_eq!(seen[side]["count"], 100, "each change is timed once: {seen}");
        }
        assert!(positive(&seen["target_seconds"]) && positive(&seen["ratio_p99_max"]), "{seen}");
        assert_eq!(report["rows"].as_array().unwrap().len(), 4);
    }
}

#[test]
fn a_start_with_statuses() {
    if !available(&["redis-server"]) {
        return;
    }
    let report = measure(&["start", "--statuses", "1000"]);
    for store in ["embedded store with fsync", "AOF everysec"] {
        let first = row(&report, &format!("{store}: the first application"));
        assert!(positive(&first["ours"]["value"]) && positive(&first["target"]["at_most"]));
        let all = row(&report, &format!("{store}: every application"));
        assert_eq!(all["verdict"], "reported");
    }
}

#[test]
fn commits_with_many_active_applications() {
    let report = measure(&["active", "--applications", "1000"]);
    let cost = row(&report, "Processor time of a commit");
    assert!(positive(&cost["ratio"]["value"]));
    let beyond = row(&report, "Processor time of such a commit");
    assert!(positive(&beyond["peer"]["value"]) && positive(&beyond["target"]["ratio_at_most"]));
    assert!(cost["peer"]["name"].as_str().unwrap().ends_with(" 128 applications"), "{cost}");
}

#[test]
fn puts_of_the_peer() {
    if !available(&["etcd"]) {
        return;
    }
    let report = measure(&["peers", "--in-flight", "8"]);
    let puts = row(&report, "Puts with fsync of etcd");
    assert!(positive(&puts["ours"]["per_second"]) && puts["verdict"] == "reported", "{puts}");
}

#[test]
fn cost_of_replicas_that_follow() {
    if !available(&["redis-server"]) {
        return;
    }
    let active = ["--applications=0", "--active"];
    for (flags, active) in [(&["--applications=1000"][..], ""), (&active, ", which all replicas")] {
        let report = measure(&[&["following", "--rate=100", "--replicas=1,2"], flags].concat());
        assert!(report["sent"]["how"].as_str().unwrap().contains(active), "{}", report["sent"]);
        let follower = row(&report, "a replica that follows for a change, 2 replicas");
        assert!(follower["ours"]["value"].is_number(), "{follower}");
        let kept = if active.is_empty() { 2 } else { 0 };
        assert_eq!(report["rows"].as_array().unwrap().len(), 5 + kept);
    }
}

#[test]
fn repeats_through_redis_beside_memory() {
    if !available(&["redis-server"]) {
        return;
    }
    let report = measure(&["repeats", "--keys", "1000", "--calls", "8"]);
    for what in ["workers' streams", "unary ReportStatus"] {
        let repeats = row(&report, what);
        assert!(positive(&repeats["ratio"]["value"]) && positive(&repeats["target"]), "{repeats}");
    }
}

#[test]
fn growth_of_an_application() {
    let report = measure(&["growth", "--statuses", "1000", "--units", "200"]);
    let cost = row(&report, "Processor time for a report");
    assert!(positive(&cost["ratio"]["value"]));
    let beyond = row(&report, "Processor time for such a report");
    assert!(positive(&beyond["peer"]["value"]) && positive(&beyond["target"]["ratio_at_most"]));
    assert!(cost["ours"]["name"].as_str().unwrap().ends_with("1,000 statuses"), "{cost}");
    assert!(cost["peer"]["name"].as_str().unwrap().ends_with(" 100 statuses"), "{cost}");
    let rate = row(&report, "Reports of one application");
    assert!(positive(&rate["ours"]["per_second"]) && positive(&rate["peer"]["per_second"]));
    let explained = row(&report, "ExplainApplication");
    assert!(positive(&explained["ours"]["p99_seconds"]) && positive(&explained["target_seconds"]));
}

#[test]
fn lists_of_what_blocks() {
    let report = measure(&["blockers", "--applications", "200", "--calls", "4"]);
    let listed = row(&report, "ListBlockers");
    assert!(positive(&listed["ours"]["p99_seconds"]) && positive(&listed["target_seconds"]));
    let explained = row(&report, "ExplainApplication");
    assert!(positive(&explained["ours"]["p99_seconds"]) && positive(&explained["ratio_p99_max"]));
}

#[test]
fn marks_that_end_together() {
    let report = measure(&["marks", "--marks", "60", "--applications", "3"]);
    let all = row(&report, "All ended marks");
    assert!(positive(&all["ours"]["value"]) && positive(&all["target"]["at_most"]), "{all}");
    let each = row(&report, "From the end of its marks");
    assert_eq!(each["ours"]["count"], 3, "{each}");
}

/// Returns the only row whose work contains this text.
pub fn row<'a>(report: &'a Value, work: &str) -> &'a Value {
    let rows = report["rows"].as_array().unwrap();
    let found: Vec<&Value> =
        rows.iter().filter(|row| row["work"].as_str().unwrap().contains(work)).collect();
    assert_eq!(found.len(), 1, "{work} is once among {rows:#?}");
    found[0]
}

#[test]
fn collects_with_some_who_do_not_answer() {
    let report = measure(&["collect", "--workers", "100", "--deadline", "400"]);
    let over = row(&report, "time beyond the deadline");
    assert!(over["target_seconds"].is_number() && positive(&over["ours"]["count"]), "{over}");
    let share = row(&report, "share of the healthy");
    assert!(positive(&share["ours"]["value"]) && share["target"]["at_least"].is_number());
    let took = row(&report, "all healthy");
    assert!(positive(&took["ours"]["p99_seconds"]), "{took}");
    assert_eq!(
        (&report["sent"]["workers"], report["rows"][0]["peer"].is_null()),
        (&100.into(), true)
    );
}

#[test]
fn silence_of_units_and_of_leases() {
    if !available(&["etcd"]) {
        return;
    }
    let line = ["silence", "--units", "60", "--leases", "30", "--applications", "3,60"];
    let report = measure(&line);
    for applications in ["of 3 applications", "of 60 applications"] {
        let all = row(&report, &format!("All silent units {applications}"));
        assert!(positive(&all["ours"]["value"]) && all["target"]["at_most"].is_number(), "{all}");
        let rate = row(&report, &format!("How fast silent units {applications}"));
        assert!(positive(&rate["ratio"]["value"]), "{rate}");
        let each = row(&report, &format!("each of the silent units {applications}"));
        assert_eq!((&each["ours"]["count"], &each["peer"]["count"]), (&60.into(), &30.into()));
    }
    assert_eq!(report["sent"]["peer_workers"], 30);
}

#[test]
fn heartbeats_beside_keepalives() {
    if !available(&["etcd"]) {
        return;
    }
    let report = measure(&["heartbeats", "--workers", "20", "--interval", "1"]);
    let commits = row(&report, "Commits to the store");
    assert_eq!((&commits["ours"]["value"], &commits["verdict"]), (&0.0.into(), &"met".into()));
    for work in ["Heartbeats taken for a second", "Processor for 1,000", "Heartbeats as they came"]
    {
        let row = row(&report, work);
        assert!(positive(&row["ours"]["value"]) && positive(&row["peer"]["value"]), "{row}");
    }
}

#[test]
fn elections_beside_those_of_etcd() {
    if !available(&["etcd"]) {
        return;
    }
    let report = measure(&["election", "--elections", "2"]);
    for work in ["From the death of a leader", "From a leader's stepping back"] {
        let row = row(&report, work);
        assert_eq!((&row["ours"]["count"], &row["peer"]["count"]), (&2.into(), &2.into()));
        assert!(positive(&row["ours"]["p50_seconds"]), "{row}");
    }
}

#[test]
fn workers_come_back_after_a_replica_is_lost() {
    if !available(&["redis-server"]) {
        return;
    }
    let report = measure(&["loss", "--workers", "30", "--jitter", "50"]);
    let session = row(&report, "until a worker has a session");
    let current = row(&report, "state is current");
    for row in [session, current] {
        assert!(row["ours"]["count"] == 30 && positive(&row["ours"]["max_seconds"]), "{row}");
    }
    assert_eq!(row(&report, "stale or lost")["ours"]["by_round"].as_array().unwrap().len(), 1);
}

#[test]
fn sessions_for_people() {
    let directory = tempfile::tempdir().unwrap();
    let line = ["heartbeats", "--workers", "10", "--interval", "1", "--peer", "none"];
    let output = bench(&line, directory.path());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for expected in ["10 workers over 8 connections", "per CPU second", "not compared", "<= 0  met"]
    {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
}

#[test]
fn instructions_of_a_report() {
    if !available(&["valgrind"]) {
        return;
    }
    let line = ["instructions", "--statuses", "100", "--reports", "64", "--json"];
    let output = program::bench(&line).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    for work in ["alone in its commit", "64 in a commit", "on a worker's stream"] {
        let row = row(&report, work);
        assert!(positive(&row["ours"]["value"]) && row["peer"].is_null(), "{row}");
    }
}

#[test]
fn a_graph_of_one_row() {
    if !available(&["etcd"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("graph.svg");
    let line = ["graph", "--quick", "--only", "6", "--out", out.to_str().unwrap()];
    let output = bench(&line, directory.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let svg = std::fs::read_to_string(out).unwrap();
    for part in ["6. Change to watcher", "class=\"line ours\"", "class=\"line peer\"", "etcd 3"] {
        assert!(svg.contains(part), "{part} is not in:\n{svg}");
    }
}

#[test]
fn a_flag_that_means_nothing_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let output = bench(&["ingest", "--fsync", "always"], directory.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("--fsync is for --store redis"), "{said}");
}

#[test]
fn a_missing_program_is_an_error_with_the_next_step() {
    let directory = tempfile::tempdir().unwrap();
    for (line, program) in [
        (&["ingest"][..], "etcd"),
        (&["replicas", "--peer", "none"], "redis-server"),
        (&["silence"], "etcd"),
        (&["watchers"], "etcd"),
        (&["instructions"], "valgrind"),
        (&["heartbeats"], "etcd"),
        (&["loss"], "redis-server"),
        (&["collect", "--store", "redis"], "redis-server"),
    ] {
        let output = program::bench(line).env("PATH", directory.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{line:?}");
        assert!(said.contains(&format!("{program} is not on the PATH; install it")), "{said}");
    }
}

#[test]
fn fleets_of_several_sizes() {
    let report = measure(&["sizing", "--applications", "5,10", "--every", "1"]);
    let rows = report["rows"].as_array().unwrap();
    assert_eq!((&rows[0]["units"], &rows[1]["applications"]), (&10.into(), &10.into()));
    for row in rows {
        for figure in ["reports", "memory_bytes", "disk_bytes", "answer_seconds"] {
            assert!(positive(&row[figure]), "{figure}: {row}");
        }
    }
}

#[test]
fn a_fleet_that_is_simulated() {
    let line = "fleet --applications 1000 --watchers 1000 --changes 500 --relays 4 --replicas 2 \
                --upper-relays 2 --masters 2 --seconds 20 --json";
    let line: Vec<&str> = line.split_whitespace().collect();
    let output = program::bench(&line).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let costs = &report["plan"]["costs"];
    let micros = |name: &str| costs[name].as_f64().unwrap();
    // 1000 watchers of 100 applications each: 25 events of a change at each of the 4 relays.
    let expected = 500.0 * (micros("relay") + 25.0 * micros("event")) / 1e6;
    let relays = report["rows"][3]["utilization"].as_f64().unwrap();
    assert!((relays / expected - 1.0).abs() < 0.1, "{relays}, not {expected}");
    // Two ways through the network and the work of two steps, at the least.
    let hop = report["plan"]["hop"].as_f64().unwrap();
    let least = (2.0 * hop + micros("decide") + micros("write_together")) / 1e6;
    let p50 = |name: &str| report[name]["p50"].as_f64().unwrap();
    assert!(least < p50("acknowledged") && p50("acknowledged") < p50("seen"), "{report}");
    assert!(output.status.success());
    let over = program::bench(&["fleet", "--masters", "1", "--seconds", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&over.stderr);
    assert!(!over.status.success() && said.contains("too few cores: masters of Redis"), "{said}");
    let few = program::bench(&["fleet", "--applications", "10"]).output().unwrap();
    let said = String::from_utf8_lossy(&few.stderr);
    assert!(!few.status.success() && said.contains("give --interest 1 to 10"), "{said}");
}
