//! `bellwether unmark APP ID`: removes a mark.

use crate::cli::context::{Context, say};
use crate::cli::target::Target;
use crate::proto::v1::RemoveMarkRequest;

/// Remove a mark of an application before its end
#[derive(clap::Args)]
pub struct Args {
    /// The application
    #[arg(value_name = "APP", add = crate::cli::completion::applications())]
    application: String,
    /// The id of the mark, as `marks` prints it
    #[arg(value_name = "ID")]
    id: String,
}

/// Removes the mark, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let application = Target::application_only(&args.application)?;
    let mark_id = args.id.clone();
    let request = RemoveMarkRequest { mark_id, ..context.of_application(&application) };
    let answer = context.change(request).await?;
    say(&format!("removed mark {} of {application} (revision {})", args.id, answer.revision));
    Ok(())
}
