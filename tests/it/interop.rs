//! Clients in other languages: grpcurl, Python over reflection, the Python package, a client
//! generated from the OpenAPI file, grpc_health_probe, buf, connect-go, connect-es, generated Go, a
//! browser, plain HTTP. The programs are in `tests/interop/`; `tools/install` installs their
//! dependencies.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::{BINARY, Server};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns a path with the tools of this repository before those of the machine.
pub fn path() -> String {
    let bin = root().join(".tools/bin");
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

/// Returns true if a tool is installed. Prints a warning if it is missing; in CI that is a failure.
pub fn have(tool: &str) -> bool {
    let found = std::env::split_paths(&path()).any(|dir| dir.join(tool).is_file())
        || Path::new(tool).is_file();
    let ci = std::env::var_os("CI").is_some();
    assert!(found || !ci, "{tool} is missing, and in CI nothing is skipped");
    if !found {
        eprintln!("SKIPPED: {tool} is missing; run tools/install");
    }
    found
}

fn run(program: &str, script: Option<PathBuf>, server: &Server) {
    let output = Command::new(program)
        .args(script)
        .arg(server.grpc.to_string())
        .env("PATH", path())
        .env("BELLWETHER_BINARY", BINARY)
        .current_dir(root())
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{program}: {}\n{}\n{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

#[test]
fn the_example_runs_health_scripts() {
    if have("argo-health-test") {
        let folder = root().join("examples/argo-health");
        let tests = root().join(".tools/bin/argo-health-test");
        let output = Command::new(tests).current_dir(folder).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn grpcurl_lists_describes_and_calls_every_method() {
    if have("grpcurl") {
        let script = root().join("tests/interop/grpcurl.sh");
        run("bash", Some(script), &Server::ephemeral());
    }
}

#[test]
fn the_go_clients_report_and_watch() {
    if have("go-clients") {
        run("go-clients", None, &Server::ephemeral());
    }
}

#[test]
fn the_go_clients_are_what_the_protos_generate() {
    if have("buf") && have("protoc-gen-go") {
        let script = root().join("tools/clients");
        let output = Command::new(script).arg("--check").output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn a_python_client_needs_nothing_but_reflection() {
    let python = root().join(".tools/venv/bin/python");
    let python = python.to_str().unwrap();
    if have(python) {
        run(python, Some(root().join("tests/interop/client.py")), &Server::ephemeral());
    }
}

#[test]
fn a_python_worker_is_asked_and_answers() {
    let python = root().join(".tools/venv/bin/python");
    let python = python.to_str().unwrap();
    if have(python) {
        run(python, Some(root().join("tests/interop/worker.py")), &Server::ephemeral());
    }
}

#[test]
fn the_python_package_passes_its_tests() {
    if have("python3") {
        let script = root().join("tests/interop/python_client.py");
        run("python3", Some(script), &Server::ephemeral());
    }
}

#[test]
fn a_client_generated_from_the_openapi_file_calls_every_operation() {
    let python = root().join(".tools/openapi/bin/python");
    let python = python.to_str().unwrap();
    if have(python) {
        run(python, Some(root().join("tests/interop/openapi.py")), &Server::ephemeral());
    }
}

#[test]
fn grpc_health_probe_follows_the_level() {
    if have("grpc_health_probe") {
        let script = root().join("tests/interop/health_probe.sh");
        run("bash", Some(script), &Server::ephemeral());
    }
}

/// Screenshots are in `target/tmp/page`.
#[test]
fn a_browser_shows_the_status_page_live() {
    let driver = root().join(".tools/browser/node_modules/playwright-core/package.json");
    if !have("node") || !have(driver.to_str().unwrap()) || !have("chromium") {
        return;
    }
    let shots = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page");
    std::fs::create_dir_all(&shots).unwrap();
    let output = Command::new("node")
        .arg(root().join("tests/interop/page.mjs"))
        .arg(BINARY)
        .arg(&shots)
        .current_dir(root())
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    println!("{said}");
    assert!(output.status.success(), "{}", output.status);
}

#[test]
fn buf_curl_calls_by_two_protocols() {
    if have("buf") {
        let script = root().join("tests/interop/buf_curl.sh");
        run("bash", Some(script), &Server::ephemeral());
    }
}

#[test]
fn connect_go_calls_and_follows() {
    if have("connect-go-client") {
        run("connect-go-client", None, &Server::ephemeral());
    }
}

#[test]
fn connect_es_calls_and_follows() {
    let library = root().join(".tools/connect-es/node_modules/@connectrpc/connect/package.json");
    if have("node") && have(library.to_str().unwrap()) {
        let script = root().join("tests/interop/connect_es.mjs");
        run("node", Some(script), &Server::ephemeral());
    }
}

#[test]
fn node_calls_and_follows_without_a_library() {
    if have("node") {
        let script = root().join("tests/interop/connect.mjs");
        run("node", Some(script), &Server::ephemeral());
    }
}

#[test]
fn python_calls_with_its_standard_library_alone() {
    if have("python3") {
        let script = root().join("tests/interop/connect.py");
        run("python3", Some(script), &Server::ephemeral());
    }
}
