//! `bellwether serve`: runs the server until a signal stops it.
//!
//! Start: configuration, telemetry, limit of open files, runtime, signals, ports, store, hub,
//! aggregator, sessions ([`App::build`]), then the addresses and a first command to try.
//!
//! Stop: drain of sessions and calls, drain of the aggregator, close of the store ([`App::run`]),
//! shutdown of the runtime, flush of telemetry. The line "stopped" is logged after that flush, so
//! it reaches stderr but not a collector.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::app::{Addresses, App, Drained};
use crate::cli::context::{print, say_lines};
use crate::cli::exit::{Exit, UsageError};
use crate::cli::serve::notify::Notifier;
use crate::config;
use crate::config::{Config, StoreChoice};
use crate::service::ErrorRules;
use crate::telemetry::{self, Telemetry};

/// Run the server
///
/// By default it listens on this machine only and keeps its data in ./bellwether-data. SIGTERM and
/// Ctrl-C drain it: streams are notified and end, open calls finish, the store is closed. A second
/// signal ends it immediately; what was acknowledged is kept.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: config::Flags,

    /// Print the addresses in use as one JSON line on stdout
    #[arg(long, value_name = "FORMAT", value_parser = ["json"])]
    print_addresses: Option<String>,
}

/// The version in the log and in telemetry.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long the last telemetry may take to reach a collector; it must not delay the exit further.
const TELEMETRY_DEADLINE: Duration = Duration::from_secs(2);

/// Runs the server on its own runtime, with a thread for each core. `warnings` are sentences about
/// the environment.
pub fn run(args: Args, warnings: &[String]) -> anyhow::Result<Exit> {
    let config = Config::load(args.flags);
    let config = config.map_err(|error| UsageError(error.to_string()))?;
    start(config, args.print_addresses.is_some(), warnings)
}

/// Runs a server or a relay with this configuration.
pub(super) fn start(
    mut config: Config,
    print_json: bool,
    warnings: &[String],
) -> anyhow::Result<Exit> {
    let telemetry = telemetry::init(telemetry::Options::from_env(VERSION))?;
    if config::shows_password(std::env::args_os()) {
        tracing::warn!("{}", config::PASSWORD_SHOWN);
    }
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    fit_connections(&mut config, raise_file_limit());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let drained = runtime.block_on(serve(config, &telemetry, print_json));
    // A client that never answers must not delay the exit.
    runtime.shutdown_background();
    let Some(drained) = drained? else {
        tracing::warn!("stopped immediately by a second signal; open calls were cut off");
        return Ok(Exit::Interrupted);
    };
    if let Err(error) = telemetry.shutdown(TELEMETRY_DEADLINE) {
        tracing::warn!(%error, "deliver the last telemetry");
    }
    match drained {
        Drained::Cleanly => tracing::info!("stopped"),
        Drained::CutOff => tracing::warn!("stopped; some calls were cut off at the deadline"),
    }
    Ok(Exit::Ok)
}

/// Builds the server, announces it, and serves until a signal. Returns `None` if a second signal
/// came before the end.
async fn serve(
    config: Config,
    telemetry: &Telemetry,
    print_json: bool,
) -> anyhow::Result<Option<Drained>> {
    let (stop, stop_now) = stop_signals().context("listen for signals")?;
    let (store, upstream) = (config.store.clone(), config.relay.as_ref());
    let upstream = upstream.map(|relay| relay.upstreams.join(", "));
    let rules_file = config.error_rules.as_ref().map(|(path, _)| path.clone());
    let schemes = schemes(&config);
    let is_open = !config.callers.are_known(config.tls.as_ref());
    let manager = Notifier::from_env();
    // A service manager may send SIGHUP as its reload, with files or without.
    let has_files = rules_file.is_some()
        || config.tls.is_some()
        || config.callers.has_tokens()
        || manager.is_managed();
    let app = App::build(config, telemetry.metrics().clone(), telemetry.prometheus()).await?;
    let addresses = app.addresses()?;
    if has_files {
        // Before the server is reachable: without a handler SIGHUP would end the process.
        let hangup = signal(SignalKind::hangup()).context("listen for SIGHUP")?;
        tokio::spawn(reload(rules_file, hangup, app.error_rules(), app.reload_now()));
    }
    if print_json {
        print(&format!("{}\n", serde_json::to_string(&addresses)?))?;
    } else if !manager.is_managed() {
        // The journal of a service manager has no reader who tries commands.
        say_lines(&match upstream {
            Some(upstream) => welcome_at_relay(&program(), &addresses, &upstream, schemes),
            None => welcome(&program(), &addresses, &store, schemes),
        });
    }
    if is_open {
        log_open(&addresses);
    }
    tracing::info!(version = VERSION, grpc = %addresses.grpc, ops = %addresses.ops, "serving");
    manager.ready(&format!("serving {}://{}", schemes[0], addresses.grpc));
    let stopped = async {
        stop.cancelled_owned().await;
        manager.stopping();
    };
    tokio::select! {
        drained = app.run(stopped) => Ok(Some(drained)),
        () = stop_now.cancelled() => Ok(None),
    }
}

