//! Servers in processes of their own: `bellwether serve` as a user runs it, and the plain echo.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use crate::process::{self, Process};
use crate::site::Site;

/// The store of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On disk, in its own directory.
    Embedded,
    /// In memory.
    Memory,
    /// In the Redis of this URL.
    Redis(String),
}

/// A running server.
pub struct Server {
    /// The address for gRPC.
    pub grpc: SocketAddr,
    /// The ops address; the echo has none.
    pub ops: Option<SocketAddr>,
    process: Process,
}

impl Server {
    /// Starts `bellwether serve` with its data in the directory of the site.
    pub async fn start(place: &Place, site: &Site) -> anyhow::Result<Server> {
        Server::start_with(place, "", site).await
    }

    /// Starts the server with this configuration file, in TOML.
    pub async fn start_with(place: &Place, file: &str, site: &Site) -> anyhow::Result<Server> {
        let directory = process::directory(&site.directory)?;
        eprintln!("The load comes from one address, so the server allows one address all of it.");
        let path = directory.path().join(CONFIGURATION);
        std::fs::write(&path, with_raised_shares(file)).context("write a configuration file")?;
        let command = serve(place, directory.path(), site);
        Server::reached(Process::start(command, directory)?).await.context("start our server")
    }

    /// Kills the server with SIGKILL and starts it again with its data and its configuration.
    pub async fn crash(&mut self, place: &Place, site: &Site) -> anyhow::Result<()> {
        let command = serve(place, self.process.directory(), site);
        self.process.replace(command)?;
        let line = self.process.line().await.context("start our server again")?;
        let Addresses { grpc, ops } = parse_addresses(&line)?;
        (self.grpc, self.ops) = (grpc, ops);
        Ok(())
    }

    /// Starts a server in memory with these arguments and its own defaults.
    pub async fn start_as_is(arguments: &[String], site: &Site) -> anyhow::Result<Server> {
        let directory = process::directory(&site.directory)?;
        let mut command = command(&site.bellwether);
        command.args(["serve", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        command.args(["--print-addresses", "json", "--store", "memory"]).args(arguments);
        Server::reached(Process::start(command, directory)?).await.context("start our server")
    }

    /// Starts a relay of a server.
    pub async fn start_relay(upstream: &Server, site: &Site) -> anyhow::Result<Server> {
        let directory = process::directory(&site.directory)?;
        let path = directory.path().join(CONFIGURATION);
        std::fs::write(&path, with_raised_shares("")).context("write a configuration file")?;
        let mut command = command(&site.bellwether);
        command.args(["relay", "--upstream", &format!("http://{}", upstream.grpc)]);
        command.args(["--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        command.args(["--print-addresses", "json", "--config"]).arg(path);
        Server::reached(Process::start(command, directory)?).await.context("start a relay")
    }

    /// Returns the size of its log, in bytes.
    pub fn log_bytes(&self) -> u64 {
        self.process.log_bytes()
    }

    /// Returns the directory of its files.
    pub fn directory(&self) -> &Path {
        self.process.directory()
    }

    /// Fails if it has ended.
    pub fn check_running(&mut self) -> anyhow::Result<()> {
        self.process.check_running()
    }

    /// Starts the plain tonic echo, which is a command of this program.
    pub async fn start_echo(parent: &Path) -> anyhow::Result<Server> {
        let mut command = own_binary()?;
        command.arg("echo-server");
        let process = Process::start(command, process::directory(parent)?)?;
        Server::reached(process).await.context("start the echo server")
    }

    /// Returns the process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    async fn reached(mut process: Process) -> anyhow::Result<Server> {
        let line = process.line().await?;
        let Addresses { grpc, ops } = parse_addresses(&line)?;
        Ok(Server { grpc, ops, process })
    }
}

/// The name of the configuration file in the directory of a server.
const CONFIGURATION: &str = "bellwether.toml";

/// Returns the command of a server whose configuration and data are in `directory`.
fn serve(place: &Place, directory: &Path, site: &Site) -> Command {
    let mut command = command(&site.bellwether);
    command.args(["serve", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
    command.args(["--print-addresses", "json", "--config"]).arg(directory.join(CONFIGURATION));
    match place {
        Place::Embedded => command.arg("--data-dir").arg(directory.join("data")),
        Place::Memory => command.args(["--store", "memory"]),
        Place::Redis(url) => command.args(["--store", url]),
    };
    command
}

/// Returns a configuration file that allows one address and one principal as much as all together:
/// all load comes from this machine.
fn with_raised_shares(file: &str) -> String {
    const SESSIONS: &str = "[sessions]\n";
    const SHARE: &str = "[sessions]\nsessions_per_peer_max = 1000000\n";
    let file = match file.contains(SESSIONS) {
        true => file.replacen(SESSIONS, SHARE, 1),
        false => format!("{file}\n{SHARE}"),
    };
    // Without identities these would make the server count the calls of this machine too.
    let principals = match file.contains("[[jwt]]") {
        true => {
            "connections_per_principal_max = 1000000\ncalls_per_principal_max = 1000000\n\
             reports_per_second_per_principal_max = 100000000\n"
        }
        false => "",
    };
    format!(
        "{file}\n[limits]\n{principals}connections_max = 60000\n\
         connections_per_peer_max = 1000000\ncalls_per_connection_max = 4096\n\
         watch_streams_per_peer_max = 1000000\nanswer_bytes_per_connection_max = 268435456\n\
         answer_bytes_per_peer_max = 268435456\nanswer_bytes_max = 268435456\n"
    )
}

/// Returns a command for this program.
pub fn own_binary() -> anyhow::Result<Command> {
    Ok(command(&std::env::current_exe().context("find this program's file")?))
}

/// Returns a command without `BELLWETHER_*` variables, which are for the user's own server.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BELLWETHER_") {
            command.env_remove(name);
        }
    }
    command
}

#[derive(Deserialize)]
struct Addresses {
    grpc: SocketAddr,
    ops: Option<SocketAddr>,
}

/// Parses the output of `--print-addresses json`.
fn parse_addresses(line: &str) -> anyhow::Result<Addresses> {
    serde_json::from_str(line)
        .with_context(|| format!("read the addresses that it printed: {:?}", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_line_is_read() {
        let ops = Some(([127, 0, 0, 1], 5678).into());
        for (line, ops) in [
            ("{\"grpc\":\"127.0.0.1:1234\",\"ops\":\"127.0.0.1:5678\"}\n", ops),
            ("{\"http\":null,\"grpc\":\"127.0.0.1:1234\"}", None),
        ] {
            let addresses = parse_addresses(line).unwrap();
            assert_eq!(addresses.grpc, ([127, 0, 0, 1], 1234).into());
            assert_eq!(addresses.ops, ops);
        }
    }

    #[test]
    fn the_shares_are_in_every_file() {
        for file in ["", "[history]\nevents_max = 1", "[sessions]\nreplica_ttl_seconds = 9\n"] {
            let whole: toml::Table = with_raised_shares(file).parse().unwrap();
            assert_eq!(whole["sessions"]["sessions_per_peer_max"].as_integer(), Some(1_000_000));
            assert!(whole["limits"]["connections_per_peer_max"].is_integer(), "{file}");
        }
    }

    #[test]
    fn another_line_is_quoted() {
        for line in ["listening on 127.0.0.1:1234\n", "{\"ops\":\"127.0.0.1:1\"}", "{\"grpc\":1}"] {
            let error = parse_addresses(line).err().unwrap().to_string();
            assert!(error.contains(&format!("{:?}", line.trim_end())), "{error}");
        }
    }
}
