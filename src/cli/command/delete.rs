//! `bellwether delete APP`: deletes an application with everything except its history.

use crate::cli::context::{Context, say};
use crate::cli::exit::UsageError;
use crate::cli::target::Target;
use crate::proto::v1::DeleteApplicationRequest;

/// Delete an application with all its units; its history stays
#[derive(clap::Args)]
pub struct Args {
    /// The application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: String,
}

/// Deletes the application, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    if let Some(unit) = Target::parse(&args.application)?.unit {
        // A unit must not delete its whole application.
        let text = format!("`{unit}` is a unit: bellwether remove {unit}");
        return Err(UsageError(text).into());
    }
    let request: DeleteApplicationRequest = context.of_application(&args.application);
    let answer = context.change(request).await?;
    say(&format!("deleted {} (revision {})", args.application, answer.revision));
    Ok(())
}
