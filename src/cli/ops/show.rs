//! `bellwether ops show [APP] OPERATION`: prints one operation, its history, and what is next.

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
    let application = args.application.name()?;
    let operation = get(&application, &args.operation, context).await?;
    if !context.print_message(&operation, "Operation")? {
        print(&render::operation::show(&operation, Timestamp::now(), screen()))?;
    }
    Ok(())
}

/// Fetches one operation.
pub async fn get(application: &str, id: &str, context: &Context) -> anyhow::Result<Operation> {
    let client = context.connect().await?;
    let request = client.request(GetOperationRequest {
        namespace: context.namespace(),
        application: application.to_string(),
        operation_id: id.to_string(),
        ..GetOperationRequest::default()
    });
    let answer = client.answer(client.operations().get_operation(request).await)?;
    Ok(answer.operation.unwrap_or_default())
}
