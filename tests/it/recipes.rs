//! The programs and files of docs/recipes.md do what the page says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json as literal};

use crate::cli::{command, json, ok};
use crate::interop::{have, path, root};
use crate::server::{BINARY, DEADLINE, Server};

fn recipe(name: &str) -> PathBuf {
    root().join("examples/recipes").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(recipe(name)).unwrap()
}

/// Returns a path on which `bellwether` and the recipes are, as after their installation.
fn installed() -> String {
    let binaries = Path::new(BINARY).parent().unwrap();
    format!("{}:{}:{}", binaries.display(), root().join("examples/recipes").display(), path())
}

fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Takes requests as Slack does, and passes on their bodies.
fn receiver() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/services/T0/B0/x", listener.local_addr().unwrap());
    let (sender, bodies) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                let head = line.trim().to_lowercase();
                if let Some(bytes) = head.strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                }
                if head.is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").unwrap();
            if sender.send(serde_json::from_slice(&body).unwrap()).is_err() {
                return;
            }
        }
    });
    (url, bodies)
}

#[test]
fn slack_gets_a_message_for_each_change_of_level() {
    if !have("python3") {
        return;
    }
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active"]);
    let (url, bodies) = receiver();
    let program = recipe("slack.py").display().to_string();
    let mut watch = command(&server, &["watch", "--exec", "--", &program])
        .env("SLACK_WEBHOOK", url)
        .env("PATH", installed())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The state at the start is no change, so the first message shows that the watch is open.
    let mut first = bodies.try_recv();
    let start = std::time::Instant::now();
    for level in ["blocked", "active"].into_iter().cycle() {
        if first.is_ok() {
            break;
        }
        assert!(start.elapsed() < DEADLINE, "no message came");
        ok(&server, &["report", "web/0", "--level", level, "-m", "no \"database\""]);
        first = bodies
            .recv_timeout(std::time::Duration::from_secs(1))
            .map_err(|_| std::sync::mpsc::TryRecvError::Empty);
    }
    let message = first.unwrap()["text"].as_str().unwrap().to_string();
    assert!(message.starts_with("web is ") && message.contains(", was "), "{message}");
    assert!(message.ends_with("no \"database\""), "{message}");
    ok(&server, &["delete", "web"]);
    let gone = literal!({"text": "web is deleted"});
    while bodies.recv_timeout(DEADLINE).unwrap() != gone {}
    watch.kill().unwrap();
    watch.wait().unwrap();
}

/// Runs the command of the line for cron as cron does: by `sh`, with the environment of the file.
#[test]
fn the_check_reports_from_cron() {
    let server = Server::ephemeral();
    let cron = text("check-disk.cron");
    let line = cron.lines().find(|line| line.starts_with("*/5")).unwrap();
    let fields: Vec<&str> = line.splitn(7, ' ').collect();
    assert!(cron.lines().any(|line| line.starts_with("PATH=/usr/local/bin")), "{cron}");
    let run = |needs: &str| {
        let output = Command::new("/bin/sh")
            .args(["-c", fields[6]])
            .env_clear()
            .env("PATH", installed())
            .env("BELLWETHER_SERVER", server.url())
            .env("NEEDS", needs)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", said(&output));
        json(&server, &["why", "host", "-o", "json"])
    };
    let well = run("1");
    assert_eq!(well["application"]["status"]["level"], "LEVEL_ACTIVE", "{well}");
    let full = run("999999999999").to_string();
    assert!(full.contains("remove files below /var") && full.contains("LEVEL_BLOCKED"), "{full}");
}

#[test]
fn the_units_of_systemd_are_valid() {
    if !Path::new("/usr/bin/systemd-analyze").is_file() {
        eprintln!("SKIPPED: systemd-analyze is missing");
        return;
    }
    let verify = ["verify", "--man=no", "--recursive-errors=no"];
    let output = Command::new("systemd-analyze")
        .args(verify)
        .args([recipe("check-disk.timer"), recipe("check-disk.service")])
        .output()
        .unwrap();
    // Only the program may be missing, which is not installed here.
    let complaints = said(&output);
    let other = complaints.lines().find(|line| {
        line.contains("check-disk") && !line.contains("is not executable: No such file")
    });
    assert_eq!(other, None, "{complaints}");
    let service = text("check-disk.service");
    let command = service.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    assert!(command.starts_with("/usr/local/bin/check-disk host/"), "{command}");
}

