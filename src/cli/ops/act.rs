//! `bellwether ops retry` and `cancel`: change an operation as an operator.

use crate::cli::context::{Context, say};
use crate::cli::render;
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
    let client = context.connect().await?;
    let request = client.request(RetryOperationRequest {
        namespace: context.namespace(),
        application: Target::parse(&args.application)?.application,
        operation_id: args.operation,
        ..RetryOperationRequest::default()
    });
    let answer = client.answer(client.operations().retry_operation(request).await)?;
    done(&answer.operation.unwrap_or_default(), context)
}

/// Cancels the operation.
pub async fn cancel(args: Args, context: &Context) -> anyhow::Result<()> {
    let client = context.connect().await?;
    let request = client.request(CancelOperationRequest {
        namespace: context.namespace(),
        application: Target::parse(&args.application)?.application,
        operation_id: args.operation,
        ..CancelOperationRequest::default()
    });
    let answer = client.answer(client.operations().cancel_operation(request).await)?;
    done(&answer.operation.unwrap_or_default(), context)
}

/// Prints the state of the operation, and what is next.
pub fn done(operation: &Operation, context: &Context) -> anyhow::Result<()> {
    context.print_message(operation, "Operation")?;
    let (id, state) = (&operation.operation_id, render::operation::state_word(operation.state));
    let next = match operation.next_step.as_str() {
        "" => String::new(),
        next => format!("; next: {next}"),
    };
    say(&format!("operation {id} to {} is {state}{next}", operation.target_version));
    Ok(())
}
