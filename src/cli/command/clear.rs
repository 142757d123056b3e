//! `bellwether clear APP/UNIT`: withdraws statuses of a unit.

use crate::cli::command::report::KindWord;
use crate::cli::context::{Context, say, say_dry};
use crate::cli::render::counted;
use crate::cli::target::UnitTarget;
use crate::cli::unit::UnitArgs;
use crate::proto::v1::{ClearStatusRequest, StatusReport};

/// Withdraw statuses of a unit: all, or those of a component
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// Only of this component; "" is the unit as a whole
    #[arg(long)]
    component: Option<String>,
    /// Only this key of the component
    #[arg(long, requires = "component")]
    key: Option<String>,
    /// Only statuses of this kind
    #[arg(long, value_enum)]
    kind: Option<KindWord>,
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Clears the statuses, and prints how many there were.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let target = args.unit.target()?;
    if args.dry_run {
        return preview(&args, &target, context).await;
    }
    let request = ClearStatusRequest {
        component: args.component,
        key: args.key,
        kind: args.kind.map_or(0, |kind| kind as i32),
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    let unit = target.unit;
    say(&match answer.cleared_count {
        0 => format!("no change: {unit} had no such status"),
        1 => format!("cleared 1 status of {unit} (revision {})", answer.revision),
        n => format!("cleared {n} statuses of {unit} (revision {})", answer.revision),
    });
    Ok(())
}

/// Prints what the command would clear.
async fn preview(args: &Args, target: &UnitTarget, context: &Context) -> anyhow::Result<()> {
    let UnitTarget { application, unit } = target;
    let client = context.connect().await?;
    let found = client.list_unit_statuses(&context.namespace(), application, unit).await?;
    let is_meant = |report: &StatusReport| {
        args.component.as_ref().is_none_or(|component| *component == report.component)
            && args.key.as_ref().is_none_or(|key| *key == report.key)
            && args.kind.is_none_or(|kind| kind as i32 == report.kind)
    };
    let count = found.iter().filter_map(|status| status.report.as_ref()).filter(|r| is_meant(r));
    let statuses = counted(count.count(), "status", "statuses");
    say_dry(&format!("would clear {statuses} of {unit}"));
    Ok(())
}
