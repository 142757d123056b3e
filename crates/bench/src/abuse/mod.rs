//! `abuse`: attacks the server over real sockets of this machine, and measures what an innocent
//! client notices.
//!
//! ```text
//!  attack    what is sent --> attacker   connections from 127.0.0.2 to 127.0.0.17
//!  content   what the server has before
//!  innocent  reports and reads from 127.0.0.1, before and during; probes ask for /livez
//!  row       both with memory, processor and log of the server, and the verdict
//! ```

mod attack;
mod attacker;
mod calls;
mod catalog;
mod content;
mod counts;
mod distance;
mod frame;
mod innocent;
mod large;
mod memory;
mod probes;
mod row;
mod shares;
mod unread;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::{Instant, sleep};
use tonic::transport::Endpoint;

use crate::machine::Machine;
use crate::process::cpu_seconds;
use crate::runtime;
use crate::secured::Issuer;
use crate::server::Server;
use crate::site::Site;
use attack::{Attack, Port};
use counts::Counts;
use distance::Distance;
use innocent::{Door, Innocent};
use probes::Probes;
use row::{Report, Row};

/// Flags of `abuse`.
#[derive(Debug, clap::Args)]
pub struct Abuse {
    /// The attacks to run [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = names())]
    pub only: Vec<String>,
    /// Length of each attack
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
    /// Directory for the files of the server [default: /var/tmp]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The server that is attacked [default: `bellwether` beside this program]
    #[arg(long, value_name = "FILE", env = "BELLWETHER_BINARY")]
    pub bellwether: Option<PathBuf>,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

fn names() -> clap::builder::PossibleValuesParser {
    catalog::all().map(|attack| attack.name).collect::<Vec<_>>().into()
}

/// Files of this process beside the connections of an attack.
const OTHER_FILES: u64 = 300;
/// How long the server may take to serve the innocent client again after an attack.
const RECOVERY_MAX: Duration = Duration::from_secs(10);

/// Runs the command.
pub async fn run(args: Abuse) -> anyhow::Result<()> {
    let site = Site::at(args.bellwether.as_deref(), args.dir.as_deref())?;
    let mut report = Report::new(Machine::look(&site.directory), args.seconds);
    let connections_max = raise_file_limit()?;
    let is_asked =
        |attack: &&Attack| args.only.is_empty() || args.only.iter().any(|name| name == attack.name);
    for attack in catalog::all().filter(is_asked) {
        eprintln!("{} ...", attack.name);
        let row = one(attack, &args, &site, connections_max).await;
        report.rows.push(row.with_context(|| attack.name)?);
    }
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&report)?),
        false => print!("{report}"),
    }
    let broken = report.rows.iter().filter(|row| !row.verdict.holds()).count();
    ensure!(broken == 0, "the server does not hold against {broken} attacks");
    Ok(())
}

/// Runs one attack against a server of its own.
async fn one(
    attack: &Attack,
    args: &Abuse,
    site: &Site,
    connections_max: usize,
) -> anyhow::Result<Row> {
    let Met { mut server, door, _files } = meet(attack, site).await?;
    attack.means.prepare();
    content::fill(attack.target.content, door.connect().await?).await.context("fill the server")?;
    let innocent = Innocent::start(door.clone());
    sleep(Duration::from_secs(args.seconds.div_ceil(2))).await;
    let ops = server.ops.context("the server has no ops port")?;
    let to = if attack.target.port == Port::Ops { ops } else { server.grpc };
    memory::forget_peak(server.id());
    let (memory_before, log_before) = (memory::now(server.id())?, server.log_bytes());
    let (cpu_before, start) = (cpu_seconds(server.id())?, Instant::now());
    let counts = Arc::new(Counts::default());
    innocent.attack_begins();
    let probes = Probes::start(ops);
    let attacking = attacker::run(*attack, to, counts.clone(), connections_max);
    let seconds = args.seconds;
    runtime::apart(async move {
        let _over = tokio::time::timeout(Duration::from_secs(seconds), attacking).await;
        Ok(())
    })
    .await?;
    let cpu = (cpu_seconds(server.id())? - cpu_before) / start.elapsed().as_secs_f64();
    let ([before, during], probed) = (innocent.end().await?, probes.end().await?);
    server.check_running()?;
    // The kernel counts both only approximately, so the peak can be the lower one.
    let memory_peak = memory::peak(server.id())?.max(memory_before);
    let allowed = memory_before + attack.bounds.memory_after;
    // The allocator returns memory as it is used: the client goes on, as clients do.
    let afterwards = Innocent::start(door.clone());
    let memory_after = memory::given_back(server.id(), allowed, RECOVERY_MAX).await?;
    afterwards.end().await?;
    let recovered = recovers(&door).await;
    let row = Row {
        attack: attack.name,
        unit: attack.unit,
        sent: counts.sent(),
        connections_max,
        before,
        during,
        probed,
        memory_before,
        memory_peak,
        memory_after,
        cpu,
        log_bytes: server.log_bytes() - log_before,
        verdict: row::Verdict::Holds,
    };
    Ok(row.judged(seconds, recovered, attack.bounds))
}

