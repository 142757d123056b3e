//! `bellwether namespaces`: the namespaces that have applications, and how these are.

use jiff::Timestamp;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::render::namespaces::render;
use crate::proto::v1::ListNamespacesResponse;

/// List the namespaces that have applications, with counts and the worst application of each
#[derive(clap::Args)]
pub struct Args {}

/// Asks the server and prints the namespaces.
pub async fn run(Args {}: Args, context: &Context) -> anyhow::Result<()> {
    let client = context.connect().await?;
    let namespaces = client.list_namespaces().await?;
    let list = ListNamespacesResponse { namespaces, ..ListNamespacesResponse::default() };
    context.print_message(&list, "ListNamespacesResponse", || {
        if list.namespaces.is_empty() {
            say("there are no namespaces with applications that you may list");
            return Ok(());
        }
        print(&render(&list.namespaces, Timestamp::now(), screen()))
    })
}
