//! `bellwether remove APP/UNIT`: removes a unit with its statuses.

use crate::cli::context::{Context, say};
use crate::cli::render::counted;
use crate::cli::unit::UnitArgs;
use crate::proto::v1::RemoveUnitRequest;

/// Remove a unit with its statuses; its history stays
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
}

/// Removes the unit, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let target = args.unit.target()?;
    let request: RemoveUnitRequest = context.of_unit(&target);
    let answer = context.change(request).await?;
    let statuses = counted(answer.removed_count, "status", "statuses");
    let revision = answer.revision;
    say(&format!("removed {} with {statuses} (revision {revision})", target.unit));
    Ok(())
}
