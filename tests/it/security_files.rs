//! Files of tokens and roles that are empty, cut or no files at all: the previous ones stay in
//! force, an ERROR line and the metrics say so, and other files are read as before.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use bellwether_client::Client;

use crate::authority::EVERYTHING;
use crate::identities::{TokenFile, bearer};
use crate::ops::fetch;
use crate::server::{BINARY, Server, command, eventually, get, reason};

/// A server with a file of tokens and one of roles, and its log.
struct Stage {
    tokens: TokenFile,
    server: Server,
    log: PathBuf,
}

impl Stage {
    fn set(tokens: TokenFile) -> Stage {
        let roles = tokens.write("roles.toml", EVERYTHING).display().to_string();
        let path = tokens.path();
        let mut command = command(&["--ephemeral", "--tokens", &path, "--roles", &roles]);
        let log = tokens.write("log", "");
        command.stderr(File::create(&log).unwrap());
        Stage { server: Server::spawn(command), tokens, log }
    }

    /// Puts a file in the place of another at once: the server never reads a half of it.
    fn put(&self, name: &str, text: &str) {
        let new = self.tokens.write(&format!("{name}.new"), text);
        std::fs::rename(&new, new.with_file_name(name)).unwrap();
    }

    fn metric(&self, name: &str) -> Option<u64> {
        let metrics = fetch(self.server.ops, "/metrics").1;
        let mut lines = metrics.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// Waits until this number of sets of files is stale.
    async fn has_stale(&self, count: u64) {
        eventually("the files are looked at", async || {
            self.server.signal("HUP");
            (self.metric("bellwether_security_stale_files")? == count).then_some(())
        })
        .await;
    }

    fn errors(&self) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap();
        log.lines().filter(|line| line.contains("ERROR") && line.contains("previous ones")).count()
    }

    /// Returns the reason with which a caller is refused; empty: it is served.
    async fn refusal(&self, client: &Client) -> String {
        let answer = client.applications().get_application(client.request(get("web"))).await;
        match answer.map_err(|status| reason(&status)) {
            Err(reason) if reason != "APPLICATION_NOT_FOUND" => reason,
            _ => String::new(),
        }
    }
}

async fn client(stage: &Stage, token: &std::path::Path) -> Client {
    Client::connect_with(&stage.server.url(), bearer(token)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_or_cut_file_of_tokens_changes_nothing() {
    let tokens = TokenFile::new();
    let [first, second] = ["first", "second"].map(|id| tokens.create(id, "1h"));
    let stage = Stage::set(tokens);
    let (first, second) = (client(&stage, &first).await, client(&stage, &second).await);
    let whole = std::fs::read_to_string(stage.tokens.path()).unwrap();
    let between = whole.match_indices("\n[").nth(1).unwrap().0;
    let before_end = whole.rfind("\n[").unwrap();
    let parts = ["", " \n\n", "# a comment\n", &whole[..between], &whole[..before_end]];
    for (at, part) in parts.into_iter().enumerate() {
        stage.put("tokens.toml", part);
        stage.has_stale(1).await;
        assert_eq!(stage.refusal(&first).await, "", "{part:?}");
        assert_eq!(stage.refusal(&second).await, "", "{part:?}");
        assert_eq!(stage.errors(), at + 1, "one line for each change");
        stage.put("tokens.toml", &whole);
        stage.has_stale(0).await;
    }
    // The command line says that no token is meant.
    for id in ["first", "second"] {
        stage.tokens.revoke(id);
    }
    eventually("all are refused", async || {
        (stage.refusal(&second).await == "CREDENTIALS_INVALID").then_some(())
    })
    .await;
    assert_eq!(stage.metric("bellwether_security_stale_files"), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pipe_in_the_place_of_a_file_ends_no_reload_of_others() {
    let tokens = TokenFile::new();
    let token = tokens.create("first", "1h");
    let stage = Stage::set(tokens);
    let first = client(&stage, &token).await;
    let path = stage.tokens.path();
    let pipe = format!("{path}.pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::fs::rename(&pipe, &path).unwrap();
    stage.has_stale(1).await;
    assert_eq!((stage.refusal(&first).await, stage.errors()), (String::new(), 1));
    eventually("the last good look is seconds ago", async || {
        let age = stage.metric(r#"bellwether_security_files_age_seconds{files="tokens"}"#)?;
        (2 <= age).then_some(())
    })
    .await;
    stage.put("roles.toml", &EVERYTHING.replace("\"*\"]", "\"token:other\"]"));
    eventually("the grant is removed", async || {
        (stage.refusal(&first).await == "SCOPE_DENIED").then_some(())
    })
    .await;
    let age = stage.metric(r#"bellwether_security_files_age_seconds{files="roles"}"#);
    assert!(age.is_some_and(|age| age < 60), "{age:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_file_of_roles_takes_no_grant_if_it_was_closed() {
    let tokens = TokenFile::new();
    let token = tokens.create("first", "1h");
    let stage = Stage::set(tokens);
    let first = client(&stage, &token).await;
    let closed = format!("{EVERYTHING}\n[end]\nentries = 2\n");
    stage.put("roles.toml", &closed);
    stage.has_stale(0).await;
    eventually("it is read", async || {
        let log = std::fs::read_to_string(&stage.log).unwrap();
        log.contains("read changed contents").then_some(())
    })
    .await;
    let cut = closed.rfind("[[grant]]").unwrap();
    for part in [&closed[..cut], EVERYTHING, "# empty\n"] {
        stage.put("roles.toml", part);
        stage.has_stale(1).await;
        assert_eq!(stage.refusal(&first).await, "", "{part:?}");
        stage.put("roles.toml", &closed);
        stage.has_stale(0).await;
    }
}

#[test]
fn a_server_without_a_token_starts_only_if_that_is_meant() {
    let tokens = TokenFile::new();
    let roles = tokens.write("roles.toml", EVERYTHING).display().to_string();
    let path = tokens.write("tokens.toml", "# none\n").display().to_string();
    let (code, text) =
        crate::server::refused(&["--ephemeral", "--tokens", &path, "--roles", &roles]);
    assert!(code == Some(1) && text.contains("revoked_all"), "{code:?} {text}");
    let create = || {
        let line = ["token", "create", "a", "--tokens", &path];
        let output = Command::new(BINARY).args(line).output().unwrap();
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (is_made, text) = create();
    assert!(!is_made && text.contains("it has no token"), "{text}");
    tokens.write("tokens.toml", "revoked_all = true\n");
    let _server = Server::spawn(command(&["--ephemeral", "--tokens", &path, "--roles", &roles]));
    assert!(create().0);
    assert!(!std::fs::read_to_string(&path).unwrap().contains("revoked_all"));
}
