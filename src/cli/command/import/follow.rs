//! Imports again and again, and shows in `status` when an import fails.

use std::time::Duration;

use bellwether_client::proto::OfUnit;
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::command::import::carry_out::once;
use crate::cli::command::import::facts::Meaning;
use crate::cli::command::import::format::Format;
use crate::cli::command::import::outcome::{ImportOutcome, names, say_notes, say_result};
use crate::cli::command::import::plan::Options;
use crate::cli::command::import::source;
use crate::cli::context::{Context, say};
use crate::cli::exit::Exit;
use crate::cli::span;
use crate::proto::v1::{Level, ReplaceStatusesRequest, StatusReport};

/// Imports what the command prints until interrupted. After a failure the last import stays in
/// place until its ttl passes, an application such as `import.juju` shows the failure, and the next
/// turn tries again.
pub async fn follow(
    every: Duration,
    command: &[String],
    format: &Format,
    options: Options,
    context: &Context,
) -> anyhow::Result<Exit> {
    context.connect().await?;
    let mut turns = interval(every);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut follower = Follower {
        context,
        format,
        options,
        namespace: context.namespace.clone().or_else(|| format.own_namespace.clone()),
        last: None,
        pause: span::exact(every),
    };
    loop {
        turns.tick().await;
        let result = match source::read_command(command, format.bytes_max).await {
            Ok(text) => follower.import(&text).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            follower.fail(&error).await;
        }
    }
}

/// The state between two imports.
struct Follower<'a> {
    context: &'a Context,
    format: &'a Format,
    options: Options,
    /// The namespace, once it is known.
    namespace: Option<String>,
    last: Option<ImportOutcome>,
    /// The time between two imports, in words.
    pause: String,
}

impl Follower<'_> {
    async fn import(&mut self, text: &str) -> anyhow::Result<()> {
        let facts = (self.format.read)(text)?;
        let origin = &self.format.origin;
        let (namespace, outcome) = once(facts, origin, self.options, self.context).await?;
        if namespace.is_some() {
            self.namespace.clone_from(&namespace);
        }
        let last = self.last.as_ref();
        if last.is_none() {
            say_notes(&outcome);
        } else if last.is_some_and(|last| last.notes != outcome.notes) {
            outcome.notes.iter().for_each(|note| say(&format!("note: {note}")));
        }
        if last.is_none() || outcome.is_news() {
            say_result(&outcome, namespace.as_deref());
        }
        let is_kept_anew = last.is_none_or(|last| last.kept != outcome.kept);
        if let Err(error) = outcome.check_kept(self.format.whole) {
            if is_kept_anew {
                say(&format!("error: {error:#}"));
            }
            let lacking = names(&outcome.kept);
            let message = format!("the document lacks more than half of the imported: {lacking}");
            let meaning = Meaning::new(Level::Blocked, "ImportIncomplete", &message);
            let whole = self.format.whole;
            let action = format!("import {whole}, or start the import with --prune");
            self.show(StatusReport { action, ..meaning.of("import") }).await;
        }
        self.last = Some(outcome);
        Ok(())
    }

    async fn fail(&mut self, error: &anyhow::Error) {
        let pause = &self.pause;
        say(&format!("error: {error:#}; the last import stays, trying again in {pause}"));
        let message = format!("the import fails, so what it reported is old: {error:#}");
        let meaning = Meaning::new(Level::Waiting, "ImportFailed", &message);
        self.show(meaning.of("import")).await;
    }

    /// Shows the state of the import as an application. A failure to do so was said already: it is
    /// the server that does not answer.
    async fn show(&self, report: StatusReport) {
        let Some(namespace) = &self.namespace else { return };
        let mut statuses = vec![report];
        let origin = &self.format.origin;
        origin.mark(&mut statuses, self.options.ttl);
        let (application, unit) = (origin.application(), origin.unit());
        let request = ReplaceStatusesRequest {
            statuses,
            ..ReplaceStatusesRequest::of_unit(namespace, &application, &unit)
        };
        if let Ok(client) = self.context.connect().await {
            let _ = client.call(request).await;
        }
    }
}
