//! `bellwether ops retry` and `cancel`: change an operation as an operator.

use crate::cli::context::{Context, say};
use crate::cli::render;
use crate::cli::render::text::marked;
use crate::cli::target::Target;
use crate::proto::v1::{CancelOperationRequest, Operation, RetryOperationRequest};

/// The operation to change.
#[derive(clap::Args)]
pub struct Args {
    /// The application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: String,
    /// The operation
    #[arg(value_name = "OPERATION")]
    operation: String,
}

/// Retries the operation.
pub async fn retry(args: Args, context: &Context) -> anyhow::Result<()> {
    let request = RetryOperationRequest {
        operation_id: args.operation,
        ..context.of_application(&Target::parse(&args.application)?.application)
    };
    done(context.call(request).await?.operation, context)
}

/// Cancels the operation.
pub async fn cancel(args: Args, context: &Context) -> anyhow::Result<()> {
    let request = CancelOperationRequest {
        operation_id: args.operation,
        ..context.of_application(&Target::parse(&args.application)?.application)
    };
    done(context.call(request).await?.operation, context)
}

/// Formats `operation up-v2 to v2 is running`.
pub fn sentence(operation: &Operation) -> String {
    let (id, state) = (&operation.operation_id, render::operation::state_word(operation.state));
    format!("operation {id} to {} is {state}", operation.target_version)
}

/// Prints the state of the operation, and what is next.
pub fn done(operation: Option<Operation>, context: &Context) -> anyhow::Result<()> {
    let operation = operation.unwrap_or_default();
    context.print_message(&operation, "Operation", || Ok(()))?;
    say(&format!("{}{}", sentence(&operation), marked("; next: ", &operation.next_step)));
    Ok(())
}
