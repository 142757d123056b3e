//! `bellwether ops supersede APP OPERATION`: replaces an operation whose target cannot be reached.

use crate::cli::command::ops::new::NewArgs;
use crate::cli::command::ops::{act, show};
use crate::cli::context::{Context, say_advice};
use crate::cli::exit::UsageError;
use crate::cli::target::Target;
use crate::proto::v1::{BeginOperationRequest, OperationKind, OperationState};

/// Replace an operation that has failed or is blocked by another one, which a worker then takes up
#[derive(clap::Args)]
pub struct Args {
    /// The application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: String,
    /// The operation that has failed, or is blocked
    #[arg(value_name = "OPERATION")]
    operation: String,
    /// Name of the operation that replaces it
    #[arg(long, value_name = "OPERATION")]
    with: String,
    #[command(flatten)]
    new: NewArgs,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Reads the old operation, and records the new one.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let application = Target::parse(&args.application)?.application;
    let before = show::get(&application, &args.operation, context).await?;
    if !matches!(before.state(), OperationState::Failed | OperationState::Blocked) {
        let text = format!(
            "operation {} is {}: only what has failed or is blocked is superseded; `{}` says more",
            args.operation,
            crate::cli::render::operation::state_word(before.state),
            context.hint(&format!("ops show {application} {}", args.operation)),
        );
        return Err(UsageError(text).into());
    }
    let request = BeginOperationRequest {
        operation_id: args.with,
        kind: OperationKind::Upgrade.into(),
        for_unit: before.unit,
        from_version: before.from_version,
        supersede: true,
        reason: args.reason,
        ..args.new.request(context.of_application(&application))?
    };
    let answer = context.call(request).await?;
    say_advice(&answer.advice);
    act::done(answer.operation, context)
}
