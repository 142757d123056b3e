//! The password of the store is read from places that others cannot see, and is never shown. The
//! server warns about a data directory that others can read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use bellwether::proto::v1::Level;

use crate::load::insist;
use crate::server::{BINARY, Server, command, eventually, get, mk_report};
use crate::testing::RedisServer;

const PASSWORD: &str = "hunter2";

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    file
}

/// Returns the output of a server that must not start.
fn refused(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    assert!(!said.contains(PASSWORD), "{said}");
    said
}

#[test]
fn no_mistake_shows_the_password() {
    let url = format!("redis://user:{PASSWORD}@host");
    let mut both = command(&["--ephemeral"]);
    both.env("BELLWETHER_STORE", &url);
    assert!(refused(both).contains("--ephemeral is --store memory, but --store *** is given too"));
    for (store, words) in [
        (format!("redis:/user:{PASSWORD}@host"), "store \"***\" is not known"),
        (format!("user:{PASSWORD}@redis://host"), "store URL starts with \"***\""),
        (format!("redis://user:{PASSWORD}"), "store URL has \"user:***\" where host:port"),
        (format!("redis://user:%zz{PASSWORD}@host"), "write it as %25"),
        (format!("redis://host/{PASSWORD}"), "write it as %2F"),
    ] {
        let said = refused(command(&["--store", &store]));
        assert!(said.contains(words), "{store}: {said}");
        let mut doctor = Command::new(BINARY);
        doctor.args(["doctor", "--store", &store]);
        assert!(refused(doctor).contains(words), "{store}");
    }
    for (line, column, text) in [
        (1, 45, format!("store = \"redis://user:{PASSWORD}@host/0\" and\n")),
        (1, 36, format!("store = \"redis://user:{PASSWORD}@host\n")),
        (2, 1, format!("insecure = true\nstroe = \"{url}\"\n")),
        (1, 9, format!("store = [\"{url}\"]\n")),
        (1, 13, format!("ephemeral = \"{url}\"\n")),
        (1, 1, format!("store_password = \"{PASSWORD}\"\n")),
    ] {
        let file = file(&text);
        let said = refused(command(&["--config", file.path().to_str().unwrap()]));
        assert!(said.contains(&format!(", line {line}, column ")), "{column} {text}: {said}");
    }
    // The error names the mistake where no password can be.
    let file = file("[limits]\nunits_max = 'many'\n");
    let said = refused(command(&["--config", file.path().to_str().unwrap()]));
    assert!(said.contains("line 2, column 13: invalid type: string \"many\""), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_of_any_characters_comes_by_file_variable_or_url() {
    let password = "p@s/s#w?o%rd";
    let Some(redis) = RedisServer::start().await else { return };
    let set: String = redis.call(&["CONFIG", "SET", "requirepass", password]).await.unwrap();
    assert_eq!(set, "OK");
    let bare = format!("redis://127.0.0.1:{}", redis.port);
    let text = file(&format!("{password}\n"));
    let path = text.path().to_str().unwrap();
    let mut variable = command(&["--store", &bare]);
    variable.env("BELLWETHER_STORE_PASSWORD", password);
    let mut variable_and_file = command(&["--store", &bare, "--store-password-file", path]);
    variable_and_file.env("BELLWETHER_STORE_PASSWORD", password);
    let config = file(&format!("store = '{bare}'\nstore_password_file = '{path}'\n"));
    // Only `%` must be encoded in a URL: the last `@` ends the password.
    let url = format!("redis://:{}@127.0.0.1:{}", password.replace('%', "%25"), redis.port);
    for (n, command) in [
        command(&["--store", &bare, "--store-password-file", path]),
        variable,
        command(&["--config", config.path().to_str().unwrap()]),
        command(&["--store", &url]),
    ]
    .into_iter()
    .enumerate()
    {
        let server = Server::spawn(command);
        insist(&server, mk_report("web", "web/0", Level::Active, &n.to_string())).await;
    }
    let said = refused(variable_and_file);
    assert!(said.contains("by store_password_file and by BELLWETHER_STORE_PASSWORD"), "{said}");
    let said = refused(command(&["--store", &url, "--store-password-file", path]));
    assert!(said.contains("by the URL and by store_password_file"), "{said}");
    let empty = file("\n");
    let empty = empty.path().to_str().unwrap();
    let said = refused(command(&["--store", &bare, "--store-password-file", empty]));
    assert!(said.contains("has no password; write one line into it"), "{said}");
}

/// Starts a server that writes its log into a file.
fn logging(mut command: Command) -> (Server, tempfile::NamedTempFile) {
    let log = tempfile::NamedTempFile::new().unwrap();
    command.stderr(log.reopen().unwrap());
    (Server::spawn(command), log)
}

async fn warned(log: &Path, part: &str) -> String {
    eventually(part, async || {
        let text = std::fs::read_to_string(log).unwrap();
        text.lines()
            .find(|line| line.contains("\"WARN\"") && line.contains(part))
            .map(str::to_string)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_on_the_command_line_is_warned_of() {
    let Some(redis) = RedisServer::start_with(&["--requirepass", PASSWORD]).await else { return };
    let url = format!("redis://:{PASSWORD}@127.0.0.1:{}", redis.port);
    let (server, log) = logging(command(&["--store", &url]));
    warned(log.path(), "the command line shows the password of the store").await;
    drop(server);
    let mut variable = command(&[]);
    variable.env("BELLWETHER_STORE", &url);
    let (server, quiet) = logging(variable);
    insist(&server, mk_report("web", "web/0", Level::Active, "up")).await;
    for log in [log, quiet] {
        let text = std::fs::read_to_string(log.path()).unwrap();
        assert!(!text.contains(PASSWORD), "{text}");
        assert!(log.path().exists());
    }
}

#[tokio::test]
async fn a_data_directory_that_is_open_to_others_is_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, can) in [(0o777, "change"), (0o755, "read")] {
        std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).unwrap();
        let data = dir.path().to_str().unwrap();
        let (server, log) = logging(command(&["--data-dir", data]));
        let said = warned(log.path(), &format!("mode {mode:04o}")).await;
        assert!(said.contains(&format!("can {can} it")), "{said}");
        drop(server);
    }
    let made = dir.path().join("new").join("data");
    let (server, log) = logging(command(&["--data-dir", made.to_str().unwrap()]));
    for made in [made.as_path(), made.parent().unwrap()] {
        let mode = std::fs::metadata(made).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", made.display());
    }
    drop(server);
    assert!(!std::fs::read_to_string(log.path()).unwrap().contains("has mode"));
}

/// The test kills the server with `kill -9` and damages the record of the newest commit on disk.
#[tokio::test]
async fn a_damaged_newest_transaction_is_logged_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().to_str().unwrap().to_string();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o700)).unwrap();
    let server = Server::on(dir.path());
    let mut reports = server.reports().await;
    for word in ["one", "two"] {
        reports.report_status(mk_report("web", "web/0", Level::Active, word)).await.unwrap();
    }
    server.kill();
    let path = dir.path().join("bellwether.redb");
    let mut bytes = std::fs::read(&path).unwrap();
    let newest = if bytes[9] & 1 == 0 { 64 } else { 192 };
    bytes[newest + 40] ^= 0x55;
    std::fs::write(&path, bytes).unwrap();
    let (server, log) = logging(command(&["--data-dir", &data]));
    warned(log.path(), "the newest transaction of the database is damaged").await;
    let mut applications = server.applications().await;
    let web = applications.get_application(get("web")).await.unwrap().into_inner();
    assert_eq!(web.application.unwrap().status.unwrap().message, "two");
    server.kill();
    // The message appears once: the next start has no transaction to discard.
    let (server, log) = logging(command(&["--data-dir", &data]));
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "web/0", Level::Active, "two")).await.unwrap();
    assert!(!std::fs::read_to_string(log.path()).unwrap().contains("is damaged"));
}
