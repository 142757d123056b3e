//! A process that campaigns for leadership and, as the leader, writes a register. The test can stop
//! and kill it alone. It prints the answers of the server to its standard output.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use bellwether::proto::v1;
use bellwether_client::worker::Options;
use bellwether_client::{Client, Error, Worker};

use crate::server::LOOK_EVERY;

/// The timeout of a write.
pub const WRITE_MAX: Duration = Duration::from_secs(1);
/// The number of writes of a leader before it steps down.
const TERM: u32 = 8;

/// A line of a candidate.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// The server answered that this unit leads.
    Leads { process: u32, unit: String, epoch: u64 },
    /// A write was accepted.
    Accepted(Accepted),
    /// A write was refused, or its result is unknown.
    Refused { reason: String },
}

/// A write that was accepted.
#[derive(Debug, Clone, PartialEq)]
pub struct Accepted {
    pub unit: String,
    pub epoch: u64,
    /// The data version of the write: etags only rise.
    pub version: u64,
    /// The value of the register; 0 if the write did not read it first.
    pub value: u64,
}

// === inside the process ===

/// The process that [`Candidate::spawn`] starts, not a test.
#[tokio::test]
#[ignore = "the process of one candidate"]
async fn run() {
    let Ok(unit) = std::env::var("CANDIDATE_UNIT") else { return };
    let servers = std::env::var("CANDIDATE_SERVERS").unwrap();
    let servers: Vec<&str> = servers.split(',').collect();
    let options =
        servers[1..].iter().fold(Options::new(servers[0], "web", &unit), |o, s| o.server(s));
    let worker = Worker::connect(options, |_| async { Vec::new() }).unwrap();
    worker.connected().await.unwrap();
    worker.claim_leadership();
    let (mut term, mut last) = (0, None);
    for server in servers.iter().cycle() {
        // Simulates a former leader that does not notice or ignores the end of its lease.
        if let Some(epoch) = last {
            tell(&unit, epoch, insist(server, &unit, epoch)).await;
        }
        let Some(epoch) = worker.lease_epoch() else {
            tokio::time::sleep(LOOK_EVERY).await;
            continue;
        };
        if last != Some(epoch) {
            println!("\nleads {unit} {epoch}");
            last = Some(epoch);
        }
        term += u32::from(tell(&unit, epoch, increment(server, &unit, epoch)).await);
        if term == TERM {
            term = 0;
            worker.release_leadership();
            while worker.lease_epoch() == Some(epoch) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            worker.claim_leadership();
        }
    }
}

/// Prints the result of a write. Returns true if it was accepted.
async fn tell(
    unit: &str,
    epoch: u64,
    write: impl Future<Output = Result<(String, u64), Error>>,
) -> bool {
    // Starts a new line, because the test harness may have printed part of one.
    let ended = tokio::time::timeout(WRITE_MAX, write).await;
    match &ended {
        Ok(Ok((etag, value))) => println!("\naccepted {unit} {epoch} {etag} {value}"),
        Ok(Err(error)) => println!("\nrefused {}", error.reason().unwrap_or("UNREACHABLE")),
        Err(_) => println!("\nrefused UNANSWERED"),
    }
    matches!(ended, Ok(Ok(_)))
}

/// Writes over concurrent changes: only the epoch can refuse this write.
pub async fn insist(server: &str, unit: &str, epoch: u64) -> Result<(String, u64), Error> {
    let value = format!("{epoch} {:?}", SystemTime::now());
    Ok((write(server, unit, epoch, ("insisted", value), None).await?, 0))
}

/// Adds one to the register, if it did not change since it was read.
async fn increment(server: &str, unit: &str, epoch: u64) -> Result<(String, u64), Error> {
    let read = read(server).await?;
    let value = register(&read) + 1;
    let set = ("register", value.to_string());
    Ok((write(server, unit, epoch, set, Some(read.etag)).await?, value))
}

async fn write(
    server: &str,
    unit: &str,
    lease_epoch: u64,
    (key, value): (&str, String),
    etag: Option<String>,
) -> Result<String, Error> {
    let client = Client::connect(server).await?;
    let request = v1::UpdateAppDataRequest {
        application: "web".into(),
        unit: unit.into(),
        lease_epoch,
        set: [(key.to_string(), value.into())].into(),
        etag,
        ..Default::default()
    };
    let wrote = client.answer(client.app_data().update_app_data(client.request(request)).await)?;
    Ok(wrote.etag)
}

/// Returns the current data, read from a server.
pub async fn read(server: &str) -> Result<v1::AppData, Error> {
    let client = Client::connect(server).await?;
    let request = v1::GetAppDataRequest { application: "web".into(), ..Default::default() };
    let read = client.answer(client.app_data().get_app_data(client.request(request)).await)?;
    Ok(read.app_data.unwrap_or_default())
}

/// Returns the value of the register in the data.
pub fn register(data: &v1::AppData) -> u64 {
    let value = data.data.get("register");
    value.map_or(0, |value| std::str::from_utf8(value).unwrap().parse().unwrap())
}

// === outside the process ===

/// A running candidate; killed when dropped.
pub struct Candidate {
    child: Child,
    pub unit: String,
}

impl Candidate {
    pub fn spawn(n: usize, servers: &[String], said: &mpsc::Sender<Said>) -> Candidate {
        let unit = format!("web/{n}");
        let mut servers = servers.to_vec();
        servers.rotate_left(n % 2);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "candidate::run", "--ignored", "--nocapture"])
            .env("CANDIDATE_UNIT", &unit)
            .env("CANDIDATE_SERVERS", servers.join(","))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (said, process) = (said.clone(), child.id());
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(line) = parse(process, &line) {
                    let _ = said.send(line);
                }
            }
        });
        Candidate { child, unit }
    }

    /// Sends a signal: `STOP`, `CONT`.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for Candidate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(process: u32, line: &str) -> Option<Said> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["leads", unit, epoch] => {
            Some(Said::Leads { process, unit: unit.into(), epoch: epoch.parse().unwrap() })
        }
        ["accepted", unit, epoch, version, value] => {
            let (epoch, value) = (epoch.parse().unwrap(), value.parse().unwrap());
            let version = u64::from_str_radix(version, 16).unwrap();
            Some(Said::Accepted(Accepted { unit: unit.into(), epoch, version, value }))
        }
        ["refused", reason] => Some(Said::Refused { reason: reason.into() }),
        _ => None,
    }
}
