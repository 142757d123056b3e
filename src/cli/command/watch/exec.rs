//! `watch --exec`: runs a command for each change, one at a time.
//!
//! Changes that arrive together, or while a command runs, become one for each application, with the
//! newest state. So there are never more pending runs than applications.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use bellwether_client::{Client, Watch};
use indexmap::IndexMap;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use crate::cli::command::watch::change::{KnownLevels, LevelChange};
use crate::cli::command::watch::resume::Resume;
use crate::cli::context::{Context, say};
use crate::cli::explanation;
use crate::cli::outage::Outage;
use crate::cli::render::causes;
use crate::proto::v1::WatchApplicationsRequest;

/// Changes within this time are merged.
const SETTLE: Duration = Duration::from_millis(100);

/// Lines of the causes.
const CAUSES_MAX: usize = 8;

/// The command to run, and the changes that wait for it.
pub struct Exec {
    command: Vec<String>,
    /// Variables with the server and the credentials, so that `bellwether` in the command uses
    /// the same ones.
    variables: Vec<(&'static str, OsString)>,
    pending: IndexMap<(String, String), LevelChange>,
    /// The time at which the oldest pending change may run.
    settled: Instant,
    running: Option<Child>,
    client: Client,
}

impl Exec {
    /// Creates a runner for a command with its arguments.
    pub fn new(command: Vec<String>, client: &Client, context: &Context) -> Exec {
        let (pending, settled) = (IndexMap::new(), Instant::now());
        let (variables, client) = (context.variables(), client.clone());
        Exec { command, variables, pending, settled, running: None, client }
    }

    /// Follows until interrupted, or until the command cannot be started. With a file it continues
    /// where the last process was.
    ///
    /// # Errors
    /// Those of the watch and of the file, and if the command cannot be started.
    pub async fn run(
        &mut self,
        request: WatchApplicationsRequest,
        file: Option<PathBuf>,
    ) -> anyhow::Result<()> {
        let mut outage = Outage::default();
        let (mut resume, mut watch, mut known) = match file {
            Some(path) => {
                let (resume, watch, known) = Resume::start(path, &self.client, request)?;
                (Some(resume), watch, known)
            }
            None => (None, Watch::new(&self.client, request), KnownLevels::default()),
        };
        loop {
            let is_idle = self.running.is_none() && self.pending.is_empty();
            let may_start = self.running.is_none() && !self.pending.is_empty();
            let saves_at = resume.as_ref().map_or(self.settled, Resume::next_at);
            tokio::select! {
                event = watch.next() => {
                    let event = event?;
                    outage.tell(&event);
                    if let Some(change) = known.take(&event) {
                        self.take(change);
                    }
                }
                ended = ended(&mut self.running) => {
                    self.running = None;
                    match ended {
                        Ok(status) if status.success() => {}
                        Ok(status) => say(&format!("`{}`: {status}", self.command.join(" "))),
                        Err(error) => say(&format!("`{}`: {error}", self.command.join(" "))),
                    }
                }
                () = sleep_until(self.settled), if may_start => self.start().await?,
                () = sleep_until(saves_at), if is_idle && resume.is_some() => {
                    if let Some(resume) = &mut resume {
                        resume.save(&watch, &known)?;
                    }
                }
            }
        }
    }

    fn take(&mut self, change: LevelChange) {
        if !change.is_news() {
            return;
        }
        if self.pending.is_empty() {
            self.settled = Instant::now() + SETTLE;
        }
        match self.pending.get_mut(&change.name) {
            Some(waiting) => waiting.merge(change),
            None => drop(self.pending.insert(change.name.clone(), change)),
        }
    }

    async fn start(&mut self) -> anyhow::Result<()> {
        let Some((_, change)) = self.pending.shift_remove_index(0) else { return Ok(()) };
        let because = self.because(&change).await;
        let [program, arguments @ ..] = self.command.as_slice() else { return Ok(()) };
        let child = Command::new(program)
            .args(arguments)
            .envs(self.variables.iter().cloned())
            .envs(change.variables(&because))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run `{program}`"))?;
        self.running = Some(child);
        Ok(())
    }

    /// Returns the chain from an application that needs something to its first causes.
    async fn because(&self, change: &LevelChange) -> Vec<String> {
        if change.application.as_ref().is_none_or(|application| application.needs.is_empty()) {
            return Vec::new();
        }
        let explained = explanation::soon(&self.client, &change.name.0, &change.name.1).await;
        let lines = |why| causes::plain(&why, jiff::Timestamp::now(), CAUSES_MAX);
        explained.map(lines).unwrap_or_default()
    }
}

/// Waits for the end of the command; forever if none runs.
async fn ended(running: &mut Option<Child>) -> std::io::Result<ExitStatus> {
    match running {
        Some(child) => child.wait().await,
        None => std::future::pending().await,
    }
}
