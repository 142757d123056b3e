//! The flags of an operation.

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::exit::UsageError;
use crate::cli::juju_hook::{self, juju_hook};
use crate::cli::span;
use crate::cli::target::{Target, UnitTarget};

/// The operation that the command carries out.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Operations")]
pub struct OperationArgs {
    /// Run the command as an operation of this application, held by this unit or this host
    #[arg(long, value_name = "APP|APP/UNIT", requires_all = ["to", "command"])]
    #[arg(add = crate::cli::completion::units())]
    #[arg(conflicts_with_all = ["unit", "file", "every", "ttl", "component", "resume"])]
    pub operation: Option<String>,
    /// Version that the command leads to
    #[arg(long, value_name = "VERSION", requires = "operation")]
    pub to: Option<String>,
    /// The name of the operation [default: the name of the command and its target]
    #[arg(long, requires = "operation")]
    pub id: Option<String>,
    /// The work of this unit alone, beside that of the application and of other units
    #[arg(long, requires = "operation")]
    pub own: bool,
    /// What is known of the command: helm, terraform or a file
    #[arg(long, value_name = "NAME|FILE")]
    pub recipe: Option<String>,
    /// Repeated work gives the same result: after an interruption, the command runs again
    #[arg(long, requires = "operation")]
    pub deterministic: bool,
    /// After an interruption, this line of the shell says how far it came: 0 done, 1 not done
    #[arg(long, value_name = "CMD")]
    pub verify: Option<String>,
    /// How long the operation is held without a heartbeat: 30s to 1h
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "60s")]
    pub lease: Duration,
    /// How long the command has to end after SIGTERM
    #[arg(long, value_name = "SPAN", value_parser = span::parse, default_value = "10s")]
    pub grace: Duration,
    /// A file that the command reads: its content is stored with the operation
    #[arg(long, value_name = "FILE", requires = "operation")]
    pub input: Vec<PathBuf>,
    /// Store the command line, so that --resume can run it; it may have secrets
    #[arg(long, requires = "operation")]
    pub store_command: bool,
    /// A variable to store with the command line
    #[arg(long = "env", value_name = "NAME", requires = "store_command")]
    pub variables: Vec<String>,
    /// Write the result to this file, as JSON
    #[arg(long, value_name = "FILE", requires = "operation")]
    pub result: Option<PathBuf>,
    /// Take up the open operations of a unit whose command lines are stored
    #[arg(long, requires = "unit")]
    #[arg(conflicts_with_all = ["file", "every", "ttl", "component", "command"])]
    pub resume: bool,
}

/// Returns the unit that holds the operation: an application alone means this host.
///
/// # Errors
/// If the name is not valid.
pub fn holder(name: &str) -> Result<UnitTarget, UsageError> {
    let Target { application, unit } = Target::parse(name)?;
    if let Some(unit) = unit {
        return Ok(UnitTarget { application, unit });
    }
    if let Some(hook) = juju_hook() {
        return juju_hook::unit(None, Some(&application), Some(hook));
    }
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let host = host.split('.').next().unwrap_or_default();
    Ok(UnitTarget { unit: format!("{application}/{host}"), application })
}