/// Logs that the server serves callers without an identity.
fn log_open(addresses: &Addresses) {
    if addresses.grpc.ip().is_loopback() {
        tracing::info!("no identities are configured: every caller on this machine is served");
    } else {
        tracing::warn!(
            "no identities are configured, and --insecure is set: every caller is served"
        );
    }
}

/// Raises the limit of open files. Each connection is an open file, and the usual soft limit of
/// 1,024 is far below `connections_max`. Returns the limit in force; `None` if there is no limit.
fn raise_file_limit() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(%error, "raise the limit of open files");
    }
    getrlimit(Resource::Nofile).current
}

/// Files of the process besides its connections: the store, the ops port, the connections to Redis.
const OTHER_FILES: u64 = 256;

/// Lowers `connections_max` to the limit of open files: a full server replaces idle connections,
/// but one without files cannot even accept.
fn fit_connections(config: &mut Config, files: Option<u64>) {
    let Some(files) = files else { return };
    let max = usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX).max(1);
    let limits = &mut config.service.connections;
    if max < limits.connections_max {
        let wanted = limits.connections_max;
        tracing::warn!(files, wanted, max, "the limit of open files lowers connections_max");
        limits.connections_max = max;
        limits.per_peer_max = limits.per_peer_max.min(max);
    }
}

/// Returns tokens that are cancelled at the first SIGTERM or Ctrl-C, and at the second.
fn stop_signals() -> std::io::Result<(CancellationToken, CancellationToken)> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (first, second) = (CancellationToken::new(), CancellationToken::new());
    let tokens = [first.clone(), second.clone()];
    tokio::spawn(async move {
        for token in tokens {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            token.cancel();
        }
    });
    Ok((first, second))
}

/// Reads the error rules and the files of the security again at each SIGHUP. An invalid file
/// changes nothing.
async fn reload(
    path: Option<PathBuf>,
    mut hangup: Signal,
    rules: ErrorRules,
    security: Arc<Notify>,
) {
    while hangup.recv().await.is_some() {
        security.notify_one();
        let Some(path) = &path else { continue };
        match config::rules::read(path) {
            Ok(read) => {
                let (own, gone) = (read.own.len(), read.gone.len());
                rules.replace(read);
                let path = path.display();
                tracing::info!(%path, own, gone, "read error rules again");
            }
            Err(error) => {
                tracing::error!(%error, "invalid error rules: the previous rules stay");
            }
        }
    }
}

/// Returns the words that start this program in a shell: after `make run`, it is not in `PATH`.
fn program() -> String {
    let path = std::env::var_os("PATH").unwrap_or_default();
    match (std::env::current_exe(), std::env::current_dir()) {
        (Ok(own), Ok(folder)) => program_in(&own, &folder, &path),
        _ => "bellwether".to_string(),
    }
}

fn program_in(own: &Path, folder: &Path, path: &OsStr) -> String {
    let first = std::env::split_paths(path)
        .map(|place| place.join("bellwether"))
        .find(|file| file.is_file());
    if first.and_then(|file| file.canonicalize().ok()).is_some_and(|file| file == own) {
        return "bellwether".to_string();
    }
    match own.strip_prefix(folder) {
        Ok(below) => format!("./{}", below.display()),
        Err(_) => own.display().to_string(),
    }
}

