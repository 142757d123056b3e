//! `bellwether relay`: serves a copy of one or several servers until a signal stops it.

use bellwether_client::Security;

use super::run::start;
use crate::cli::exit::{Exit, UsageError};
use crate::config::{Config, RelayFlags};

/// Run a relay: serve a proved copy of another server
///
/// A relay watches its upstream once, and serves lists, watches, health and the status page to many
/// readers. Before it shows a change, the digest of the upstream must equal that of its copy. It
/// passes explanations, units and histories on with the token of their reader, and refuses whatever
/// changes something, with the address of the upstream. --ca, --token-file, --cert and --cert-key
/// are its own credentials for the upstream. Several upstreams with different namespaces are served
/// as one.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    flags: RelayFlags,

    /// Print the addresses in use as one JSON line on stdout
    #[arg(long, value_name = "FORMAT", value_parser = ["json"])]
    print_addresses: Option<String>,
}

/// Runs the relay as `serve` runs a server.
pub fn run(args: Args, security: Security, warnings: &[String]) -> anyhow::Result<Exit> {
    let config = Config::load_relay(args.flags, security);
    let config = config.map_err(|error| UsageError(error.to_string()))?;
    start(config, args.print_addresses.is_some(), warnings)
}
