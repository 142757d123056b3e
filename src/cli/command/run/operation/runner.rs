//! The steps of an operation that this process holds.

use std::ffi::OsString;
use std::time::Duration;

use bellwether_client::Client;
use tokio::time::timeout;

use crate::cli::command::run::keeper::boot_clock;
use crate::cli::command::run::operation::failure;
use crate::cli::command::run::operation::held::{Held, Revoked};
use crate::cli::command::run::operation::kept::{self, Report, Task, TaskEnd};
use crate::cli::command::run::operation::recipe::Script;
use crate::cli::command::run::operation::result::Outcome;
use crate::cli::command::run::operation::settle::Settler;
use crate::cli::command::run::operation::signals::StopSignals;
use crate::cli::command::run::operation::work::CommandWork;
use crate::cli::context::{Context, say};
use crate::cli::exit::{Exit, NotThisUnitError};
use crate::cli::render::operation::state_word;
use crate::cli::render::text::marked;
use crate::proto::v1::{ErrorReport, Observed, Operation, OperationState};

/// The longest time that a script of `--verify` may take.
const VERIFY_MAX: Duration = Duration::from_secs(600);

/// The error of a command that exits with 0 too early.
const NOT_DONE: &str = "the command exited with 0, and the recipe says that the work is not done";

/// What a script says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScriptAnswer {
    Yes,
    No,
    Unknown,
}

/// The work with its lease.
pub struct Runner<'a> {
    work: &'a CommandWork,
    client: Client,
    held: Held,
    stop: StopSignals,
    /// For the environment of the command.
    variables: Vec<(String, OsString)>,
    /// What the interrupted run stored.
    checkpoint: OsString,
}

