//! One `redis-server` or `valkey-server` process.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{DEADLINE, LOOK_EVERY, available, command};

/// The maximum number of attempts to start a server whose port another process takes first.
const PORT_ATTEMPTS: usize = 20;

/// A running server. Dropping it kills it and removes its directory.
pub struct RedisServer {
    /// The port on 127.0.0.1.
    pub port: u16,
    program: &'static str,
    child: Child,
    arguments: Vec<String>,
    directory: TempDir,
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk.
    pub async fn start() -> Option<RedisServer> {
        RedisServer::start_with(&[]).await
    }

    /// Starts a server with more arguments, as in `&["--requirepass", "secret"]`.
    pub async fn start_with(arguments: &[&str]) -> Option<RedisServer> {
        RedisServer::start_in(|_| arguments.iter().map(|text| text.to_string()).collect()).await
    }

    /// Starts a server whose arguments depend on its directory.
    pub async fn start_in(arguments: impl Fn(&Path) -> Vec<String>) -> Option<RedisServer> {
        RedisServer::start_program("redis-server", arguments).await
    }

    /// Starts Valkey instead, which is newer than the Redis of most distributions.
    pub async fn start_valkey(arguments: &[&str]) -> Option<RedisServer> {
        let arguments = |_: &Path| arguments.iter().map(|text| text.to_string()).collect();
        RedisServer::start_program("valkey-server", arguments).await
    }

    async fn start_program(
        program: &'static str,
        arguments: impl Fn(&Path) -> Vec<String>,
    ) -> Option<RedisServer> {
        if !available(program, "--version") {
            return None;
        }
        for _ in 0..PORT_ATTEMPTS {
            let port = free_port();
            let directory = TempDir::with_prefix("bellwether-redis-").unwrap();
            let arguments = arguments(directory.path());
            let child = spawn(program, port, &arguments, &directory);
            let mut server = RedisServer { port, program, child, arguments, directory };
            match server.wait_until_ready().await {
                Ok(()) => return Some(server),
                Err(log) if log.contains("in use") => continue,
                Err(log) => panic!("{program} ended:\n{log}"),
            }
        }
        panic!("no port is free for {program}");
    }

    /// Returns its URL, without user and password.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Returns `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the directory of its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its output.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Freezes it: connections stay open, and it answers nothing.
    pub fn stop(&self) {
        self.signal("-STOP");
    }

    /// Resumes it after [`stop`](RedisServer::stop).
    pub fn cont(&self) {
        self.signal("-CONT");
    }

    /// Kills it immediately (-9), as a crash does.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same port in the same directory, killing it first if it runs.
    pub async fn restart(&mut self) {
        self.kill();
        for _ in 0..PORT_ATTEMPTS {
            self.child = spawn(self.program, self.port, &self.arguments, &self.directory);
            match self.wait_until_ready().await {
                Ok(()) => return,
                Err(log) if log.contains("in use") => tokio::time::sleep(LOOK_EVERY).await,
                Err(log) => panic!("redis-server ended:\n{log}"),
            }
        }
        panic!("port {} is not free again", self.port);
    }

    /// Returns a direct connection, as the default user with the password from the server's
    /// arguments.
    pub async fn connection(&self) -> MultiplexedConnection {
        self.connect().await.unwrap()
    }

    async fn connect(&self) -> redis::RedisResult<MultiplexedConnection> {
        let password = self.argument("--requirepass");
        let credentials = password.map_or(String::new(), |password| format!(":{password}@"));
        let client = redis::Client::open(format!("redis://{credentials}{}/", self.address()));
        let config = redis::AsyncConnectionConfig::new()
            .set_connection_timeout(Some(DEADLINE))
            .set_response_timeout(Some(DEADLINE));
        let client = client.unwrap();
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Runs one command, given as its words.
    pub async fn call<T: redis::FromRedisValue>(&self, words: &[&str]) -> redis::RedisResult<T> {
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut self.connect().await?).await
    }

    /// Returns a line of `INFO`, as in `info("master_link_status")`; empty if it is missing.
    pub async fn info(&self, field: &str) -> String {
        let info: String = self.call(&["INFO"]).await.unwrap();
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(name, _)| *name == field).map_or(String::new(), |(_, value)| value.into())
    }

    fn argument(&self, name: &str) -> Option<&str> {
        let at = self.arguments.iter().position(|argument| argument == name)?;
        self.arguments.get(at + 1).map(String::as_str)
    }

    fn signal(&self, signal: &str) {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args([signal, &pid]).status().unwrap();
        assert!(status.success(), "kill {signal} {pid}");
    }

    /// Waits until it answers. Returns its log if it ended instead.
    async fn wait_until_ready(&mut self) -> Result<(), String> {
        let started = tokio::time::Instant::now();
        while started.elapsed() < DEADLINE {
            if self.child.try_wait().unwrap().is_some() {
                return Err(self.log());
            }
            let asked = tokio::time::timeout(Duration::from_secs(1), greets(self.port)).await;
            // Another process may answer on the port; then this server has ended or is about to.
            let is_ours = self.log().contains("Ready to accept") || self.log().contains("Sentinel");
            if is_ours && asked.is_ok_and(|greeting| greeting.unwrap_or(false)) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        panic!("redis-server does not answer:\n{}", self.log());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns a free port, below those that the system uses for outgoing connections.
pub fn free_port() -> u16 {
    loop {
        let random = getrandom::u32().unwrap();
        let port = 12_000 + u16::try_from(random % 20_000).unwrap();
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

fn spawn(program: &str, port: u16, arguments: &[String], directory: &TempDir) -> Child {
    let log = File::create(directory.path().join("log")).unwrap();
    let mut command = command(program);
    // The arguments override the configuration file, so they follow it.
    let (file, arguments) = match arguments.first() {
        Some(first) if !first.starts_with("--") => arguments.split_at(1),
        _ => arguments.split_at(0),
    };
    command.args(file).args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
    if file.is_empty() {
        command.args(["--save", "", "--appendonly", "no"]);
    }
    command.arg("--dir").arg(directory.path()).args(arguments);
    command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

/// Returns whether Redis answers on the port, even if it demands a password.
async fn greets(port: u16) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(b"PING\r\n").await?;
    let mut answer = [0; 7];
    let read = stream.read(&mut answer).await?;
    Ok(answer[..read].starts_with(b"+PONG") || answer[..read].starts_with(b"-NOAUTH"))
}
