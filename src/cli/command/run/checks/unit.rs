//! The session of a unit that has checks: it reports what they find, and ends with the program, so
//! that the unit turns stale.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_client::worker::{self, Acknowledged, CollectAnswer, Event, Options};
use bellwether_client::{Security, Worker};
use tokio::sync::{mpsc, oneshot};

use crate::cli::command::run::checks::outcome::Outcome;
use crate::cli::context::{Context, say};
use crate::cli::incarnation;
use crate::cli::target::UnitTarget;

/// What a check found, for the session of its unit.
pub struct PluginFinding {
    /// The component of the check.
    pub component: String,
    /// What it found.
    pub outcome: Outcome,
    /// Waits until the server has it.
    pub done: Option<oneshot::Sender<()>>,
}

/// The requests to run a check now, by component.
pub type Requests = BTreeMap<String, mpsc::Sender<oneshot::Sender<()>>>;

/// A unit with checks.
pub struct CheckedUnit {
    target: UnitTarget,
    server: String,
    namespace: String,
    security: Security,
    requests: Arc<Requests>,
    /// The newest outcomes, for a session with another incarnation.
    newest: BTreeMap<String, Outcome>,
    /// Whether the loss of the session was said.
    is_away: bool,
}

impl CheckedUnit {
    /// Creates the unit.
    pub fn new(target: UnitTarget, requests: Requests, context: &Context) -> CheckedUnit {
        CheckedUnit {
            target,
            server: context.server.clone(),
            namespace: context.namespace(),
            security: context.security.clone(),
            requests: Arc::new(requests),
            newest: BTreeMap::new(),
            is_away: false,
        }
    }

    /// Reports what is found, until there is nothing more to come or the unit is removed.
    ///
    /// # Errors
    /// If the server refuses the unit for good.
    pub async fn run(mut self, mut found: mpsc::Receiver<PluginFinding>) -> anyhow::Result<()> {
        // As in `attend`: the server names the current incarnation, which other commands of the
        // unit have, instead of ending it.
        let mut current = 0;
        loop {
            let options = Options::new(&self.server, &self.target.application, &self.target.unit)
                .namespace(&self.namespace)
                .security(self.security.clone())
                .incarnation(current);
            let requests = self.requests.clone();
            let worker = Worker::connect_answering(options, move |question| {
                answer(requests.clone(), question.recompute, question.component)
            })?;
            for outcome in self.newest.values() {
                drop(send(&worker, outcome));
            }
            let ended = self.serve(&worker, &mut found).await;
            let lost = format!("{} is not checked any more", self.target.unit);
            match incarnation::next(worker, ended, current, &lost).await? {
                Some(newer) => current = newer,
                None => return Ok(()),
            }
        }
    }

    /// Serves one worker. Returns why it ended; `None` if no check is left.
    async fn serve(
        &mut self,
        worker: &Worker,
        found: &mut mpsc::Receiver<PluginFinding>,
    ) -> Option<worker::Error> {
        let mut events = worker.events();
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.take(event),
                    None => return Some(worker.over().await),
                },
                finding = found.recv() => {
                    let PluginFinding { component, outcome, done } = finding?;
                    let acknowledged = send(worker, &outcome);
                    self.newest.insert(component, outcome);
                    if let Some(done) = done {
                        tokio::spawn(async move { acknowledged.await.map(|_| done.send(())) });
                    }
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        let unit = &self.target.unit;
        match event {
            Event::Connected { .. } => self.is_away = false,
            Event::Disconnected { error, pause } if !self.is_away => {
                say(&format!("no session for {unit}: {error}; again in {pause:?}"));
                self.is_away = true;
            }
            Event::Rejected { component, refusal, .. } => {
                say(&format!("the server refuses what {component} of {unit} found: {refusal}"));
            }
            _ => {}
        }
    }
}

/// Sends an outcome. A state that is known also ends the errors of the plugin.
fn send(worker: &Worker, outcome: &Outcome) -> Acknowledged {
    match outcome {
        Outcome::Known(status) => {
            drop(worker.resolve_error(&status.component, "", ""));
            worker.set_status(status.as_ref().clone())
        }
        Outcome::Failed(error) => worker.report_error(error.as_ref().clone()),
    }
}

/// Answers a question of the server: if the statuses must be computed again, the checks run first.
/// A set from here could overwrite what other commands of the unit report.
async fn answer(
    requests: Arc<Requests>,
    recompute: bool,
    component: Option<String>,
) -> CollectAnswer {
    if recompute {
        let is_asked = |name: &String| component.as_ref().is_none_or(|asked| asked == name);
        let mut waits = Vec::new();
        for (_, request) in requests.iter().filter(|(name, _)| is_asked(name)) {
            let (done, is_done) = oneshot::channel();
            if request.send(done).await.is_err() {
                return CollectAnswer::Nothing;
            }
            waits.push(is_done);
        }
        for is_done in waits {
            if is_done.await.is_err() {
                return CollectAnswer::Nothing;
            }
        }
    }
    CollectAnswer::Unchanged
}
