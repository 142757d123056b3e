//! `bellwether notify`: tells receivers of problems and of their ends.
//!
//! ```text
//!  config ------> Engine <---- watches (run) <---- server
//!                   |  '-----> shards, lease (store) ----> data of an application, first
//!                   '--------> message -> receiver ------> Alertmanager, webhook, command
//! ```
//!
//! It is a client as any other: the server does not know that it exists.

mod config;
mod engine;
mod glob;
mod hash;
mod message;
mod metrics;
mod notice;
mod receiver;
mod run;
mod store;

use std::path::PathBuf;

use crate::cli::command::notify::config::Config;
use crate::cli::command::notify::message::own::Own;
use crate::cli::command::notify::metrics::now;
use crate::cli::command::notify::receiver::Receiver;
use crate::cli::context::{Context, say};
use crate::cli::exit::{NotFoundError, UsageError};
use crate::cli::render::counted;

/// Tell Alertmanager, webhooks or commands of problems, why they are there, and of their ends
#[derive(clap::Args)]
pub struct Args {
    /// The file with receivers and routes
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the file and those that it names, and end
    #[arg(long)]
    check: bool,
    /// Send a message that says that it is a test to this receiver, and end
    #[arg(long, value_name = "NAME", conflicts_with = "check")]
    test: Option<String>,
    /// The name of this process among those that stand in for each other [default: the host]
    #[arg(long, value_name = "UNIT", env = "BELLWETHER_NOTIFY_UNIT")]
    unit: Option<String>,
}

/// Notifies until a signal ends it.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let config = config::read(&args.config)?;
    let unit = args
        .unit
        .unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned());
    for receiver in &config.receivers {
        let checked = Receiver::new(receiver.clone(), Vec::new()).check();
        checked.map_err(|error| UsageError(format!("receiver {}: {error}", receiver.name)))?;
    }
    if args.check {
        let receivers = counted(config.receivers.len(), "receiver", "receivers");
        let routes = counted(config.routes.len(), "route", "routes");
        say(&format!("{}: {receivers}, {routes}", args.config.display()));
        return Ok(());
    }
    match args.test {
        Some(name) => test(&config, &name, unit, context).await,
        None => run::run(config, unit, context).await,
    }
}

async fn test(config: &Config, name: &str, unit: String, context: &Context) -> anyhow::Result<()> {
    let Some(receiver) = config.receivers.iter().find(|receiver| receiver.name == name) else {
        return Err(NotFoundError(format!("the file has no receiver `{name}`")).into());
    };
    let (namespace, application) = (config.namespace.clone(), config.application.clone());
    let own = Own { namespace, application, unit };
    let receiver = Receiver::new(receiver.clone(), context.variables());
    let sent = run::send_example(&receiver, own.example(now())).await;
    sent.map_err(|error| anyhow::anyhow!("receiver {name}: {error}"))?;
    say(&format!("receiver {name} has the test"));
    Ok(())
}
