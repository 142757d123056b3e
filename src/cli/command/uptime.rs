//! `bellwether uptime APP`: how long an application was well.

use std::time::Duration;

use bellwether_client::proto::OfApplication;
use jiff::Timestamp;

use crate::cli::context::{Context, print_plain};
use crate::cli::render::{time, uptime};
use crate::cli::span;
use crate::cli::target::Target;
use crate::proto::v1::GetUptimeRequest;

/// Show how long an application was well, from its history
#[derive(clap::Args)]
pub struct Args {
    /// The application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: String,
    /// How far back: 30d, 12h; at most 400d
    #[arg(long, value_name = "SPAN", default_value = "30d", value_parser = span::parse)]
    since: Duration,
    /// End of the range, as long ago: 7d; default: now
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    until: Option<Duration>,
}

/// Asks the server and prints the times.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let name = Target::application_only(&args.application)?;
    let now = Timestamp::now();
    // A time before the calendar begins is refused by the server, as too long ago.
    let ago = |span: Duration| now.checked_sub(span).unwrap_or(Timestamp::UNIX_EPOCH);
    let request = GetUptimeRequest {
        start: Some(time::to_wire(ago(args.since))),
        end: args.until.map(|until| time::to_wire(ago(until))),
        ..GetUptimeRequest::of_application(&context.namespace(), &name)
    };
    let answer = context.call(request).await?;
    context.print_message(&answer, "GetUptimeResponse", || {
        print_plain(&uptime::render(&name, &answer))
    })
}
