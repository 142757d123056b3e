//! `bellwether attend APP/UNIT`: holds the session of a unit whose hooks come and go, and sends a
//! notification when there is something for a hook to do.
//!
//! ```text
//!         --retry due, released, leader, data-->        --notifications, one by one--> command,
//!  server --collect---------------------------> attend                         Pebble or Juju
//!         <--unchanged, heartbeat--------------                                      |
//!         <--sets, errors, data------------------------------------------------- hook
//! ```
//!
//! The hooks report by calls of their own, so `attend` has no set: it answers each question with
//! "unchanged", and could not overwrite what a hook reported meanwhile.

mod notification;
mod pebble;
mod recipient;

use std::path::PathBuf;
use std::time::Duration;

use bellwether_client::Worker;
use bellwether_client::worker::{self, CollectAnswer, Event, Events, Options};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};

use crate::cli::command::attend::notification::{Notification, Notifications};
use crate::cli::command::attend::recipient::Recipient;
use crate::cli::context::{Context, say};
use crate::cli::exit::UsageError;
use crate::cli::incarnation;
use crate::cli::render::one_line;
use crate::cli::span;
use crate::cli::target::UnitTarget;
use crate::cli::unit::UnitArgs;
use crate::proto::v1::StatusKind;

/// Questions for a new set that wait for their notification. The server asks for one component at a
/// time.
const QUESTIONS_MAX: usize = 16;

/// Hold the session of a unit whose hooks come and go, and notify when a hook has something to do
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("to").required(true).args(["exec", "pebble", "juju_exec"])))]
pub struct Args {
    #[command(flatten)]
    unit: UnitArgs,
    /// Run the command after -- for each notification, with BELLWETHER_EVENT and the facts of the
    /// event in its environment: retry-due, callback-due, need-met, hold-released, leadership,
    /// data-changed or collect
    #[arg(long, requires = "command")]
    exec: bool,
    /// Send a notice to the Pebble at this socket, with the key bellwether.dev/EVENT
    #[arg(long, value_name = "SOCKET")]
    pebble: Option<PathBuf>,
    /// Dispatch an event of the charm by juju-exec
    #[arg(long)]
    juju_exec: bool,
    /// The event that --juju-exec dispatches
    #[arg(long, value_name = "EVENT", default_value = "update-status", requires = "juju_exec")]
    juju_event: String,
    /// How long one notification may take before it counts as failed
    #[arg(
        long,
        alias = "ring-timeout",
        value_name = "SPAN",
        value_parser = span::parse,
        default_value = "10m"
    )]
    notify_timeout: Duration,
    /// The command that --exec runs
    #[arg(last = true, value_name = "CMD", requires = "exec")]
    command: Vec<String>,
}

impl Args {
    fn recipient(&self, target: &UnitTarget, context: &Context) -> Result<Recipient, UsageError> {
        if let Some(socket) = &self.pebble {
            return Ok(Recipient::Pebble(socket.clone()));
        }
        if self.juju_exec {
            let is_event = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            if !self.juju_event.chars().all(is_event) || self.juju_event.is_empty() {
                return Err(UsageError(format!("`{}` is no event of a charm", self.juju_event)));
            }
            let (unit, event) = (target.unit.clone(), self.juju_event.clone());
            return Ok(Recipient::Juju { unit, event });
        }
        let mut variables = context.variables();
        variables.push(("BELLWETHER_NAMESPACE", context.namespace().into()));
        variables.push(("BELLWETHER_APPLICATION", target.application.clone().into()));
        variables.push(("BELLWETHER_UNIT", target.unit.clone().into()));
        Ok(Recipient::Command(self.command.clone(), variables))
    }
}

/// Holds the session until a signal ends it, or the unit is removed.
pub async fn run(args: Args, context: &Context) -> anyhow::Result<()> {
    let target = args.unit.target()?;
    let mut attendant = Attendant {
        notifications: Notifications::new(args.recipient(&target, context)?, args.notify_timeout),
        leader: None,
        etag: None,
        stop: signal(SignalKind::terminate())?,
    };
    // No unit has an incarnation below this one, so the server names the current one if there is
    // one. A new one would fence the calls of the hooks.
    let mut current = 0;
    loop {
        let (ask, asked) = mpsc::channel(QUESTIONS_MAX);
        let options = Options::new(&context.server, &target.application, &target.unit)
            .namespace(&context.namespace())
            .security(context.security.clone())
            .incarnation(current);
        let worker = Worker::connect_answering(options, move |request| {
            answer(ask.clone(), request.recompute, request.component)
        })?;
        let ended = attendant.serve(&worker, asked).await;
        let lost = format!("{} is not attended any more", target.unit);
        match incarnation::next(worker, ended, current, &lost).await? {
            Some(newer) => current = newer,
            None => return Ok(()),
        }
    }
}

