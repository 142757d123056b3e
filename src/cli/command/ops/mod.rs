//! `bellwether ops ...`: shows and changes operations, as an operator or as the unit that works.

mod act;
mod list;
mod new;
mod show;
mod supersede;
mod work;

use crate::cli::context::Context;
use crate::cli::exit::Exit;

/// Show and change work in flight: operations that are resumed instead of failed
#[derive(clap::Subcommand)]
pub enum Command {
    List(list::Args),
    Show(show::Args),
    Begin(work::Begin),
    Heartbeat(work::Heartbeat),
    Verify(work::Verify),
    /// Complete the operation that the unit holds
    Complete(work::WorkArgs),
    Fail(work::Fail),
    /// Retry an operation that is blocked or has failed, with new counters
    Retry(act::Args),
    /// Cancel an operation; its holder is asked to stop
    Cancel(act::Cancel),
    Supersede(supersede::Args),
}

/// Runs the command.
pub async fn run(command: Command, context: &Context) -> anyhow::Result<Exit> {
    match command {
        Command::List(args) => list::run(args, context).await.map(Exit::from),
        Command::Show(args) => show::run(args, context).await.map(Exit::from),
        Command::Begin(args) => args.work.hook.clone().run(work::begin(args, context)).await,
        Command::Heartbeat(args) => {
            args.work.hook.clone().run(work::heartbeat(args, context)).await
        }
        Command::Verify(args) => args.work.hook.clone().run(work::verify(args, context)).await,
        Command::Complete(args) => args.hook.clone().run(work::complete(args, context)).await,
        Command::Fail(args) => args.work.hook.clone().run(work::fail(args, context)).await,
        Command::Retry(args) => act::retry(args, context).await.map(Exit::from),
        Command::Cancel(args) => act::cancel(args, context).await.map(Exit::from),
        Command::Supersede(args) => supersede::run(args, context).await.map(Exit::from),
    }
}
