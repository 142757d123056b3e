//! `bellwether unmark APP ID`: removes a mark.

use crate::cli::context::{Context, say, say_dry};
use crate::cli::exit::NotFoundError;
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
    /// Only say what would be removed
    #[arg(long)]
    dry_run: bool,
}

/// Removes the mark, and prints the result.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let application = Target::application_only(&args.application)?;
    if args.dry_run {
        let client = context.connect().await?;
        let marks = client.list_marks(&context.namespace(), &application).await?;
        if !marks.iter().any(|mark| mark.mark_id == args.id) {
            return Err(NotFoundError(format!("{application} has no mark {}", args.id)).into());
        }
        let id = &args.id;
        say_dry(&format!("would remove mark {id} of {application}"));
        return Ok(());
    }
    let mark_id = args.id.clone();
    let request = RemoveMarkRequest { mark_id, ..context.of_application(&application) };
    let answer = context.change(request).await?;
    say(&format!("removed mark {} of {application} (revision {})", args.id, answer.revision));
    Ok(())
}
