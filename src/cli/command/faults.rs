//! `bellwether faults`: open errors of one application or of all, and the targets that they have in
//! common.

use jiff::Timestamp;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::render::fault_list::{by_target, list};
use crate::cli::target::Target;
use crate::proto::v1::ListFaultsResponse;

/// List open errors, or with --by-target what they have in common
#[derive(clap::Args)]
pub struct Args {
    /// The application; without it all applications of the namespace
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: Option<String>,
    /// Show all namespaces
    #[arg(short = 'A', long, conflicts_with = "application")]
    all_namespaces: bool,
    /// One row for each target: how many units and applications have errors with it
    #[arg(long)]
    by_target: bool,
}

/// Asks the server and prints the errors.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let namespace = if args.all_namespaces { "-".to_string() } else { context.namespace() };
    let target = args.application.as_deref().map(Target::parse).transpose()?;
    let application = target.map(|target| target.application).unwrap_or_default();
    let client = context.connect().await?;
    let mut answer = ListFaultsResponse::default();
    match args.by_target {
        true => answer.targets = client.list_fault_targets(&namespace, &application).await?,
        false => answer.faults = client.list_faults(&namespace, &application).await?,
    }
    let home = (!args.all_namespaces).then_some(namespace.as_str());
    context.print_message(&answer, "ListFaultsResponse", || {
        if answer.faults.is_empty() && answer.targets.is_empty() {
            say("no error is open");
            return Ok(());
        }
        let now = Timestamp::now();
        match args.by_target {
            true => print(&by_target(&answer.targets, home, now, screen())),
            false => print(&list(&answer.faults, home, now)),
        }
    })
}
