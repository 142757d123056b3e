//! `bellwether ops ...`: shows and changes operations, as an operator.

mod act;
mod list;
mod show;
mod supersede;

use crate::cli::context::Context;
use crate::cli::exit::Exit;

/// Show and change work in flight: operations that are resumed instead of failed
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    /// Retry an operation that is blocked or has failed, with new counters
    Retry(act::Args),
    /// Cancel an operation; its holder is asked to stop
    Cancel(act::Args),
    Supersede(supersede::Args),
}

/// Runs the command.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    match args.command {
        Command::List(args) => list::run(args, context).await,
        Command::Show(args) => show::run(args, context).await,
        Command::Retry(args) => act::retry(args, context).await,
        Command::Cancel(args) => act::cancel(args, context).await,
        Command::Supersede(args) => supersede::run(args, context).await,
    }
}
