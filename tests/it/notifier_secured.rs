//! `bellwether notify` with certificates, tokens and grants, by the files that its page prints.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::authority::Authority;
use crate::cli::{Running, command};
use crate::http_receiver::HttpReceiver;
use crate::identities::TokenFile;
use crate::interop::{have, root};
use crate::notifier::{Site, told};
use crate::server::Server;

/// Returns the blocks of TOML of the page.
fn blocks() -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/notify.md")).unwrap();
    let blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(str::to_string).collect()
}

/// Runs `notify` with the file of a site; returns whether it succeeded, and what it said.
fn notify(site: &Site, more: &[&str]) -> (bool, String) {
    let server = Server::ephemeral();
    let mut command = command(&server, &["notify", "--config", &site.file("notify.toml")]);
    let output = command.args(more).current_dir(site.folder.path()).output().unwrap();
    (output.status.success(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_receivers_and_routes_of_the_page_are_a_file() {
    let authority = Authority::new();
    let site = Site::new("");
    let folder = site.folder.path();
    let put = |name: &str, from: &Path| std::fs::copy(from, folder.join(name)).unwrap();
    put("ca.pem", &authority.path("ca.pem"));
    put("pager.secret", &folder.join("secret"));
    std::fs::write(folder.join("am.token"), "t").unwrap();
    let block = blocks().remove(0);
    let text = block.replace("/etc/bellwether", folder.to_str().unwrap());
    std::fs::write(site.file("notify.toml"), text.replace("/usr/local/bin/tell", "/bin/true"))
        .unwrap();
    let (is_ok, said) = notify(&site, &["--check"]);
    assert!(is_ok && said.contains("3 receivers, 3 routes"), "{said}");
}

/// An HTTPS server in Python, and what it prints.
struct TlsReceiver {
    port: String,
    lines: BufReader<std::process::ChildStdout>,
    _process: Running,
}

impl TlsReceiver {
    fn start(authority: &Authority) -> Option<TlsReceiver> {
        let python = root().join(".tools/venv/bin/python");
        if !have(python.to_str().unwrap()) {
            return None;
        }
        let mut command = Command::new(python);
        command.arg(root().join("tests/interop/tls_receiver.py"));
        command.args([authority.path("server.pem"), authority.path("server.key")]);
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        let mut port = String::new();
        lines.read_line(&mut port).unwrap();
        Some(TlsReceiver { port: port.trim().to_string(), lines, _process: Running(process) })
    }

    fn posted(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

#[test]
fn a_receiver_with_tls_is_verified_and_gets_the_token() {
    let (authority, other) = (Authority::new(), Authority::new());
    let Some(mut receiver) = TlsReceiver::start(&authority) else { return };
    let with_ca = |ca: &Authority| {
        let to = format!(
            "[[to]]\nname = \"am\"\nalertmanager = \"https://localhost:{}\"\nca = \"{}\"\n\
             token_file = \"token\"\n[[route]]\nto = \"am\"\n",
            receiver.port,
            ca.text("ca.pem")
        );
        let site = Site::new(&to);
        std::fs::write(site.file("token"), "hunter2\n").unwrap();
        site
    };
    let (is_ok, said) = notify(&with_ca(&other), &["--test", "am"]);
    assert!(!is_ok && said.contains("certificate") && !said.contains("hunter2"), "{said}");
    let (is_ok, said) = notify(&with_ca(&authority), &["--test", "am"]);
    assert!(is_ok, "{said}");
    let posted = receiver.posted();
    assert_eq!(posted["path"], "/api/v2/alerts");
    assert_eq!(posted["authorization"], "Bearer hunter2");
    assert!(posted["body"].as_str().unwrap().contains("BellwetherApplication"), "{posted}");
}

#[test]
fn the_grants_of_the_page_are_enough_and_needed() {
    let grants = blocks().remove(1);
    let tokens = TokenFile::new();
    let notifier = tokens.create("notify", "1h").display().to_string();
    let worker = tokens.create("web", "1h").display().to_string();
    let of_worker = "[[grant]]\nrole = \"worker\"\nto = [\"token:web\"]\nnamespace = \"*\"\n\
                     application = \"web\"\nunit = \"*\"\n";
    let server = tokens.serve(&format!("{grants}{of_worker}"));
    let receiver = HttpReceiver::start();
    let site = Site::webhook(&receiver.url());
    let _notifier = site.start_as(&server, "one", &["--token-file", &notifier]);
    let line = ["report", "web/0", "--level", "error", "-m", "down", "--token-file", &worker];
    let reported = command(&server, &line).output().unwrap();
    assert!(reported.status.success(), "{}", String::from_utf8_lossy(&reported.stderr));
    receiver.until("a message", |posted| told(posted) == ["web problem error"]);
    // Without the grant for its own application, it ends and says what is missing.
    let reader = grants.split("[[grant]]").nth(1).unwrap();
    let server = tokens.serve(&format!("[[grant]]{reader}{of_worker}"));
    let mut line = command(&server, &["notify", "--config", &site.file("notify.toml")]);
    let output = line.args(["--token-file", &notifier]).current_dir(site.folder.path()).output();
    let said = String::from_utf8(output.unwrap().stderr).unwrap();
    assert!(said.contains("token:notify may not call") && said.contains("SCOPE_DENIED"), "{said}");
}
