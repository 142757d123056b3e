//! Contexts of the command line: a file with servers, namespaces and credentials under names.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::cli_commands::alone;
use crate::server::{BINARY, Server, eventually};

#[test]
fn a_context_chooses_server_namespace_and_credentials() {
    let server = Server::ephemeral();
    let other = Server::ephemeral();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("new/contexts.toml");
    let variables = [("BELLWETHER_CONTEXTS", file.to_str().unwrap())];
    let ok = |line: &[&str]| {
        let (code, out, err) = alone(line, &variables);
        assert_eq!(code, Some(0), "{line:?}: {err}");
        out
    };
    let refused = |line: &[&str]| {
        let (code, _, err) = alone(line, &variables);
        assert_eq!(code, Some(2), "{line:?}: {err}");
        err
    };
    assert!(refused(&["--context", "here", "status"]).contains("it has none"));
    ok(&["context", "set", "here", "--server", &server.url(), "-n", "prod"]);
    ok(&["context", "set", "there", "--server", &other.url(), "--token-file", "/none/token"]);
    ok(&["report", "web/0", "--level", "active"]);
    assert!(ok(&["-n", "prod", "--server", &server.url(), "status"]).contains("web"));
    let list: Value = serde_json::from_str(&ok(&["context", "list", "-o", "json"])).unwrap();
    assert_eq!(list["contexts"][0]["current"], true);
    assert_eq!(list["contexts"][1]["token_file"], "/none/token");
    let table = ok(&["context", "list"]);
    assert!(table.contains("here*") && table.contains("token"), "{table}");
    assert!(refused(&["--context", "nowhere", "status"]).contains("it has here, there"));
    // The token of a context goes to no other server, and a given one comes first.
    ok(&["context", "use", "there"]);
    let (code, _, err) = alone(&["status"], &variables);
    assert!(code != Some(0) && err.contains("/none/token"), "{code:?}: {err}");
    ok(&["status", "--server", &other.url()]);
    let token = directory.path().join("token");
    std::fs::write(&token, "a-token\n").unwrap();
    ok(&["status", "--token-file", token.to_str().unwrap()]);
    // A command that calls no server works without the file.
    std::fs::write(&file, "current = 5").unwrap();
    assert!(refused(&["status"]).contains("contexts.toml"));
    ok(&["explain", "LEASE_HELD"]);
    std::fs::remove_file(&file).unwrap();
    ok(&["context", "set", "here", "--server", &server.url()]);
    ok(&["context", "remove", "here"]);
    let (code, ..) = alone(&["context", "remove", "here"], &variables);
    assert_eq!(code, Some(3));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn a_command_of_watch_uses_the_credentials_of_its_context() {
    let server = Server::ephemeral();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("token"), "a-token\n").unwrap();
    let file = path("contexts.toml");
    let variables = [("BELLWETHER_CONTEXTS", file.as_str())];
    let url = server.url();
    let set = ["context", "set", "here", "--server", &url, "--token-file", &path("token")];
    assert_eq!(alone(&set, &variables).0, Some(0));
    assert_eq!(alone(&["report", "web/0", "--level", "active"], &variables).0, Some(0));
    // The command ends itself, and with it the watch, after it has written what it got.
    let script = "echo $BELLWETHER_SERVER $BELLWETHER_TOKEN_FILE > $0.new; mv $0.new $0";
    let line = ["watch", "--exec", "--", "sh", "-c", script, &path("seen")];
    let mut watch = Command::new(BINARY);
    let mut watch =
        watch.args(line).env_remove("BELLWETHER_SERVER").envs(variables).spawn().unwrap();
    let read = async || std::fs::read_to_string(path("seen")).ok();
    let seen = eventually("the command runs", read).await;
    watch.kill().unwrap();
    watch.wait().unwrap();
    assert_eq!(seen.trim(), format!("{url} {}", path("token")));
}
