//! Imports again and again, and shows in `status` when an import fails.

use std::time::Duration;

use bellwether_client::proto::OfUnit;
use tokio::time::{MissedTickBehavior, interval};

use crate::cli::command::juju::import::once;
use crate::cli::command::juju::outcome::{ImportOutcome, names, say_notes, say_result};
use crate::cli::command::juju::plan::{IMPORT, Options};
use crate::cli::command::juju::word::{self, Meaning};
use crate::cli::command::juju::{document, source};
use crate::cli::context::{Context, say};
use crate::cli::span;
use crate::proto::v1::{Level, ReplaceStatusesRequest, StatusReport};

/// Imports what the command prints until interrupted. After a failure the last import stays in
/// place until its ttl passes, the application `import.juju` shows the failure, and the next turn
/// tries again.
pub async fn follow(
    every: Duration,
    command: &[String],
    options: Options,
    context: &Context,
) -> anyhow::Result<()> {
    context.connect().await?;
    let mut turns = interval(every);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut follower = Follower {
        context,
        options,
        namespace: context.namespace.clone(),
        last: None,
        pause: span::exact(every),
    };
    loop {
        turns.tick().await;
        let result = match source::read_command(command).await {
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
    options: Options,
    /// The namespace, once it is known.
    namespace: Option<String>,
    last: Option<ImportOutcome>,
    /// The time between two imports, in words.
    pause: String,
}

impl Follower<'_> {
    async fn import(&mut self, text: &str) -> anyhow::Result<()> {
        let document = document::read(text)?;
        let given = self.context.namespace.as_deref();
        let (namespace, outcome) = once(&document, given, self.options, self.context).await?;
        self.namespace = Some(namespace.clone());
        let last = self.last.as_ref();
        if last.is_none() {
            say_notes(&outcome);
        } else if last.is_some_and(|last| last.notes != outcome.notes) {
            outcome.notes.iter().for_each(|note| say(&format!("note: {note}")));
        }
        if last.is_none() || outcome.is_news() {
            say_result(&outcome, &namespace);
        }
        let is_kept_anew = last.is_none_or(|last| last.kept != outcome.kept);
        if let Err(error) = outcome.check_kept() {
            if is_kept_anew {
                say(&format!("error: {error:#}"));
            }
            let lacking = names(&outcome.kept);
            let message = format!("the document lacks more than half of the imported: {lacking}");
            let meaning = Meaning::new(Level::Blocked, "ImportIncomplete", &message);
            let action = "import the whole model, or start the import with --prune".to_string();
            self.show(StatusReport { action, ..word::labelled("import", meaning) }).await;
        }
        self.last = Some(outcome);
        Ok(())
    }

    async fn fail(&mut self, error: &anyhow::Error) {
        let pause = &self.pause;
        say(&format!("error: {error:#}; the last import stays, trying again in {pause}"));
        let message = format!("the import fails, so what it reported is old: {error:#}");
        let meaning = Meaning::new(Level::Waiting, "ImportFailed", &message);
        self.show(word::labelled("import", meaning)).await;
    }

    /// Shows the state of the import as an application. A failure to do so was said already: it is
    /// the server that does not answer.
    async fn show(&self, report: StatusReport) {
        let Some(namespace) = &self.namespace else { return };
        let mut statuses = vec![report];
        word::limit(&mut statuses, self.options.ttl);
        let request = ReplaceStatusesRequest {
            statuses,
            ..ReplaceStatusesRequest::of_unit(namespace, IMPORT, &format!("{IMPORT}/0"))
        };
        if let Ok(client) = self.context.connect().await {
            let _ = client.call(request).await;
        }
    }
}
