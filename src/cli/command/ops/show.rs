//! `bellwether ops show [APP] OPERATION`: prints one operation, its history, and what is next.

use bellwether_client::Error;
use jiff::Timestamp;

use crate::cli::context::{Context, print, screen};
use crate::cli::render;
use crate::cli::unit::AppArgs;
use crate::proto::v1::{GetOperationRequest, Operation};

/// Show an operation: its state, what happens next, and its history
#[derive(clap::Args)]
#[command(allow_missing_positional = true)]
pub struct Args {
    #[command(flatten)]
    application: AppArgs,
    /// The operation
    #[arg(value_name = "OPERATION", required = true)]
    operation: String,
}

/// Asks the server and prints the operation.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let operation = get(&args.application.name()?, &args.operation, context).await?;
    context.print_message(&operation, "Operation", || {
        print(&render::operation::show(&operation, Timestamp::now(), screen()))
    })
}

/// Fetches one operation.
pub async fn get(application: &str, id: &str, context: &Context) -> Result<Operation, Error> {
    let request =
        GetOperationRequest { operation_id: id.to_string(), ..context.of_application(application) };
    Ok(context.call(request).await?.operation.unwrap_or_default())
}
