//! Starts the real server as a process of its own, on free ports, and ends it.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bellwether::proto::health::health_client::HealthClient;
use bellwether::proto::v1;
use bellwether::proto::v1::app_data_service_client::AppDataServiceClient;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::leader_service_client::LeaderServiceClient;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use bellwether::proto::v1::server_service_client::ServerServiceClient;
use tonic::transport::{Channel, Endpoint};
use tonic_types::StatusExt;

/// The deadline of every wait: long enough for a machine with much other work. A wait ends as soon
/// as its condition holds. An assertion that something ends in time has this limit too: it tells an
/// end from none.
pub const DEADLINE: Duration = Duration::from_secs(90);
/// The time between two checks of a condition: the awaited processes need the processor.
pub const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The binary under test.
pub const BINARY: &str = env!("CARGO_BIN_EXE_bellwether");

/// A running server; killed when dropped.
pub struct Server {
    child: Child,
    pub grpc: SocketAddr,
    pub ops: SocketAddr,
}

impl Server {
    /// Starts a server with nothing on disk.
    pub fn ephemeral() -> Server {
        Server::start(&["--ephemeral"])
    }

    /// Starts a server with the embedded store in this directory.
    pub fn on(data_dir: &Path) -> Server {
        Server::start(&["--data-dir", data_dir.to_str().unwrap()])
    }

    pub fn start(arguments: &[&str]) -> Server {
        Server::spawn(command(arguments))
    }

    /// Starts a server with a configuration file.
    pub fn configured(arguments: &[&str], text: &str) -> Server {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut arguments = arguments.to_vec();
        arguments.extend(["--config", file.path().to_str().unwrap()]);
        Server::start(&arguments)
    }

    pub fn spawn(mut command: Command) -> Server {
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        if line.is_empty() {
            let mut said = String::new();
            if let Some(mut stderr) = child.stderr.take() {
                stderr.read_to_string(&mut said).unwrap();
            }
            panic!("the server did not start: {said}");
        }
        // No other reader exists, and a full pipe would stop the server.
        if let Some(mut stderr) = child.stderr.take() {
            std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        }
        let addresses: serde_json::Value = serde_json::from_str(&line).unwrap();
        let address = |key: &str| addresses[key].as_str().unwrap().parse().unwrap();
        Server { grpc: address("grpc"), ops: address("ops"), child }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.grpc)
    }

    pub async fn channel(&self) -> Channel {
        Endpoint::from_shared(self.url()).unwrap().connect().await.unwrap()
    }

    pub async fn reports(&self) -> ReportServiceClient<Channel> {
        ReportServiceClient::new(self.channel().await)
    }

    pub async fn applications(&self) -> ApplicationServiceClient<Channel> {
        ApplicationServiceClient::new(self.channel().await)
    }

    pub async fn leaders(&self) -> LeaderServiceClient<Channel> {
        LeaderServiceClient::new(self.channel().await)
    }

    pub async fn app_data(&self) -> AppDataServiceClient<Channel> {
        AppDataServiceClient::new(self.channel().await)
    }

    pub async fn about(&self) -> ServerServiceClient<Channel> {
        ServerServiceClient::new(self.channel().await)
    }

    pub async fn health(&self) -> HealthClient<Channel> {
        HealthClient::new(self.channel().await)
    }

    /// Returns the resident memory, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory_of("VmRSS:")
    }

    /// Returns the highest resident memory so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        self.memory_of("VmHWM:")
    }

    fn memory_of(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    }

    /// Sends `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks the server to stop, as systemd and Kubernetes do.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal: `STOP`, `CONT`. After `STOP` it waits until the server is stopped: on a busy
    /// machine that takes a moment, in which the server could still answer.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
        let start = Instant::now();
        while name == "STOP" && !self.stands_still() {
            assert!(start.elapsed() < DEADLINE, "the server does not stand still");
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns true if every thread is stopped, or if the threads cannot be listed.
    fn stands_still(&self) -> bool {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{}/task", self.child.id())) else {
            return true;
        };
        threads.flatten().all(|thread| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit(')').next().is_none_or(|rest| rest.trim_start().starts_with('T'))
        })
    }

    /// Waits until the process ends.
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < DEADLINE, "the server does not end");
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command that starts a server, to be changed and spawned.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .args(["serve", "--print-addresses", "json"])
        .env("BELLWETHER_GRPC_LISTEN", "127.0.0.1:0")
        .env("BELLWETHER_OPS_LISTEN", "127.0.0.1:0")
        .args(arguments)
        .env_remove("BELLWETHER_SERVER")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Returns the exit code and the output of a server that must not start.
pub fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let output = command(arguments).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

/// Returns a report of the whole unit `unit` of application `application`.
pub fn mk_report(
    application: &str,
    unit: &str,
    level: v1::Level,
    message: &str,
) -> v1::ReportStatusRequest {
    v1::ReportStatusRequest {
        application: application.to_string(),
        unit: unit.to_string(),
        status: Some(v1::StatusReport {
            level: level as i32,
            message: message.to_string(),
            ..v1::StatusReport::default()
        }),
        ..v1::ReportStatusRequest::default()
    }
}

pub fn get(application: &str) -> v1::GetApplicationRequest {
    v1::GetApplicationRequest {
        application: application.to_string(),
        ..v1::GetApplicationRequest::default()
    }
}

/// Returns the reason of an error, which every error has.
pub fn reason(status: &tonic::Status) -> String {
    let details = status.get_error_details();
    let info = details.error_info().unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "bellwether");
    info.reason.clone()
}

/// Returns the cause in the facts of an error.
pub fn cause(status: &tonic::Status) -> String {
    let details = status.get_error_details();
    details.error_info().unwrap().metadata["cause"].clone()
}

/// Repeats `look` until it returns a value; panics after the deadline.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "never: {what}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