/// Answers a question for the pull set. The set is what the hooks reported; if it must be computed
/// again, a notification has to succeed first.
async fn answer(
    ask: mpsc::Sender<(Option<String>, oneshot::Sender<()>)>,
    recompute: bool,
    component: Option<String>,
) -> CollectAnswer {
    if recompute {
        let (done, is_done) = oneshot::channel();
        if ask.send((component, done)).await.is_err() || is_done.await.is_err() {
            return CollectAnswer::Nothing;
        }
    }
    CollectAnswer::Unchanged
}

/// The state that outlives sessions.
struct Attendant {
    notifications: Notifications,
    /// The leader and its lease epoch, once known.
    leader: Option<(String, u64)>,
    /// Etag of the data that a notification was about.
    etag: Option<String>,
    stop: Signal,
}

impl Attendant {
    /// Serves one worker. Returns why it ended; `None` if this process has to stop.
    async fn serve(
        &mut self,
        worker: &Worker,
        mut asked: mpsc::Receiver<(Option<String>, oneshot::Sender<()>)>,
    ) -> Option<worker::Error> {
        let mut events: Events = worker.events();
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(event) => self.take(event),
                    None => return Some(worker.over().await),
                },
                Some((component, done)) = asked.recv() => {
                    let component = component.unwrap_or_default();
                    let mut notification = Notification::new("collect", &component, "");
                    notification.done.push(done);
                    self.notifications.add(notification);
                }
                () = self.notifications.turn() => {}
                _ = self.stop.recv() => return None,
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::RetryDue(due) => {
                let notification = Notification::new("retry-due", &due.component, &due.target);
                self.notifications.add(notification.fact("operation", due.operation_id));
            }
            Event::CallbackDue(due) => {
                let notification = Notification::new("callback-due", &due.component, "");
                let reason = one_line(&due.reason);
                self.notifications.add(notification.fact("key", due.key).fact("reason", reason));
            }
            Event::NeedsMet(met) => {
                let notification = Notification::new("need-met", &met.component, &met.target);
                let kind = kind_word(met.kind());
                self.notifications.add(notification.fact("key", &met.key).fact("kind", kind));
            }
            Event::HoldReleased(released) => {
                let notification = Notification::new("hold-released", &released.component, "");
                self.notifications.add(notification.fact("reason", released.reason));
            }
            Event::Leadership(now) => self.led(now.leader, now.lease_epoch, now.is_self),
            // The leader may have changed while there was no session.
            Event::Connected { leader, lease_epoch, .. } => match self.leader {
                Some(_) => self.led(leader, lease_epoch, false),
                None => self.leader = Some((leader, lease_epoch)),
            },
            Event::AppDataChanged { etag } if self.etag.as_ref() != Some(&etag) => {
                self.notifications
                    .add(Notification::new("data-changed", "", "").fact("etag", &etag));
                self.etag = Some(etag);
            }
            Event::Disconnected { error, pause } => {
                say(&format!("no session: {error}; again in {pause:?}"));
            }
            Event::Missed { count } => {
                say(&format!(
                    "{count} events were lost; the server repeats requests to retry, callbacks and \
                     met needs"
                ));
            }
            _ => {}
        }
    }

    fn led(&mut self, leader: String, lease_epoch: u64, is_self: bool) {
        let before = self.leader.replace((leader.clone(), lease_epoch));
        if before.as_ref() != self.leader.as_ref() {
            let notification = Notification::new("leadership", "", "").fact("leader", leader);
            self.notifications
                .add(notification.fact("lease_epoch", lease_epoch).fact("is_leader", is_self));
        }
    }
}

/// Returns the word of the kind of a status; empty for an error.
fn kind_word(kind: StatusKind) -> &'static str {
    match kind {
        StatusKind::Pull => "pull",
        StatusKind::Push => "push",
        StatusKind::Unspecified => "",
    }
}
