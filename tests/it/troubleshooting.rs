//! Each entry of docs/troubleshooting.md begins with what the program prints: the real program is
//! made to print it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::authority::Authority;
use crate::cli::{command, ok, run};
use crate::identities::TokenFile;
use crate::server::{BINARY, Server, eventually, refused};

const PAGE: &str = include_str!("../../docs/troubleshooting.md");

/// Returns the first lines of the entries.
fn entries() -> Vec<&'static str> {
    PAGE.lines().filter_map(|line| line.strip_prefix("### ")).collect()
}

/// Returns whether a line begins with the text of an entry, with anything for each `…`.
fn is_said(entry: &str, output: &str) -> bool {
    let is_there = |line: &str| {
        let mut rest = line;
        entry.split('…').map(str::trim).enumerate().all(|(n, part)| match rest.find(part) {
            Some(at) if n > 0 || at == 0 || !entry.starts_with("error") => {
                rest = &rest[at + part.len()..];
                true
            }
            _ => false,
        })
    };
    output.lines().any(is_there)
}

/// Collects what the program prints, and compares it with the page.
#[derive(Default)]
struct Printed(Vec<String>);

impl Printed {
    fn add(&mut self, output: Output) {
        let (out, err) = (output.stdout, output.stderr);
        self.0.push(format!("{}{}", String::from_utf8_lossy(&out), String::from_utf8_lossy(&err)));
    }

    /// Runs a command against a server.
    fn of(&mut self, server: &Server, line: &[&str]) {
        self.add(command(server, line).output().unwrap());
    }

    /// Runs a command against an address.
    fn at(&mut self, address: &str, line: &[&str]) {
        self.add(Command::new(BINARY).args(["--server", address]).args(line).output().unwrap());
    }

    /// Starts a server that must refuse to start.
    fn start(&mut self, line: &[&str]) {
        self.0.push(refused(line).1);
    }
}

#[test]
fn variable_parts_of_an_entry_fit_anything() {
    assert!(is_said("error: a … b", "x\nerror: a 17 b, and more"));
    assert!(!is_said("error: a … b", "error: b 17 a"));
    assert!(!is_said("error: a", "an error: a"));
    assert!(is_said("(1 stale !)", "web  active  (1 stale !)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_entry_is_what_the_program_prints() {
    let mut printed = Printed::default();
    addresses(&mut printed);
    callers(&mut printed);
    refusals(&mut printed).await;
    starts(&mut printed);
    let missing: Vec<&str> = entries()
        .into_iter()
        .filter(|entry| !printed.0.iter().any(|output| is_said(entry, output)))
        .collect();
    assert!(
        missing.is_empty(),
        "nothing printed these entries:\n{}\n\nprinted:\n{}",
        missing.join("\n"),
        printed.0.join("\n--\n")
    );
    println!("{} entries, each printed by one of {} commands", entries().len(), printed.0.len());
    assert!(entries().len() > 20, "the page has moved");
}

/// Wrong addresses, and a server with TLS.
fn addresses(printed: &mut Printed) {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = Server::ephemeral();
    printed.at(&format!("http://{closed}"), &["status"]);
    printed.at(&server.url().replace("http:", "https:"), &["status"]);
    printed.at(&format!("http://{}", server.ops), &["status"]);
    printed.at(&server.url().replace("http:", "grpc:"), &["status"]);
    let authority = Authority::new();
    let secured = authority.serve(&[]);
    printed.at(&secured.url(), &["status"]);
}

/// A caller without a token, with a wrong one, and without a grant.
fn callers(printed: &mut Printed) {
    let tokens = TokenFile::new();
    let reader = tokens.create("reader", "1h");
    let grant = "[[grant]]\nrole = \"reader\"\nto = [\"token:reader\"]\nnamespace = \"*\"\n\
                 application = \"*\"\n";
    let server = tokens.serve(grant);
    let wrong = tokens.write("wrong", "wrong\n");
    let path = |path: &Path| path.display().to_string();
    printed.of(&server, &["status"]);
    printed.of(&server, &["--token-file", &path(&wrong), "status"]);
    printed.of(&server, &["--token-file", "absent", "status"]);
    let report = ["report", "web/0", "--level", "active"];
    printed.of(&server, &[&["--token-file", &path(&reader)], &report[..]].concat());
}

/// Commands that a server without identities refuses.
async fn refusals(printed: &mut Printed) {
    let server = Server::ephemeral();
    let report = ["report", "web/0", "--level", "active"];
    ok(&server, &report);
    printed.of(&server, &["-n", "prod", "status"]);
    printed.of(&server, &["why", "wbe"]);
    printed.of(&server, &["report", "web", "--level", "active"]);
    printed.of(&server, &[&report[..], &["--ttl", "10ms"]].concat());
    printed.of(&server, &[&report[..], &["-m", &"m".repeat(5000)]].concat());
    printed.of(&server, &["report", "web/0", "--level", "blocked", "-m", "stuck"]);
    ok(&server, &["leader", "claim", "web/0"]);
    printed.of(&server, &["leader", "claim", "web/1"]);
    printed.of(&server, &["data", "set", "web/1", "a=b"]);
    ok(&server, &["remove", "web/1"]);
    printed.of(&server, &["report", "web/1", "--level", "active"]);
    ok(&server, &["register", "db/0"]);
    ok(&server, &["register", "db/0"]);
    printed.of(&server, &["report", "db/0", "--level", "active", "--incarnation", "1"]);
    ok(&server, &["op", "begin", "up-v2", "--to", "v2", "--unit", "api/0"]);
    printed.of(&server, &["op", "begin", "up-v3", "--to", "v3", "--unit", "api/1"]);
    let document = tempfile::NamedTempFile::new().unwrap();
    fs::write(document.path(), "{").unwrap();
    printed.of(&server, &["import", "juju", &document.path().display().to_string()]);

    ok(&server, &["-n", "quiet", "report", "web/0", "--level", "active", "--ttl", "1s"]);
    let is_stale = async || {
        let said = run(&server, &["-n", "quiet", "status"]).out;
        said.contains("stale").then_some(said)
    };
    printed.0.push(eventually("the unit is stale", is_stale).await);
    printed.of(&server, &["-n", "quiet", "wait", "web", "--timeout", "1s"]);
}

/// Servers that do not start, or warn.
fn starts(printed: &mut Printed) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    printed.start(&["--ephemeral", "--grpc-listen", &address]);
    printed.start(&["--ephemeral", "--grpc-listen", "0.0.0.0:0"]);

    let data = PathBuf::from(path("data"));
    open_to_all(&data);
    let _first = Server::on(&data);
    printed.start(&["--data-dir", &path("data")]);
    fs::write(path("file"), "").unwrap();
    printed.start(&["--data-dir", &path("file/below")]);
    printed.start(&["--ephemeral", "--tokens", &path("tokens.toml")]);
    fs::write(path("c.toml"), "grpc_lsten = \"127.0.0.1:0\"\n").unwrap();
    printed.start(&["--config", &path("c.toml")]);
    printed.start(&["--store", "redis://127.0.0.1:1"]);
}

#[test]
fn a_start_that_fails_says_its_cause_once_and_what_to_do() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, said) = refused(&["--ephemeral", "--grpc-listen", &address]);
    assert!(code == Some(1) && said.contains("stop the process that has it"), "{said}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let (code, said) = refused(&["--data-dir", file.join("below").to_str().unwrap()]);
    assert_eq!((code, said.matches("os error").count()), (Some(1), 1), "{said}");
}

/// Makes a folder that other users can read.
fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::create_dir(folder).unwrap();
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
}
