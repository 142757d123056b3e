//! `run --operation`: a command that survives the death of its runner, with a real server, the real
//! binary and real signals. A lease is at least 30 s long, so tests that wait for its end are few.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tempfile::TempDir;

use crate::cli::{self, Said, json, ok};
use crate::runner::{Runner, holds, signal};
use crate::server::Server;

/// The shortest lease, and the longest grace that it allows.
const LEASE: [&str; 4] = ["--lease", "30s", "--grace", "4s"];

/// A server, and a folder for what commands write.
struct Stage {
    server: Server,
    dir: TempDir,
}

impl Stage {
    fn new() -> Stage {
        Stage { server: Server::ephemeral(), dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns the line that runs a script as the operation of `web`.
    fn command(&self, flags: &[&str], script: &str) -> Command {
        let line = ["run", "--operation", "web/0", "--to", "v2"];
        let line = [&line[..], &LEASE, flags, &["--", "sh", "-c", script]].concat();
        let mut command = cli::command(&self.server, &line);
        command.current_dir(self.dir.path());
        command
    }

    fn run(&self, flags: &[&str], script: &str) -> Said {
        let output = self.command(flags, script).output().unwrap();
        Said {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn start(&self, flags: &[&str], script: &str) -> Runner {
        let mut command = self.command(flags, script);
        Runner(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn operation(&self, id: &str) -> Value {
        json(&self.server, &["ops", "show", "web", id, "-o", "json"])
    }

    fn state(&self, id: &str) -> String {
        let state = self.operation(id)["state"].as_str().unwrap().to_string();
        state.trim_start_matches("OPERATION_STATE_").to_string()
    }
}

/// Whether a process lives.
fn lives(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.trim()));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

#[test]
fn the_exit_code_is_that_of_the_command_and_the_work_is_done_once() {
    let stage = Stage::new();
    let script = "echo one; echo $BELLWETHER_FENCE >> log; echo two >&2";
    let said = stage.run(&["--result", "result"], script);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(said.out, "one\n", "the output is passed on");
    assert!(said.err.contains("two\n") && said.err.contains("is done"), "{}", said.err);
    let result: Value = serde_json::from_str(&stage.text("result")).unwrap();
    assert_eq!((&result["code"], &result["code_of"]), (&0.into(), &"command".into()), "{result}");
    assert_eq!(result["operation"], "sh-v2");
    let said = stage.run(&["--result", "result"], script);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("was done at"), "{}", said.err);
    let result: Value = serde_json::from_str(&stage.text("result")).unwrap();
    assert_eq!(result["code_of"], "bellwether", "{result}");
    assert_eq!(stage.text("log"), "1\n", "it ran once");
    // Another command line to the same target is other work.
    assert_eq!(stage.run(&[], "echo again >> log").code, Some(0));
    assert_eq!(
        (stage.text("log").as_str(), stage.state("sh-v2.2").as_str()),
        ("1\nagain\n", "SUCCEEDED")
    );
    let record = ok(&stage.server, &["ops", "show", "web", "sh-v2", "-o", "json"]);
    assert!(!record.contains("BELLWETHER_FENCE"), "no command line is stored unasked: {record}");
}

#[test]
fn a_command_that_fails_is_classified_and_its_code_is_passed_on() {
    let stage = Stage::new();
    let recipe = "system = \"helm\"\n[[errors]]\ntext = \"no chart\"\nclass = \"FATAL\"\n";
    std::fs::write(stage.path("recipe.toml"), recipe).unwrap();
    let failed = ["--recipe", "./recipe.toml", "--id", "a"];
    let said = stage.run(&failed, "echo 'Error: template: x' >&2; exit 9");
    assert_eq!(said.code, Some(9), "{}", said.err);
    assert_eq!(stage.state("a"), "BLOCKED");
    assert_eq!(stage.operation("a")["lastError"]["system"], "helm");
    let said = stage.run(&failed, "echo 'Error: template: x' >&2; exit 9");
    assert_eq!(said.code, Some(1), "blocked until an operator retries: {}", said.err);
    // Another target waits for this one.
    let other = ["run", "--operation", "web/0", "--to", "v3", "--", "true"];
    let said = cli::run(&stage.server, &other);
    assert_eq!(said.code, Some(8), "{}", said.err);
    assert!(said.err.contains("operation a to v2 is not done"), "{}", said.err);
    ok(&stage.server, &["ops", "cancel", "web", "a"]);
    let said = stage.run(&["--recipe", "./recipe.toml", "--id", "b"], "echo 'no chart'; exit 3");
    assert_eq!((said.code, stage.state("b").as_str()), (Some(3), "FAILED"), "{}", said.err);
}

#[test]
fn wrong_flags_are_refused_before_anything_is_recorded() {
    let stage = Stage::new();
    for (flags, expected) in [
        (&["--lease", "29s"][..], "30s and 1h"),
        (&["--lease", "30s", "--grace", "5s"], "at most 4s"),
        (&["--recipe", "hlm"], "no recipe `hlm`"),
        (&["--input", "/nowhere"], "cannot read"),
        (&["--env", "HOME"], "--store-command"),
        (&["--every", "1s"], "cannot be used with"),
    ] {
        let line =
            [&["run", "--operation", "web/0", "--to", "v2"], flags, &["--", "true"]].concat();
        let said = cli::run(&stage.server, &line);
        assert_eq!(said.code, Some(2), "{flags:?}: {}", said.err);
        assert!(said.err.contains(expected), "{expected:?} is not in: {}", said.err);
    }
    let line = ["run", "--operation", "web/0", "--to", "v2", "--", "/nowhere/program"];
    assert_eq!(cli::run(&stage.server, &line).code, Some(2));
    assert!(!ok(&stage.server, &["status", "-o", "name"]).contains("web"));
}

/// SIGTERM is passed on, the operation is handed over, and the next run continues at once.
#[test]
fn a_signal_hands_the_work_over() {
    let stage = Stage::new();
    let script = "echo $BELLWETHER_FENCE >> log; echo 'step 1 of 2'\n\
                  [ $BELLWETHER_FENCE = 1 ] || exit 0\n\
                  trap 'echo term >> log; exit 7' TERM; while :; do sleep 0.05; done";
    let runner = stage.start(&["--deterministic"], script);
    holds("the command", || stage.text("log").contains('1'));
    let status = || ok(&stage.server, &["status", "web"]);
    assert!(status().contains("upgrading to v2"), "{}", status());
    // A second run of the unit waits, and one of another unit too.
    let said = stage.run(&["--deterministic"], script);
    assert_eq!(said.code, Some(8), "{}", said.err);
    runner.signal("TERM");
    assert_eq!(runner.end(), Some(7));
    assert_eq!(stage.state("sh-v2"), "INTERRUPTED");
    assert_eq!(stage.operation("sh-v2")["interruptions"], 0, "it is free");
    assert_eq!(stage.run(&["--deterministic"], script).code, Some(0));
    assert_eq!(stage.text("log"), "1\nterm\n2\n");
}

#[test]
fn an_operator_ends_the_command_by_a_cancel() {
    let stage = Stage::new();
    let script = "echo $$ > pid; trap 'exit 5' TERM; while :; do sleep 0.05; done";
    let runner = stage.start(&[], script);
    holds("the command", || !stage.text("pid").is_empty());
    ok(&stage.server, &["ops", "cancel", "web", "sh-v2"]);
    assert_eq!(runner.end(), Some(5));
    assert!(!lives(&stage.text("pid")));
    assert_eq!(stage.state("sh-v2"), "ABANDONED");
}

/// The command, and what it started in groups of its own, die with the runner, long before the
/// lease ends; the next run waits for that, and continues with the next fence.
#[test]
fn the_command_dies_with_its_runner_and_the_next_run_resumes() {
    let stage = Stage::new();
    let script = "echo $BELLWETHER_FENCE >> log; [ $BELLWETHER_FENCE = 1 ] || exit 0\n\
                  trap '' TERM\n\
                  setsid sh -c 'trap \"\" TERM; echo $$ > other; sleep 1000 & wait' &\n\
                  echo $$ > pid; while :; do sleep 0.05; done";
    let runner = stage.start(&["--deterministic"], script);
    holds("the command", || !stage.text("pid").is_empty() && !stage.text("other").is_empty());
    let started = Instant::now();
    runner.signal("KILL");
    holds("the end", || !lives(&stage.text("pid")) && !lives(&stage.text("other")));
    assert!(started.elapsed().as_secs() < 25, "the lease has not ended");
    assert_eq!(stage.state("sh-v2"), "RUNNING");
    assert_eq!(stage.run(&["--deterministic"], script).code, Some(8), "its lease has not ended");
    holds("the end of the lease", || stage.state("sh-v2") == "INTERRUPTED");
    assert_eq!(stage.run(&["--deterministic"], script).code, Some(0));
    assert_eq!(stage.text("log"), "1\n2\n");
}

/// A runner that stands still, and a server that does: the keeper ends the command before the lease
/// ends by the server's clock.
#[test]
fn a_stopped_runner_and_a_stopped_server_save_no_command() {
    std::thread::scope(|scope| {
        for stopped in ["runner", "server"] {
            scope.spawn(move || ends_while_stopped(stopped));
        }
    });
}

fn ends_while_stopped(stopped: &str) {
    let stage = Stage::new();
    let script = "echo $$ > pid; trap '' TERM; while :; do sleep 0.05; done";
    let runner = stage.start(&["--deterministic"], script);
    holds("the command", || !stage.text("pid").is_empty());
    match stopped {
        "runner" => runner.signal("STOP"),
        _ => stage.server.signal("STOP"),
    }
    holds("the end of the command", || !lives(&stage.text("pid")));
    if stopped == "runner" {
        // By the clock of the server, the lease has not ended.
        assert_eq!(stage.state("sh-v2"), "RUNNING");
    }
    stage.server.signal("CONT");
    runner.signal("CONT");
    assert_eq!(runner.end(), Some(137));
}

/// The command dies if its keeper is killed, and the runner hands the work over.
#[test]
fn a_keeper_that_is_killed_takes_the_command_with_it() {
    let stage = Stage::new();
    let script = "echo $PPID > keeper; echo $$ > pid; while :; do sleep 0.05; done";
    let runner = stage.start(&["--deterministic"], script);
    holds("the command", || !stage.text("pid").is_empty());
    signal(stage.text("keeper").trim().parse().unwrap(), "KILL");
    assert_eq!(runner.end(), Some(137));
    assert!(!lives(&stage.text("pid")));
    assert_eq!(stage.state("sh-v2"), "INTERRUPTED");
}

#[test]
fn a_script_says_how_far_interrupted_work_came() {
    let cases = [
        ("exit 0", 0, "SUCCEEDED", "1\n"),
        ("exit 1", 0, "SUCCEEDED", "1\n3\n"),
        ("exit 9", 1, "BLOCKED", "1\n"),
    ];
    std::thread::scope(|scope| {
        for (verify, code, state, log) in cases {
            scope.spawn(move || verified(verify, code, state, log));
        }
    });
}

/// Interrupts a command, and runs it again with a script that verifies.
fn verified(verify: &str, code: i32, state: &str, log: &str) {
    let stage = Stage::new();
    let script = "echo $BELLWETHER_FENCE >> log; [ $BELLWETHER_FENCE = 1 ] || exit 0\n\
                  while :; do sleep 0.05; done";
    let runner = stage.start(&[], script);
    holds("the command", || !stage.text("log").is_empty());
    runner.signal("KILL");
    holds("the end of the lease", || stage.state("sh-v2") == "INTERRUPTED");
    let said = stage.run(&[], script);
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("give --verify"), "{}", said.err);
    let said = stage.run(&["--verify", verify], script);
    assert_eq!(said.code, Some(code), "{verify}: {}", said.err);
    assert_eq!((stage.state("sh-v2").as_str(), stage.text("log").as_str()), (state, log));
}

#[test]
fn a_recipe_frees_what_an_interrupted_command_has_locked() {
    let stage = Stage::new();
    let recipe = "deterministic = true\n\
        [checkpoint]\nscript = \"echo before\"\n\
        [detect]\nscript = \"[ -e lock ] || exit 1; [ \\\"$BELLWETHER_CHECKPOINT\\\" = before ]\"\n\
        [unlock]\nscript = \"echo unlock >> log; rmdir lock\"\n\
        [done]\nscript = \"grep -q done log\"\n";
    std::fs::write(stage.path("recipe.toml"), recipe).unwrap();
    let flags = ["--recipe", "./recipe.toml"];
    let script = "mkdir lock || exit 3; echo $BELLWETHER_FENCE >> log\n\
                  if [ $BELLWETHER_FENCE = 2 ]; then rmdir lock; echo done >> log; exit 0; fi\n\
                  while :; do sleep 0.05; done";
    let runner = stage.start(&flags, script);
    holds("the lock", || stage.text("log").contains('1'));
    runner.signal("KILL");
    holds("the end of the lease", || stage.state("sh-v2") == "INTERRUPTED");
    let said = stage.run(&flags, script);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(stage.text("log"), "1\nunlock\n2\ndone\n");
    // The recipe says that the work is not done, although the command exits with 0.
    let said = stage.run(&["--recipe", "./recipe.toml", "--id", "x"], "rm log; touch log");
    assert_eq!(said.code, Some(1), "{}", said.err);
    assert!(said.err.contains("is not done"), "{}", said.err);
}

/// What is stored is enough to take up the work after a start of the host.
#[test]
fn a_stored_command_is_taken_up_with_its_inputs() {
    let stage = Stage::new();
    std::fs::write(stage.path("values"), "a: 1\n").unwrap();
    let flags = ["--deterministic", "--input", "values", "--store-command", "--env", "COLOUR"];
    let script = "echo $COLOUR $(cat values) $BELLWETHER_FENCE >> log\n\
                  [ $BELLWETHER_FENCE = 1 ] || exit 0; while :; do sleep 0.05; done";
    let mut command = stage.command(&flags, script);
    command.env("COLOUR", "red").stdout(Stdio::null()).stdin(Stdio::null());
    let runner = Runner(command.spawn().unwrap());
    holds("the command", || !stage.text("log").is_empty());
    runner.signal("KILL");
    drop(runner);
    std::fs::remove_file(stage.path("values")).unwrap();
    // It waits for the end of the lease.
    let said = cli::run(&stage.server, &["run", "web/0", "--resume"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert_eq!(stage.text("log"), "red a: 1 1\nred a: 1 2\n");
    assert_eq!(stage.state("sh-v2"), "SUCCEEDED");
    let said = cli::run(&stage.server, &["run", "web/0", "--resume"]);
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""), "nothing is open");
}

/// Two runners of two units begin at once: one works, the other is refused.
#[test]
fn two_runners_race_and_one_works() {
    for _ in 0..5 {
        let stage = Stage::new();
        let script = "echo $BELLWETHER_UNIT >> log; until [ -e go ]; do sleep 0.05; done";
        let start = |unit: &str| {
            let line = ["run", "--operation", unit, "--to", "v2", "--", "sh", "-c", script];
            let mut command = cli::command(&stage.server, &line);
            command.current_dir(stage.dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
            Runner(command.spawn().unwrap())
        };
        let mut runners = Vec::from(["web/0", "web/1"].map(start));
        let mut refused = None;
        holds("the end of one", || {
            refused = runners.iter_mut().position(|runner| runner.0.try_wait().unwrap().is_some());
            refused.is_some()
        });
        assert_eq!(runners.remove(refused.unwrap()).end(), Some(7));
        std::fs::write(stage.path("go"), "").unwrap();
        assert_eq!(runners.remove(0).end(), Some(0));
        assert_eq!(stage.text("log").lines().count(), 1, "{}", stage.text("log"));
    }
}

/// The folder of a command is the one in which it was begun.
#[test]
fn the_same_command_in_another_folder_is_other_work() {
    let stage = Stage::new();
    let runner =
        stage.start(&["--id", "x"], "trap 'exit 1' TERM; echo > pid; while :; do sleep 0.05; done");
    holds("the command", || stage.path("pid").exists());
    runner.signal("TERM");
    runner.end();
    let other: &Path = &stage.path("other");
    std::fs::create_dir(other).unwrap();
    let script = "trap 'exit 1' TERM; echo > pid; while :; do sleep 0.05; done";
    let output = stage.command(&["--id", "x"], script).current_dir(other).output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(8), "{err}");
    assert!(err.contains("it runs in") && err.contains("ops cancel web x"), "{err}");
}
