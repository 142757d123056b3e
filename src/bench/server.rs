//! This very binary as a server, in a process of its own as a user would run it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde::Deserialize;

use crate::bench::process::{self, Process};

/// Where a server remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    /// On disk, fsync before each acknowledgement
    Embedded,
    /// In memory
    Memory,
}

/// A running server.
pub struct Server {
    /// Where it speaks gRPC.
    pub grpc: SocketAddr,
    _process: Process,
}

impl Server {
    /// Starts `bellwether serve` with its data under `parent`.
    pub async fn start(store: Store, parent: &Path) -> anyhow::Result<Server> {
        let directory = process::directory(parent)?;
        let data = directory.path().join("data");
        let mut command = own_binary()?;
        command.args(["serve", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"]);
        command.args(["--print-addresses", "json"]);
        match store {
            Store::Embedded => command.arg("--data-dir").arg(data),
            Store::Memory => command.args(["--store", "memory"]),
        };
        Server::reached(Process::start(command, directory)?).await.context("start our server")
    }

    /// Starts the plain tonic echo.
    pub async fn start_echo(parent: &Path) -> anyhow::Result<Server> {
        let mut command = own_binary()?;
        command.args(["bench", "echo-server"]);
        let process = Process::start(command, process::directory(parent)?)?;
        Server::reached(process).await.context("start the echo server")
    }

    async fn reached(mut process: Process) -> anyhow::Result<Server> {
        let line = process.line().await?;
        Ok(Server { grpc: parse_addresses(&line)?, _process: process })
    }
}

/// This binary, without what the environment says about a server: it is meant for the user's own.
fn own_binary() -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("find this program's file")?);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("BELLWETHER_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

#[derive(Deserialize)]
struct Addresses {
    grpc: SocketAddr,
}

/// The gRPC address in what `--print-addresses json` prints. Other ports are not ours to know.
fn parse_addresses(line: &str) -> anyhow::Result<SocketAddr> {
    let addresses: Addresses = serde_json::from_str(line)
        .with_context(|| format!("read the addresses that it printed: {:?}", line.trim_end()))?;
    Ok(addresses.grpc)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_line_is_read() {
        for line in [
            "{\"grpc\":\"127.0.0.1:1234\",\"ops\":\"127.0.0.1:5678\"}\n",
            "{\"http\":null,\"grpc\":\"127.0.0.1:1234\"}",
        ] {
            assert_eq!(parse_addresses(line).unwrap(), ([127, 0, 0, 1], 1234).into());
        }
    }

    #[test]
    fn another_line_is_quoted() {
        for line in ["listening on 127.0.0.1:1234\n", "{\"ops\":\"127.0.0.1:1\"}", "{\"grpc\":1}"] {
            let error = parse_addresses(line).unwrap_err().to_string();
            assert!(error.contains(&format!("{:?}", line.trim_end())), "{error}");
        }
    }
}
