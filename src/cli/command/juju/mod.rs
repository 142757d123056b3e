//! `bellwether import juju`: reports the statuses of `juju status --format json`.
//!
//! ```text
//!  source --text--> document --checked--> plan --steps--> import --calls--> server
//!                                        (facts)  ^--- its current state ---'
//! ```
//!
//! The whole document is read and checked before the first call, so a document with a mistake
//! changes nothing.

mod account;
mod document;
mod facts;
mod follow;
mod import;
mod json;
mod node;
mod outcome;
mod plan;
mod source;
mod status;
mod surroundings;
mod word;

#[cfg(test)]
mod accounted;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use crate::cli::command::juju::import::once;
use crate::cli::command::juju::outcome::{say_notes, say_result};
use crate::cli::command::juju::plan::Options;
use crate::cli::context::Context;
use crate::cli::exit::UsageError;
use crate::cli::span;

/// Limits of a ttl on the wire.
const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(30 * 86_400);

/// An import that comes again and again is valid for this many intervals: one that fails or comes
/// late makes nothing stale.
const INTERVALS_VALID: u32 = 3;

/// Import statuses from another system
#[derive(clap::Subcommand)]
pub enum Source {
    /// Import what `juju status --format json` shows; a repeat reports only changes
    Juju(Args),
}

/// The source of the document.
#[derive(clap::Args)]
pub struct Args {
    /// The document; - or nothing is standard input
    #[arg(conflicts_with = "command")]
    file: Option<PathBuf>,
    /// Run the command after -- again after each SPAN, and import its output
    #[arg(long, value_name = "SPAN", value_parser = span::parse, requires = "command")]
    every: Option<Duration>,
    /// What is imported is stale after SPAN without another import [default: three times --every]
    #[arg(long, value_name = "SPAN", value_parser = span::parse)]
    ttl: Option<Duration>,
    /// Remove what the document lacks even if that is more than half of what was imported
    #[arg(long)]
    prune: bool,
    /// The command that prints the document: juju status --format json
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Reads a document and plans its import into an empty namespace, for tests of another crate.
///
/// # Errors
/// Those of an import.
#[cfg(any(test, feature = "testing"))]
pub fn read_and_plan(text: &str) -> anyhow::Result<()> {
    let document = document::read(text)?;
    let known = std::collections::BTreeMap::new();
    plan::plan(&document, &document.model, &known, Options::default());
    Ok(())
}

/// Imports once, or repeatedly with `--every`.
pub async fn run(source: Source, context: &Context) -> anyhow::Result<()> {
    let Source::Juju(args) = source;
    let options = Options { ttl: ttl(&args)?, prune: args.prune };
    if let Some(every) = args.every {
        return follow::follow(every, &args.command, options, context).await;
    }
    let text = if args.command.is_empty() {
        source::read_file(args.file.as_deref())?
    } else {
        source::read_command(&args.command).await?
    };
    let namespace = context.namespace.as_deref();
    let (namespace, outcome) = once(&document::read(&text)?, namespace, options, context).await?;
    say_notes(&outcome);
    say_result(&outcome, &namespace);
    outcome.check_kept()
}

/// Returns how long the import is valid, checked before the first call.
fn ttl(args: &Args) -> Result<Option<Duration>, UsageError> {
    if args.every.is_some_and(|every| every.is_zero()) {
        return Err(UsageError("--every needs a span longer than nothing".to_string()));
    }
    if args.ttl.is_some_and(|ttl| !(TTL_MIN..=TTL_MAX).contains(&ttl)) {
        return Err(UsageError("--ttl needs a span between 1s and 30d".to_string()));
    }
    let of_every = |every: Duration| every.saturating_mul(INTERVALS_VALID).clamp(TTL_MIN, TTL_MAX);
    Ok(args.ttl.or(args.every.map(of_every)))
}