/// A server, and the way of the innocent client to it.
struct Met {
    server: Server,
    door: Door,
    _files: tempfile::TempDir,
}

async fn meet(attack: &Attack, site: &Site) -> anyhow::Result<Met> {
    let files = tempfile::tempdir()?;
    let (mut arguments, token) = match attack.target.with_tokens {
        true => with_tokens(site, files.path())?,
        false => (Vec::new(), None),
    };
    let issuer = match attack.target.with_tls {
        true => Some(Issuer::make(&site.directory)?),
        false => None,
    };
    arguments.extend(issuer.iter().flat_map(Issuer::tls_flags));
    let server = Server::start_as_is(&arguments, site).await?;
    let (endpoint, distance) = match &issuer {
        Some(issuer) => {
            let distance = Distance::to(server.grpc).await?;
            (issuer.endpoint(distance.address.port())?, Some(Arc::new(distance)))
        }
        None => (Endpoint::from_shared(format!("http://{}", server.grpc))?, None),
    };
    Ok(Met { server, door: Door { endpoint, token, _distance: distance }, _files: files })
}

/// Returns whether a new client is served soon after the attack.
async fn recovers(door: &Door) -> bool {
    let until = Instant::now() + RECOVERY_MAX;
    while Instant::now() < until {
        let innocent = Innocent::start(door.clone());
        sleep(Duration::from_millis(200)).await;
        if innocent.end().await.is_ok_and(|[served, _]| served.failed == 0 && 0 < served.calls) {
            return true;
        }
    }
    false
}

/// Makes a token for the innocent client. Returns the arguments of the server, and the token.
fn with_tokens(site: &Site, dir: &Path) -> anyhow::Result<(Vec<String>, Option<String>)> {
    const ROLES: &str = "[[grant]]\nrole = \"operator\"\nto = [\"*\"]\nnamespace = \"*\"\n\
                         application = \"*\"\n[[grant]]\nrole = \"worker\"\nto = [\"*\"]\n\
                         namespace = \"*\"\napplication = \"*\"\nunit = \"*\"\n";
    let file = |name: &str| dir.join(name).display().to_string();
    std::fs::write(file("roles.toml"), ROLES)?;
    let mut command = Command::new(&site.bellwether);
    let made = command.args(["token", "create", "innocent", "--tokens", &file("tokens.toml")]);
    let output = made.output().context("make a token")?;
    if !output.status.success() {
        bail!("make a token: {}", String::from_utf8_lossy(&output.stderr));
    }
    let flags = ["--tokens".into(), file("tokens.toml"), "--roles".into(), file("roles.toml")];
    Ok((flags.into(), Some(String::from_utf8(output.stdout)?.trim().to_string())))
}

/// Lets this process and its children have as many files as the system allows; returns how many
/// connections an attack may hold.
fn raise_file_limit() -> anyhow::Result<usize> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let files = maximum.unwrap_or(u64::from(u32::MAX));
    Ok(usize::try_from(files.saturating_sub(OTHER_FILES))?)
}
