//! The notifications that wait: one at a time, the newest of each subject, again after a failure.

use std::fmt::Debug;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::cli::command::attend::recipient::Recipient;
use crate::cli::context::say;
use crate::cli::span;

/// The pause after the first failure; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause: as often as Juju runs `update-status`.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Subjects that wait. A unit has at most as many requests to retry; beyond that something is wrong
/// with the command, and the server repeats the requests in the next session.
const WAITING_MAX: usize = 1_024;

/// The facts that make the subject of a notification.
const SUBJECT: [&str; 4] = ["event", "component", "target", "key"];

/// One notification, which waits for its time.
#[derive(Debug)]
pub struct Notification {
    /// The facts with their names: event, component and target, then others.
    facts: Vec<(&'static str, String)>,
    /// Calls that wait for its success.
    pub done: Vec<oneshot::Sender<()>>,
    due: Instant,
    failures: u32,
}

impl Notification {
    /// Creates a notification about an event, as `retry-due`; component and target may be empty.
    pub fn new(event: &str, component: &str, target: &str) -> Notification {
        let facts = [("event", event), ("component", component), ("target", target)];
        let facts = facts.map(|(name, value)| (name, value.to_string())).to_vec();
        Notification { facts, done: Vec::new(), due: Instant::now(), failures: 0 }
    }

    /// Adds a fact.
    pub fn fact(mut self, name: &'static str, value: impl ToString) -> Notification {
        self.facts.push((name, value.to_string()));
        self
    }

    /// Returns the subject: of two notifications with the same subject only the newest counts.
    fn subject(&self) -> impl PartialEq + Debug + '_ {
        SUBJECT.map(|wanted| self.facts.iter().find(|(name, _)| *name == wanted))
    }
}

/// The notifications that wait, and their recipient.
pub struct Notifications {
    recipient: Recipient,
    /// How long one notification may take.
    time_max: Duration,
    waiting: Vec<Notification>,
    /// The notification under way, and its end. It ends with its owner.
    running: Option<(Notification, AbortOnDropHandle<anyhow::Result<()>>)>,
}

impl Notifications {
    /// Creates an empty queue for a recipient.
    pub fn new(recipient: Recipient, time_max: Duration) -> Notifications {
        Notifications { recipient, time_max, waiting: Vec::new(), running: None }
    }

    fn same_subject(&mut self, notification: &Notification) -> Option<&mut Notification> {
        self.waiting.iter_mut().find(|waiting| waiting.subject() == notification.subject())
    }

    /// Adds a notification. It takes the place of an older one with the same subject, which may be
    /// in its pause after a failure: a new one is tried at once.
    pub fn add(&mut self, mut notification: Notification) {
        if let Some(older) = self.same_subject(&notification) {
            notification.done.append(&mut older.done);
            notification.failures = older.failures;
            *older = notification;
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push(notification);
        } else {
            say(&format!("{WAITING_MAX} notifications wait already; one is left out"));
        }
    }

    /// Waits for the end of the notification under way; without one, for the time of the next, and
    /// starts it. Cancel safe.
    pub async fn turn(&mut self) {
        let Some((_, running)) = &mut self.running else { return self.start().await };
        let ended = running.await.unwrap_or_else(|error| Err(error.into()));
        if let Some((notification, _)) = self.running.take() {
            self.end(notification, ended);
        }
    }

    async fn start(&mut self) {
        let first =
            self.waiting.iter().enumerate().min_by_key(|(_, notification)| notification.due);
        let Some((place, due)) = first.map(|(place, notification)| (place, notification.due))
        else {
            return std::future::pending().await;
        };
        sleep_until(due).await;
        let notification = self.waiting.remove(place);
        let (recipient, time_max) = (self.recipient.clone(), self.time_max);
        let facts = notification.facts.iter().filter(|(_, value)| !value.is_empty());
        let facts: Vec<_> = facts.cloned().collect();
        let running = tokio::spawn(async move {
            match tokio::time::timeout(time_max, recipient.notify(&facts)).await {
                Ok(answered) => answered,
                Err(_elapsed) => anyhow::bail!("not done within {time_max:?}"),
            }
        });
        self.running = Some((notification, AbortOnDropHandle::new(running)));
    }

    /// Takes the end of a notification: a failed one waits for another attempt, unless a newer one
    /// does.
    fn end(&mut self, mut notification: Notification, ended: anyhow::Result<()>) {
        let Err(error) = ended else {
            // The call that asked may be gone.
            for done in notification.done {
                let _ = done.send(());
            }
            return;
        };
        let pause = PAUSE.saturating_mul(1 << notification.failures.min(16)).min(PAUSE_MAX);
        let (_, event) = &notification.facts[0];
        say(&format!("{event}: {error:#}; again in {}", span::short(pause)));
        (notification.due, notification.failures) =
            (Instant::now() + pause, notification.failures.saturating_add(1));
        match self.same_subject(&notification) {
            Some(newer) => {
                newer.done.append(&mut notification.done);
                (newer.due, newer.failures) = (notification.due, notification.failures);
            }
            None => self.waiting.push(notification),
        }
    }
}
