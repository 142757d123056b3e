//! `bellwether remove APP/UNIT`: removes a unit with its statuses.

use crate::cli::context::{Context, say};
use crate::cli::exit::Exit;
use crate::cli::unit::UnitArgs;
use crate::proto::v1::RemoveUnitRequest;

/// Remove a unit with its statuses; its history stays
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
}

/// Removes the unit, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let target = args.unit.target()?;
    let client = context.connect().await?;
    let request = client.request(RemoveUnitRequest {
        namespace: context.namespace(),
        application: target.application,
        unit: target.unit.clone(),
        ..RemoveUnitRequest::default()
    });
    let answer = client.answer(client.applications().remove_unit(request).await)?;
    context.print_message(&answer, "RemoveUnitResponse")?;
    let statuses = match answer.removed_count {
        1 => "1 status".to_string(),
        n => format!("{n} statuses"),
    };
    let revision = answer.revision;
    say(&format!("removed {} with {statuses} (revision {revision})", target.unit));
    Ok(Exit::Ok)
}
