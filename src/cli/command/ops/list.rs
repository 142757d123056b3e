//! `bellwether ops list [APP]`: the operations of one application or of all, the latest first.

use bellwether_client::{Client, Error};
use jiff::Timestamp;

use crate::cli::context::{Context, print, say, screen};
use crate::cli::parallel::{each, unless_gone};
use crate::cli::render;
use crate::cli::render::operation::ListScope;
use crate::cli::target::Target;
use crate::proto::v1::{Application, ListOperationsResponse, Operation};

/// List the operations of an application, or of all applications; the latest first
#[derive(clap::Args)]
pub struct Args {
    /// The application; without it, all applications of the namespace
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: Option<String>,
    /// Show all namespaces
    #[arg(short = 'A', long, conflicts_with = "application")]
    all_namespaces: bool,
}

/// Asks the server and prints the list.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let client = context.connect().await?;
    let namespace = context.namespace();
    let (operations, scope, none) = match &args.application {
        Some(application) => {
            let name = Target::parse(application)?.application;
            let operations = client.list_operations(&namespace, &name).await?;
            (operations, ListScope::Application, format!("{application} has no operations"))
        }
        None if args.all_namespaces => {
            (all(client, "-").await?, ListScope::Everything, "there are no operations".to_string())
        }
        None => {
            let none = format!("there are no operations in namespace {namespace}");
            (all(client, &namespace).await?, ListScope::Namespace, none)
        }
    };
    let answer = ListOperationsResponse { operations, ..ListOperationsResponse::default() };
    context.print_message(&answer, "ListOperationsResponse", || {
        if answer.operations.is_empty() {
            say(&none);
            return Ok(());
        }
        print(&render::operation::list(&answer.operations, Timestamp::now(), scope, screen()))
    })
}

/// Returns the operations of all applications of a namespace, `-` for all namespaces, in the order
/// of the applications.
async fn all(client: &Client, namespace: &str) -> Result<Vec<Operation>, Error> {
    let applications = client.list_applications(namespace).await?;
    let list = async |Application { namespace, name, .. }| {
        unless_gone(client.list_operations(&namespace, &name).await)
    };
    Ok(each(applications, list).await?.concat())
}
