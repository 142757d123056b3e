//! `bellwether import juju`: reports the statuses of `juju status --format json`.
//!
//! ```text
//!  source --text--> document --checked--> plan --steps--> import --calls--> server
//!                                          ^----- its current state ---------'
//! ```
//!
//! The whole document is read and checked before the first call, so a document with a mistake
//! changes nothing.

mod document;
mod import;
mod json;
mod node;
mod plan;
mod source;
mod word;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::cli::context::{Context, say};
use crate::cli::exit::UsageError;
use crate::cli::juju::document::Document;
use crate::cli::juju::import::ImportOutcome;
use crate::cli::render::counted;
use crate::cli::span;

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
    plan::plan(&document, &document.model, &std::collections::BTreeMap::new());
    Ok(())
}

/// Imports once, or repeatedly with `--every`.
pub async fn run(source: Source, context: &Context) -> anyhow::Result<()> {
    let Source::Juju(args) = source;
    if let Some(every) = args.every {
        return follow(every, &args.command, context).await;
    }
    let text = if args.command.is_empty() {
        source::read_file(args.file.as_deref())?
    } else {
        source::read_command(&args.command).await?
    };
    let (namespace, outcome) = once(&document::read(&text)?, context).await?;
    outcome.notes.iter().for_each(|note| say(&format!("note: {note}")));
    say(&summary(&outcome, &namespace));
    Ok(())
}

/// Imports repeatedly until interrupted. After a failure the last import stays in place, and the
/// next turn tries again.
async fn follow(every: Duration, command: &[String], context: &Context) -> anyhow::Result<()> {
    if every.is_zero() {
        return Err(UsageError("--every needs a span longer than nothing".to_string()).into());
    }
    context.connect().await?;
    let mut turns = interval(every);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last: Option<ImportOutcome> = None;
    loop {
        turns.tick().await;
        let turn = async {
            let text = source::read_command(command).await?;
            once(&document::read(&text)?, context).await
        };
        match turn.await {
            Ok((namespace, outcome)) => {
                let notes = last.as_ref().map(|last| &last.notes);
                if notes != Some(&outcome.notes) {
                    outcome.notes.iter().for_each(|note| say(&format!("note: {note}")));
                }
                if last.is_none() || outcome.is_news() {
                    say(&summary(&outcome, &namespace));
                }
                last = Some(outcome);
            }
            Err(error) => say(&format!(
                "error: {error:#}; the last import stays, trying again in {}",
                span::exact(every)
            )),
        }
    }
}

async fn once(document: &Document, context: &Context) -> anyhow::Result<(String, ImportOutcome)> {
    let client = context.connect().await?;
    // The document names its model; the namespace of a hook does not matter.
    let namespace = context.namespace.clone().unwrap_or_else(|| document.model.clone());
    let outcome = import::import(client, document, &namespace).await?;
    Ok((namespace, outcome))
}

impl ImportOutcome {
    fn is_news(&self) -> bool {
        !self.changed.is_empty() || !self.removed.is_empty()
    }
}

/// Formats `imported 3 applications, 4 units into namespace tt (2 changed, 1 removed); ...`.
fn summary(outcome: &ImportOutcome, namespace: &str) -> String {
    let news = if outcome.is_news() {
        format!("{} changed, {} removed", outcome.changed.len(), outcome.removed.len())
    } else {
        "nothing changed".to_string()
    };
    let applications = counted(outcome.application_count, "application", "applications");
    let units = counted(outcome.unit_count, "unit", "units");
    format!(
        "imported {applications}, {units} into namespace {namespace} ({news}); \
         see: bellwether -n {namespace} status"
    )
}
