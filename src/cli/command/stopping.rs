//! `bellwether stopping APP/UNIT`: announces that the worker of a unit is about to stop.

use crate::cli::context::{Context, say};
use crate::cli::unit::UnitArgs;
use crate::proto::v1::AnnounceStopRequest;

/// Announce the stop of a unit: what it reports from now on does not pass to its successor
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// Incarnation of the unit [default: the current one]
    #[arg(long, value_name = "N")]
    incarnation: Option<u64>,
    /// Same id within 10 minutes: applied once
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
}

/// Announces the stop, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let target = args.unit.target()?;
    let request = AnnounceStopRequest {
        incarnation: args.incarnation,
        request_id: args.request_id,
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    say(&match answer.changed {
        true => format!(
            "{} is stopping; what it reports from now on ends with it (revision {})",
            target.unit, answer.revision
        ),
        false => format!("no change: {} was stopping already, or has left", target.unit),
    });
    Ok(())
}
