//! `bellwether ops retry` and `cancel`: change an operation as an operator.

use crate::cli::command::ops::show;
use crate::cli::context::{Context, say, say_dry};
use crate::cli::render;
use crate::cli::render::text::marked;
use crate::cli::target::Target;
use crate::proto::v1::{CancelOperationRequest, Operation, OperationState, RetryOperationRequest};

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

/// The operation to cancel.
#[derive(clap::Args)]
pub struct Cancel {
    #[command(flatten)]
    operation: Args,
    /// Only say what would be cancelled
    #[arg(long)]
    dry_run: bool,
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
pub async fn cancel(args: Cancel, context: &Context) -> anyhow::Result<()> {
    let Args { application, operation } = args.operation;
    let application = Target::parse(&application)?.application;
    if args.dry_run {
        say_dry(&preview(&show::get(&application, &operation, context).await?)?);
        return Ok(());
    }
    let request =
        CancelOperationRequest { operation_id: operation, ..context.of_application(&application) };
    done(context.call(request).await?.operation, context)
}

/// Says what a cancel would do.
fn preview(operation: &Operation) -> anyhow::Result<String> {
    let now = sentence(operation);
    Ok(match operation.state() {
        OperationState::Running | OperationState::Verifying => {
            format!("{now}; its holder {} would be asked to stop", operation.holder)
        }
        OperationState::Cancelling => format!("{now} already"),
        OperationState::Abandoned if operation.reason == "CANCELLED" => format!("{now} already"),
        OperationState::Abandoned => format!("{now}; it would no longer be shown as an error"),
        OperationState::Succeeded | OperationState::Superseded => {
            anyhow::bail!("{now}, so there is nothing to cancel")
        }
        _ => format!("{now}; it would be abandoned"),
    })
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