#[test]
fn the_program_in_go_reports() {
    if Command::new("go").arg("version").output().is_err() {
        eprintln!("SKIPPED: go is missing");
        return;
    }
    let server = Server::ephemeral();
    let output = Command::new("go")
        .args(["run", "./examples/report", &server.grpc.to_string(), "shop/0", "12 orders today"])
        .env("GOPROXY", "off")
        .current_dir(root().join("clients/go"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(ok(&server, &["status"]).contains("12 orders today"));
}

#[test]
fn the_page_in_typescript_follows() {
    let driver = root().join(".tools/browser/node_modules/playwright-core/package.json");
    if !have("node") || !have(driver.to_str().unwrap()) || !have("chromium") {
        return;
    }
    let page = std::fs::read_to_string(root().join("docs/recipes.md")).unwrap();
    let recipe = text("watch.ts");
    assert!(page.contains(&recipe), "docs/recipes.md has another watch.ts");
    let lines = recipe.lines().filter(|line| !line.is_empty()).count();
    assert!(lines <= 12, "{lines} lines");
    let server = Server::ephemeral();
    ok(&server, &["report", "web/0", "--level", "active", "-m", "serves"]);
    let mut browser = Command::new("node")
        .arg(root().join("tests/interop/recipe_watch.mjs"))
        .arg(server.grpc.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(browser.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "web is active: serves");
    ok(&server, &["report", "web/0", "--level", "blocked", "-m", "no database"]);
    assert_eq!(lines.next().unwrap().unwrap(), "web is blocked: no database");
    assert!(browser.wait().unwrap().success());
}

#[test]
fn pip_installs_the_package() {
    let python = root().join(".tools/venv/bin/python");
    if !have(python.to_str().unwrap()) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("python");
    let copied =
        Command::new("cp").arg("-r").arg(root().join("clients/python")).arg(&copy).status();
    assert!(copied.unwrap().success());
    let target = folder.path().join("installed");
    // The build backend is there already, so that no index is asked.
    let output = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--target"])
        .args([&target, &copy])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let server = Server::ephemeral();
    let page = std::fs::read_to_string(root().join("docs/recipes.md")).unwrap();
    let program = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let output = Command::new("python3")
        .args(["-c", &program.replace("http://127.0.0.1:50051", &server.url())])
        .env("PYTHONPATH", &target)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(ok(&server, &["status"]).contains("12 orders today"));
}

/// Puts the arguments of the service into the command, as Nagios does.
#[test]
fn the_command_of_nagios_has_its_exit_codes() {
    let server = Server::ephemeral();
    let configuration = text("nagios.cfg");
    let value = |key: &str| {
        let mut lines = configuration.lines().map(str::trim);
        let line = lines.find_map(|line| line.strip_prefix(key)).unwrap();
        line.trim().to_string()
    };
    let service = value("check_command ");
    let arguments: Vec<&str> = service.split('!').collect();
    assert_eq!(arguments[0], value("command_name "));
    let mut line = value("command_line ").replace("/usr/local/bin/bellwether", BINARY);
    for (n, argument) in arguments.iter().enumerate().skip(1) {
        line = line.replace(&format!("$ARG{n}$"), argument);
    }
    let line = line.replace("127.0.0.1:50051", &server.grpc.to_string());
    for (level, code, word) in
        [("active", 0, "OK"), ("waiting", 1, "WARNING"), ("error", 2, "CRITICAL")]
    {
        ok(&server, &["report", "web/0", "--level", level, "-m", "m"]);
        let output = Command::new("sh").args(["-c", &line]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", said(&output));
        assert!(said(&output).starts_with(word), "{}", said(&output));
    }
}

#[test]
fn prometheus_scrapes_the_ops_port_and_the_dashboard_is_there() {
    let configuration: Value = yaml_serde::from_str(&text("prometheus.yml")).unwrap();
    let job = &configuration["scrape_configs"][0];
    assert_eq!(job["static_configs"][0]["targets"][0], "127.0.0.1:9090");
    let files = root().join("helm-chart/files");
    let rules = configuration["rule_files"][0].as_str().unwrap();
    assert!(files.join(rules).is_file(), "{rules}");
    let dashboard = std::fs::read_to_string(files.join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    assert!(!dashboard["panels"].as_array().unwrap().is_empty());
}
