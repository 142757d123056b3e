//! `bellwether why APP`: the winner, the rule, everything it beat, and the last events.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::timeout;

use crate::cli::context::{Context, print, screen};
use crate::cli::unit::AppArgs;
use crate::cli::{render, span};
use crate::proto::v1::{ExplainApplicationRequest, ListStatusEventsRequest, StatusEvent};

/// How many events to show.
const EVENTS: i32 = 3;

/// How long the events may take: the answer is of use without them.
const EVENTS_TIMEOUT: Duration = Duration::from_secs(1);

/// Say why an application is as it is: the status that won, the rule, what it beat, what to do
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    application: AppArgs,

    /// How many beaten statuses to list
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(i32).range(1..=1000))]
    limit: i32,
}

/// Asks the server and prints the explanation.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    // A unit names its application here.
    let application = args.application.name()?;
    let request =
        ExplainApplicationRequest { page_size: args.limit, ..context.of_application(&application) };
    if context.output.is_structured() {
        let why = context.call(request).await?;
        return context.print_message(&why, "ExplainApplicationResponse", || Ok(()));
    }
    let (why, events) = tokio::join!(context.call(request), last_events(&application, context));
    let why = why?;
    let hint = |command: &str| context.hint(command);
    print(&render::why::render(&why, &events, Timestamp::now(), screen(), &hint))?;
    Ok(())
}

/// Returns the last events, the newest first, or why they are not known.
async fn last_events(application: &str, context: &Context) -> Result<Vec<StatusEvent>, String> {
    let request =
        ListStatusEventsRequest { page_size: EVENTS, ..context.of_application(application) };
    match timeout(EVENTS_TIMEOUT, context.call(request)).await {
        Ok(answer) => answer.map(|answer| answer.events).map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {}", span::exact(EVENTS_TIMEOUT))),
    }
}
