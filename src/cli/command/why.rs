//! `bellwether why APP`: the winner, the rule, and everything it beat.

use jiff::Timestamp;

use crate::cli::context::{Context, print, screen};
use crate::cli::render;
use crate::cli::unit::AppArgs;
use crate::proto::v1::ExplainApplicationRequest;

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
    let why = context.call(request).await?;
    context.print_message(&why, "ExplainApplicationResponse", || {
        let hint = |command: &str| context.hint(command);
        print(&render::why::render(&why, Timestamp::now(), screen(), &hint))
    })
}
