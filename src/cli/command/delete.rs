//! `bellwether delete APP`: deletes an application with everything except its history.

use crate::cli::context::{Context, say, say_dry};
use crate::cli::exit::UsageError;
use crate::cli::render::counted;
use crate::cli::target::Target;
use crate::proto::v1::DeleteApplicationRequest;

/// Delete an application with all its units; its history stays
#[derive(clap::Args)]
pub struct Args {
    /// The application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: String,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Deletes the application, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    if let Some(unit) = Target::parse(&args.application)?.unit {
        // A unit must not delete its whole application.
        let text = format!("`{unit}` is a unit: bellwether remove {unit}");
        return Err(UsageError(text).into());
    }
    if args.dry_run {
        let (client, namespace) = (context.connect().await?, context.namespace());
        let units = client.list_units(&namespace, &args.application, 0).await?.len();
        let statuses = client.list_statuses(&namespace, &args.application, 0).await?.len();
        let (units, statuses) =
            (counted(units, "unit", "units"), counted(statuses, "status", "statuses"));
        let application = &args.application;
        say_dry(&format!("would delete {application} with {units} and {statuses}"));
        return Ok(());
    }
    let request: DeleteApplicationRequest = context.of_application(&args.application);
    let answer = context.change(request).await?;
    say(&format!("deleted {} (revision {})", args.application, answer.revision));
    Ok(())
}
