//! `bellwether clear APP/UNIT`: withdraws statuses of a unit.

use crate::cli::context::{Context, print_value, say};
use crate::cli::exit::Exit;
use crate::cli::json;
use crate::cli::report::KindWord;
use crate::cli::target::UnitTarget;
use crate::proto::v1::{ClearStatusRequest, StatusKind};

/// Withdraw statuses of a unit: all, or those of a component
#[derive(clap::Args)]
pub struct Args {
    /// The unit, as web/0
    #[arg(value_name = "APP/UNIT", add = crate::cli::completion::units())]
    unit: String,
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
    /// Only of this component; "" is the unit as a whole
    #[arg(long)]
    component: Option<String>,
    /// Only this key of the component
    #[arg(long, requires = "component")]
    key: Option<String>,
    /// Only statuses of this kind
    #[arg(long, value_enum)]
    kind: Option<KindWord>,
}

/// Clears the statuses, and prints how many there were.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let target = UnitTarget::parse(&args.unit, args.application.as_deref())?;
    let client = context.connect().await?;
    let request = client.request(ClearStatusRequest {
        namespace: context.namespace(),
        application: target.application,
        unit: target.unit.clone(),
        component: args.component,
        key: args.key,
        kind: args.kind.map_or(StatusKind::Unspecified, StatusKind::from).into(),
        ..ClearStatusRequest::default()
    });
    let answer = client.answer(client.reports().clear_status(request).await)?;
    if context.is_structured() {
        let value = json::from_message(&answer, "ClearStatusResponse")?;
        print_value(&value, context.output)?;
    }
    let unit = target.unit;
    say(&match answer.cleared_count {
        0 => format!("no change: {unit} had no such status"),
        1 => format!("cleared 1 status of {unit} (revision {})", answer.revision),
        n => format!("cleared {n} statuses of {unit} (revision {})", answer.revision),
    });
    Ok(Exit::Ok)
}
