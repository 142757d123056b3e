//! `bellwether callback APP/UNIT`: requests a callback of a unit, or cancels it.

use std::time::Duration;

use crate::cli::context::{Context, say};
use crate::cli::render::text::marked;
use crate::cli::span;
use crate::cli::unit::UnitArgs;
use crate::proto::v1::RequestCallbackRequest;

/// Request a callback of a unit, for which `attend` sends a notification; another request with the
/// same component and key replaces it
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("what").required(true).args(["after", "cancel"])))]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// Time until the callback is due, from 1s to 7d; it is repeated in each new session until it
    /// is cancelled
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    after: Option<Duration>,
    /// Cancel the callback
    #[arg(long)]
    cancel: bool,
    /// Part of the unit that the callback is for
    #[arg(long, default_value = "", hide_default_value = true)]
    component: String,
    /// Which of several callbacks of the component
    #[arg(long, default_value = "", hide_default_value = true)]
    key: String,
    /// The reason, for people
    #[arg(long, default_value = "", hide_default_value = true, conflicts_with = "cancel")]
    reason: String,
    /// Incarnation of the unit [default: the current one]
    #[arg(long, value_name = "N")]
    incarnation: Option<u64>,
    /// Same id within 10 minutes: applied once
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
}

/// Requests or cancels the callback, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let target = args.unit.target()?;
    let what = format!("{} {} {}", target.unit, args.component, args.key);
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ");
    let request = RequestCallbackRequest {
        incarnation: args.incarnation,
        component: args.component,
        key: args.key,
        after: args.after.map(span::on_wire),
        reason: args.reason.clone(),
        request_id: args.request_id,
        ..context.of_unit(&target)
    };
    let answer = context.change(request).await?;
    let revision = answer.revision;
    say(&match args.after {
        Some(after) => {
            let (after, reason) = (span::exact(after), marked(": ", &args.reason));
            format!("callback of {what} in {after}{reason} (revision {revision})")
        }
        None if answer.changed => format!("cancelled the callback of {what} (revision {revision})"),
        None => format!("no change: {what} had no such callback"),
    });
    Ok(())
}
