//! `bellwether log APP[/UNIT]`: prints the history.

mod follow;

use std::time::Duration;

use bellwether_client::proto::OfApplication;
use jiff::Timestamp;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::output::Output;
use crate::cli::render::time;
use crate::cli::target::Target;
use crate::cli::{render, span, suggest};
use crate::proto::v1::{ListStatusEventsRequest, ListStatusEventsResponse};

/// Show the history of an application or of one unit, the newest last
#[derive(clap::Args)]
pub struct Args {
    /// The application, or one unit of it
    #[arg(value_name = "APP[/UNIT]", add = crate::cli::completion::units())]
    target: String,
    /// The application, for units without it in their name (pods)
    #[arg(long, value_name = "APP")]
    application: Option<String>,
    /// How many events at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// Only the last 2h, 3d, ...
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    since: Option<Duration>,
    /// Stay, and print each event as it happens
    #[arg(short, long)]
    follow: bool,
    /// Namespace (here -n is --limit; before the command it is the namespace)
    // The same name as the global option, whose value is therefore not passed on with its `-n`.
    #[arg(long, id = "namespace", value_name = "NAMESPACE", help_heading = "Global options")]
    namespace: Option<String>,
}

/// Prints the history, and with --follow each later event.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let namespace = args.namespace.unwrap_or_else(|| context.namespace());
    let target = match &args.application {
        Some(pod_of) => Target { application: pod_of.clone(), unit: Some(args.target.clone()) },
        None => Target::parse(&args.target)?,
    };
    let query = ListStatusEventsRequest {
        unit: target.unit.unwrap_or_default(),
        after_time: args
            .since
            // A time before the calendar begins means from the start of the history.
            .and_then(|since| Timestamp::now().checked_sub(since).ok())
            .map(time::to_wire),
        ..OfApplication::of_application(&namespace, &target.application)
    };
    let client = context.connect().await?;
    let events = client.list_events(query.clone(), args.limit).await?;
    if events.is_empty() {
        match suggest::check_there(client, &query).await {
            // It may come while the history is followed.
            Err(error) if args.follow => say(&format!("{error}; following it until it comes")),
            checked => checked?,
        }
    }
    if args.follow {
        return follow::run(client, query, events, context).await;
    }
    let answer = ListStatusEventsResponse { events, ..ListStatusEventsResponse::default() };
    context.print_message(&answer, "ListStatusEventsResponse", || {
        if answer.events.is_empty() {
            say(&format!("there are no such events of {}", args.target));
            return Ok(());
        }
        let (wide, now) = (context.output == Output::Wide, Timestamp::now());
        print(&render::log::render(&target.application, &answer.events, wide, now, screen()))
    })
}
