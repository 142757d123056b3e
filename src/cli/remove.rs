//! `bellwether remove APP/UNIT`: removes a unit with its statuses.

use crate::cli::context::{Context, print_value, say};
use crate::cli::exit::Exit;
use crate::cli::json;
use crate::cli::target::UnitTarget;
use crate::proto::v1::RemoveUnitRequest;

/// Remove a unit with its statuses; its history stays
#[derive(clap::Args)]
pub struct Args {
    /// The unit, as web/0
    #[arg(value_name = "APP/UNIT", add = crate::cli::completion::units())]
    unit: String,
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
}

/// Removes the unit, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let target = UnitTarget::parse(&args.unit, args.application.as_deref())?;
    let client = context.connect().await?;
    let request = client.request(RemoveUnitRequest {
        namespace: context.namespace(),
        application: target.application,
        unit: target.unit.clone(),
        ..RemoveUnitRequest::default()
    });
    let answer = client.answer(client.applications().remove_unit(request).await)?;
    if context.is_structured() {
        let value = json::from_message(&answer, "RemoveUnitResponse")?;
        print_value(&value, context.output)?;
    }
    let statuses = match answer.removed_count {
        1 => "1 status".to_string(),
        n => format!("{n} statuses"),
    };
    let revision = answer.revision;
    say(&format!("removed {} with {statuses} (revision {revision})", target.unit));
    Ok(Exit::Ok)
}
