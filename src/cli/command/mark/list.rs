//! `bellwether marks`: lists marks.

use jiff::Timestamp;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::render::mark::table;
use crate::cli::target::Target;
use crate::proto::v1::ListMarksResponse;

/// List what is acknowledged and what is planned
#[derive(clap::Args)]
pub struct Args {
    /// Only those of this application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: Option<String>,
    /// Show all namespaces
    #[arg(short = 'A', long, conflicts_with = "application")]
    all_namespaces: bool,
}

/// Asks the server and prints the marks.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let application = args.application.as_deref().map(Target::application_only).transpose()?;
    let namespace = if args.all_namespaces { "-".to_string() } else { context.namespace() };
    let client = context.connect().await?;
    let application = application.unwrap_or_default();
    let marks = client.list_marks(&namespace, &application).await?;
    let list = ListMarksResponse { marks, ..ListMarksResponse::default() };
    context.print_message(&list, "ListMarksResponse", || {
        if list.marks.is_empty() {
            say("no marks: nothing is acknowledged, and no work is planned");
            return Ok(());
        }
        print(&table(&list.marks, args.all_namespaces, Timestamp::now()).render(screen()))
    })
}
