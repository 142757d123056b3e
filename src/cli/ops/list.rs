//! `bellwether ops list APP`: the operations of an application, the latest first.

use jiff::Timestamp;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::exit::Exit;
use crate::cli::render;
use crate::cli::target::Target;
use crate::proto::v1::{ListOperationsRequest, ListOperationsResponse};

/// List the operations of an application, the latest first
#[derive(clap::Args)]
pub struct Args {
    /// The application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: String,
}

/// Asks the server and prints the list. An application keeps fewer operations than a page has.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<Exit> {
    let client = context.connect().await?;
    let request = client.request(ListOperationsRequest {
        namespace: context.namespace(),
        application: Target::parse(&args.application)?.application,
        ..ListOperationsRequest::default()
    });
    let answer = client.operations().list_operations(request).await;
    let answer: ListOperationsResponse = client.answer(answer)?;
    if context.print_message(&answer, "ListOperationsResponse")? {
        return Ok(Exit::Ok);
    }
    if answer.operations.is_empty() {
        say(&format!("{} has no operations", args.application));
    } else {
        print(&render::operation::list(&answer.operations, Timestamp::now(), screen()))?;
    }
    Ok(Exit::Ok)
}
