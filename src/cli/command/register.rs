//! `bellwether register APP/UNIT`: gives a unit its incarnation.

use std::time::Duration;

use crate::cli::command::report;
use crate::cli::context::{Context, print_plain, say};
use crate::cli::render::counted;
use crate::cli::span;
use crate::cli::unit::UnitArgs;
use crate::proto::v1::{RegisterUnitRequest, RegisterUnitResponse};

/// Register a unit, and print its incarnation; earlier incarnations are refused from then on
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// Continue this incarnation instead of a new one
    #[arg(long, value_name = "N")]
    previous: Option<u64>,
    /// Promise a call at least this often; after a longer silence the unit is stale: 1s to 30d
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    ttl: Option<Duration>,
    /// The unit gets a new name at each replacement, as a pod
    #[arg(long)]
    stateless: bool,
    /// A label of the unit; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = report::label)]
    labels: Vec<(String, String)>,
    /// Same id within 10 minutes: applied once
    #[arg(long, value_name = "ID", default_value = "", hide_default_value = true)]
    request_id: String,
}

/// Registers the unit, and prints its incarnation.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let target = args.unit.target()?;
    let request = RegisterUnitRequest {
        previous_incarnation: args.previous,
        ttl: args.ttl.map(span::on_wire),
        stateless: args.stateless,
        labels: args.labels.into_iter().collect(),
        request_id: args.request_id,
        ..context.of_unit(&target)
    };
    let answer = context.call(request).await?;
    context.print_message(&answer, "RegisterUnitResponse", || {
        print_plain(&format!("{}\n", answer.incarnation))?;
        found(&answer).iter().for_each(|line| say(line));
        Ok(())
    })
}

/// Returns what the unit finds from before, a line each.
fn found(answer: &RegisterUnitResponse) -> Vec<String> {
    let rest = usize::try_from(answer.retained_rest_count).unwrap_or_default();
    let retained = Some(answer.retained.len() + rest)
        .filter(|count| 0 < *count)
        .map(|count| counted(count, "push status is", "push statuses are") + " kept from before");
    let unfinished = answer.operations.iter().map(|operation| {
        format!("unfinished: operation {} to {}", operation.operation_id, operation.target_version)
    });
    retained.into_iter().chain(unfinished).collect()
}
