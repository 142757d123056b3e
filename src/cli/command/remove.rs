//! `bellwether remove APP/UNIT`: removes a unit with its statuses.

use crate::cli::context::{Context, say, say_dry};
use crate::cli::exit::NotFoundError;
use crate::cli::render::counted;
use crate::cli::target::UnitTarget;
use crate::cli::unit::UnitArgs;
use crate::proto::v1::RemoveUnitRequest;

/// Remove a unit with its statuses; its history stays
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Removes the unit, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let target = args.unit.target()?;
    if args.dry_run {
        return preview(&target, context).await;
    }
    let request: RemoveUnitRequest = context.of_unit(&target);
    let answer = context.change(request).await?;
    let statuses = counted(answer.removed_count, "status", "statuses");
    let revision = answer.revision;
    say(&format!("removed {} with {statuses} (revision {revision})", target.unit));
    Ok(())
}

/// Prints what a removal would remove.
async fn preview(target: &UnitTarget, context: &Context) -> anyhow::Result<()> {
    let UnitTarget { application, unit } = target;
    let (client, namespace) = (context.connect().await?, context.namespace());
    let units = client.list_units(&namespace, application, 0).await?;
    if !units.iter().any(|known| known.name == *unit) {
        return Err(NotFoundError(format!("{application} has no unit {unit}")).into());
    }
    let statuses = client.list_unit_statuses(&namespace, application, unit).await?;
    let statuses = counted(statuses.len(), "status", "statuses");
    say_dry(&format!("would remove {unit} with {statuses}"));
    Ok(())
}