/// Returns the schemes of gRPC and of the metrics.
fn schemes(config: &Config) -> [&'static str; 2] {
    let scheme = |has_tls| if has_tls { "https" } else { "http" };
    let tls = config.tls.as_ref();
    [scheme(tls.is_some()), scheme(tls.is_some_and(|tls| tls.with_ops))]
}

/// Returns the first lines for a person. The schemes are those of gRPC and of the metrics.
fn welcome(
    program: &str,
    addresses: &Addresses,
    store: &StoreChoice,
    [scheme, ops_scheme]: [&str; 2],
) -> String {
    let Addresses { grpc, ops } = addresses;
    let kept = match store {
        StoreChoice::Memory => "in memory, until it ends".to_string(),
        StoreChoice::Embedded(dir) => format!("in {}", dir.display()),
        StoreChoice::Redis(target, ..) => format!("in {target}"),
    };
    let server = match grpc.port() {
        50051 if scheme == "http" => String::new(),
        _ => format!(" --server {scheme}://{grpc}"),
    };
    format!(
        "bellwether {} is up\n\
         \n  gRPC     {scheme}://{grpc}   (grpc.health.v1)\
         \n  page     {scheme}://{grpc}/   (in a browser; JSON by curl)\
         \n  metrics  {ops_scheme}://{ops}/metrics   (/livez, /readyz)\
         \n  kept     {kept}\n\
         \nTry in another terminal:\n\
         \n  {program}{server} report web/0 --level blocked -m \"add a database relation\" \\\
         \n      --action \"juju integrate web postgresql\"\
         \n  {program}{server} status\
         \n  {program}{server} why web\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the first lines of a relay for a person.
fn welcome_at_relay(
    program: &str,
    addresses: &Addresses,
    upstream: &str,
    [scheme, ops_scheme]: [&str; 2],
) -> String {
    let Addresses { grpc, ops } = addresses;
    format!(
        "bellwether {VERSION} is up as a relay\n\
         \n  gRPC      {scheme}://{grpc}   (reads and watches)\
         \n  page      {scheme}://{grpc}/   (in a browser; JSON by curl)\
         \n  metrics   {ops_scheme}://{ops}/metrics   (/livez, /readyz)\
         \n  upstream  {upstream}   (writes and workers go there)\n\
         \nTry in another terminal:\n\
         \n  {program} --server {scheme}://{grpc} status\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_names_the_server_only_where_it_must() {
        let mut addresses =
            Addresses { grpc: ([127, 0, 0, 1], 50051).into(), ops: ([127, 0, 0, 1], 9090).into() };
        let usual = welcome("bellwether", &addresses, &StoreChoice::Memory, ["http", "http"]);
        assert!(usual.contains("  bellwether status\n"), "{usual}");
        assert!(usual.contains("http://127.0.0.1:50051"), "{usual}");
        addresses.grpc.set_port(4242);
        let store = StoreChoice::Embedded("data".into());
        let other = welcome("bellwether", &addresses, &store, ["http", "https"]);
        assert!(other.contains("bellwether --server http://127.0.0.1:4242 status"), "{other}");
        assert!(other.contains("kept     in data"), "{other}");
        assert!(other.contains("https://127.0.0.1:9090/metrics"), "{other}");
    }

    #[test]
    fn the_first_commands_start_this_program() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let own = home.join("target/release/bellwether");
        let elsewhere = home.join("bin");
        std::fs::create_dir_all(own.parent().unwrap()).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(&own, "").unwrap();
        let said = |folder: &Path, path: &[&Path]| {
            program_in(&own, folder, &std::env::join_paths(path).unwrap())
        };
        let built = own.parent().unwrap();
        assert_eq!(said(&home, &[&elsewhere]), "./target/release/bellwether");
        assert_eq!(said(&elsewhere, &[]), own.display().to_string());
        assert_eq!(said(&home, &[&elsewhere, built]), "bellwether");
        std::os::unix::fs::symlink(&own, elsewhere.join("bellwether")).unwrap();
        assert_eq!(said(&home, &[&elsewhere]), "bellwether");
        // Another installation that a shell would find first.
        std::fs::remove_file(elsewhere.join("bellwether")).unwrap();
        std::fs::write(elsewhere.join("bellwether"), "").unwrap();
        assert_eq!(said(&home, &[&elsewhere, built]), "./target/release/bellwether");
    }
}
