//! `watch --exec`: runs a command for each change, one at a time.
//!
//! Changes that arrive together, or while a command runs, become one for each application, with the
//! newest state. So there are never more pending runs than applications.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use bellwether_client::Watch;
use indexmap::IndexMap;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use crate::cli::command::watch::change::{KnownLevels, LevelChange};
use crate::cli::context::{Context, say};
use crate::cli::outage::Outage;

/// Changes within this time are merged.
const SETTLE: Duration = Duration::from_millis(100);

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
}

impl Exec {
    /// Creates a runner for a command with its arguments.
    pub fn new(command: Vec<String>, context: &Context) -> Exec {
        let (pending, settled) = (IndexMap::new(), Instant::now());
        Exec { command, variables: context.variables(), pending, settled, running: None }
    }

    /// Follows until interrupted, or until the command cannot be started.
    ///
    /// # Errors
    /// Those of the watch, and if the command cannot be started.
    pub async fn run(&mut self, mut watch: Watch) -> anyhow::Result<()> {
        let (mut outage, mut known) = (Outage::default(), KnownLevels::default());
        loop {
            let may_start = self.running.is_none() && !self.pending.is_empty();
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
                () = sleep_until(self.settled), if may_start => self.start()?,
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

    fn start(&mut self) -> anyhow::Result<()> {
        let Some((_, change)) = self.pending.shift_remove_index(0) else { return Ok(()) };
        let [program, arguments @ ..] = self.command.as_slice() else { return Ok(()) };
        let child = Command::new(program)
            .args(arguments)
            .envs(self.variables.iter().cloned())
            .envs(change.variables())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run `{program}`"))?;
        self.running = Some(child);
        Ok(())
    }
}

/// Waits for the end of the command; forever if none runs.
async fn ended(running: &mut Option<Child>) -> std::io::Result<ExitStatus> {
    match running {
        Some(child) => child.wait().await,
        None => std::future::pending().await,
    }
}