impl<'a> Runner<'a> {
    /// Begins the heartbeats of an operation.
    ///
    /// # Errors
    /// If the system refuses to make this process the parent of orphans.
    pub fn new(
        work: &'a CommandWork,
        client: Client,
        operation: Operation,
        sent: Duration,
        stop: StopSignals,
        context: &Context,
    ) -> anyhow::Result<Runner<'a>> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let own = context.variables().into_iter();
        let mut variables: Vec<_> = own.map(|(name, value)| (name.to_string(), value)).collect();
        for (name, value) in [
            ("NAMESPACE", operation.namespace.clone()),
            ("APPLICATION", operation.application.clone()),
            ("UNIT", operation.holder.clone()),
            ("OPERATION", operation.operation_id.clone()),
            ("TARGET_VERSION", operation.target_version.clone()),
            ("FENCE", operation.fence.to_string()),
        ] {
            variables.push((format!("BELLWETHER_{name}"), value.into()));
        }
        if let Some(stored) = &work.payload.stored {
            let stored = stored.variables.iter();
            variables.extend(stored.map(|(name, value)| (name.clone(), value.into())));
        }
        let checkpoint = String::from_utf8_lossy(&operation.checkpoint).trim().to_string().into();
        let held = Held::new(client.clone(), operation, work.lease, sent);
        Ok(Runner { work, client, held, stop, variables, checkpoint })
    }

    /// Takes the steps from the answer to the end.
    ///
    /// # Errors
    /// If a step fails before the command runs, or its result cannot be recorded.
    pub async fn run(&mut self, is_resumed: bool) -> anyhow::Result<Outcome> {
        let before = match is_resumed {
            true => self.take_up().await,
            false => Ok(None),
        };
        match before {
            Ok(None) => {}
            Ok(Some(outcome)) => return Ok(outcome),
            Err(error) => return self.give_back(error).await,
        }
        if let Err(error) = self.save_checkpoint().await {
            return self.give_back(error).await;
        }
        if self.stop.is_stopped {
            return self.give_back(anyhow::anyhow!("stopped by a signal")).await;
        }
        let name = self.work.payload.program.clone();
        let task = Task {
            command: &self.work.command,
            variables: &self.variables,
            name: Some(&name),
            time_max: None,
        };
        let report = kept::run(task, &mut self.held, self.work.lease, &mut self.stop).await;
        match report {
            Ok(report) => self.settle(&report).await,
            Err(error) => self.give_back(error).await,
        }
    }

    /// Finds out how far an interrupted run came. Returns a result if nothing is left to do.
    async fn take_up(&mut self) -> anyhow::Result<Option<Outcome>> {
        let operation = &self.held.operation;
        say(&format!(
            "operation {} to {} is resumed, with fence {}",
            operation.operation_id, operation.target_version, operation.fence
        ));
        let work = self.work;
        if let Some(detect) = &work.recipe.detect {
            match self.ask(detect).await? {
                ScriptAnswer::Yes => self.unlock().await?,
                ScriptAnswer::No => {}
                ScriptAnswer::Unknown => anyhow::bail!(
                    "the recipe cannot tell whether the work is stuck by this operation: look at \
                     it, then run again"
                ),
            }
        }
        if self.held.operation.state() != OperationState::Verifying {
            return Ok(None);
        }
        let observed = self.observe().await?;
        let operation = self.settler().verify(observed).await?;
        let id = &operation.operation_id;
        match (observed, operation.state()) {
            (Observed::Applied, _) => {
                let sentence = format!("operation {id} had been done when its run was interrupted");
                Ok(Some(Outcome::without_command(Exit::Ok, &operation, sentence)))
            }
            (_, OperationState::Running) => Ok(None),
            (_, state) => {
                let sentence = format!(
                    "operation {id} is {}: how far the interrupted run came is not known",
                    state_word(state.into())
                );
                Ok(Some(Outcome::without_command(Exit::Failed, &operation, sentence)))
            }
        }
    }

    /// Asks `--verify`, else the recipe, whether the work is done.
    async fn observe(&mut self) -> anyhow::Result<Observed> {
        let work = self.work;
        let answer = match (&work.verify, &work.recipe.done) {
            (Some(line), _) => {
                let command = ["sh".to_string(), "-c".to_string(), line.clone()];
                answer_of(&self.script(&command, VERIFY_MAX).await?)
            }
            (None, Some(done)) => self.ask(done).await?,
            (None, None) if work.recipe.detect.is_some() => ScriptAnswer::No,
            (None, None) => anyhow::bail!(
                "an earlier run was interrupted, and how far it came is not known: give --verify \
                 CMD, which exits with 0 if the work is done and with 1 if not, or --deterministic"
            ),
        };
        Ok(match answer {
            ScriptAnswer::Yes => Observed::Applied,
            ScriptAnswer::No => Observed::NotApplied,
            ScriptAnswer::Unknown => Observed::Undetermined,
        })
    }

    async fn unlock(&mut self) -> anyhow::Result<()> {
        let work = self.work;
        let Some(unlock) = &work.recipe.unlock else { return Ok(()) };
        say("the work is stuck by the interrupted run, and is freed");
        match self.ask(unlock).await? {
            ScriptAnswer::Yes => Ok(()),
            _ => anyhow::bail!("the work could not be freed: see above, then run again"),
        }
    }

    async fn save_checkpoint(&mut self) -> anyhow::Result<()> {
        let work = self.work;
        let Some(script) = &work.recipe.checkpoint else { return Ok(()) };
        let command = work.recipe.command(script, &work.command);
        let time_max = script.time_max().unwrap_or_default();
        let report = self.script(&command, time_max).await?;
        anyhow::ensure!(
            answer_of(&report) == ScriptAnswer::Yes,
            "the checkpoint of the recipe failed"
        );
        let stored = timeout(work.lease.length, self.held.store(report.out.into())).await;
        let is_stored = stored.unwrap_or(false);
        anyhow::ensure!(is_stored, "the operation was lost before its command began");
        Ok(())
    }

    /// Runs a script of the recipe.
    async fn ask(&mut self, script: &Script) -> anyhow::Result<ScriptAnswer> {
        let work = self.work;
        let command = work.recipe.command(script, &work.command);
        let time_max = script.time_max().unwrap_or_default();
        Ok(answer_of(&self.script(&command, time_max).await?))
    }

    async fn script(&mut self, command: &[String], time_max: Duration) -> anyhow::Result<Report> {
        let mut variables = self.variables.clone();
        variables.push(("BELLWETHER_CHECKPOINT".to_string(), self.checkpoint.clone()));
        let task = Task { command, variables: &variables, name: None, time_max: Some(time_max) };
        let report = kept::run(task, &mut self.held, self.work.lease, &mut self.stop).await?;
        anyhow::ensure!(!self.stop.is_stopped, "stopped by a signal");
        Ok(report)
    }

    /// Records how the command ended.
    async fn settle(&mut self, report: &Report) -> anyhow::Result<Outcome> {
        let code = report.end.code();
        if let Some(Revoked::Refused(why)) = self.held.is_revoked() {
            let text = format!("the command was ended, because the operation was lost: {why}");
            return Err(NotThisUnitError(text).into());
        }
        let work = self.work;
        let is_done = match (report.end, &work.recipe.done) {
            (TaskEnd::Exit(0), Some(done)) if !self.stop.is_stopped => {
                self.ask(done).await.unwrap_or(ScriptAnswer::Unknown)
            }
            // A command that was asked to end may exit with 0 before its work is done.
            (TaskEnd::Exit(0), None) if !self.is_asked_to_end() => ScriptAnswer::Yes,
            _ => ScriptAnswer::No,
        };
        let is_asked = self.is_asked_to_end();
        let settler = self.settler();
        let (settled, what) = match (report.end, is_done) {
            (_, ScriptAnswer::Yes) => (settler.complete().await, "is done"),
            _ if is_asked || report.end == TaskEnd::Unkept => {
                (settler.release().await, "is handed over to the next run")
            }
            (TaskEnd::Exit(0), _) => {
                let error = ErrorReport { message: NOT_DONE.into(), ..ErrorReport::default() };
                (settler.fail(error, true).await, "is not done")
            }
            _ => {
                let (error, touched) = failure::report(code, &report.lines, &work.recipe);
                (settler.fail(error, touched).await, "failed")
            }
        };
        match settled {
            Ok(operation) => Ok(result_of(code, is_done, &operation, what)),
            // The lease ends without this, and the next run finds out how far the work came.
            Err(error) if code != 0 => {
                let held = &self.held.operation;
                let id = &held.operation_id;
                let sentence = format!("the end of operation {id} is not recorded: {error}");
                Ok(Outcome::of_command(code, held, sentence))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns whether the end of the command was asked for: by a signal, by a cancel, or by its
    /// keeper because no heartbeat was acknowledged.
    fn is_asked_to_end(&self) -> bool {
        let is_late = self.work.lease.term_at(*self.held.renewed.borrow()) <= boot_clock::now();
        is_late || self.stop.is_stopped || self.held.is_revoked().is_some()
    }

    /// Releases the operation after an error before its command ran.
    async fn give_back(&mut self, error: anyhow::Error) -> anyhow::Result<Outcome> {
        if let Some(Revoked::Refused(why)) = self.held.is_revoked() {
            return Err(NotThisUnitError(format!("the operation was lost: {why}")).into());
        }
        if let Err(refused) = self.settler().release().await {
            say(&format!("the operation is not released, and waits for its lease: {refused}"));
        }
        Err(error)
    }

    fn settler(&self) -> Settler {
        Settler {
            client: self.client.clone(),
            operation: self.held.operation.clone(),
            until: *self.held.renewed.borrow() + self.work.lease.length,
        }
    }
}

fn result_of(code: u8, is_done: ScriptAnswer, operation: &Operation, what: &str) -> Outcome {
    let Operation { operation_id: id, target_version: target, .. } = operation;
    let state = state_word(operation.state);
    let next = marked("; next: ", &operation.next_step);
    let sentence = format!("operation {id} to {target} {what} ({state}){next}");
    match (code, is_done) {
        // The work is not done, so the run has not succeeded.
        (0, ScriptAnswer::No | ScriptAnswer::Unknown) => {
            Outcome::without_command(Exit::Failed, operation, sentence)
        }
        (code, _) => Outcome::of_command(code, operation, sentence),
    }
}

fn answer_of(report: &Report) -> ScriptAnswer {
    match report.end {
        TaskEnd::Exit(0) => ScriptAnswer::Yes,
        TaskEnd::Exit(1) => ScriptAnswer::No,
        _ => ScriptAnswer::Unknown,
    }
}
