//! The rings that wait: one at a time, the newest of each subject, again after a failure.

use std::time::Duration;

use indexmap::IndexMap;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::cli::attend::bell::Bell;
use crate::cli::context::say;
use crate::cli::span;

/// The pause after the first failure; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause: as often as Juju runs `update-status`.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Subjects that wait. A unit has at most as many requests to retry; beyond that something is wrong
/// with the command, and the server repeats the requests in the next session.
const WAITING_MAX: usize = 1_024;

/// The subject of a ring: of two with the same subject only the newest counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Subject {
    /// What happened, as `retry-due`.
    pub event: &'static str,
    /// The component; empty if the event has none.
    pub component: String,
    /// The target; empty if the event has none.
    pub target: String,
}

/// One ring.
#[derive(Debug)]
pub struct Ring {
    /// The subject.
    pub subject: Subject,
    /// Further facts, each with its name.
    pub facts: Vec<(&'static str, String)>,
    /// Calls that wait for its success.
    pub done: Vec<oneshot::Sender<()>>,
}

impl Ring {
    /// Creates a ring about the unit or the application as a whole.
    pub fn new(event: &'static str) -> Ring {
        let subject = Subject { event, component: String::new(), target: String::new() };
        Ring { subject, facts: Vec::new(), done: Vec::new() }
    }

    /// Adds the component and the target.
    pub fn about(mut self, component: &str, target: &str) -> Ring {
        self.subject.component = component.to_string();
        self.subject.target = target.to_string();
        self
    }

    /// Adds a fact, unless it is empty.
    pub fn fact(mut self, name: &'static str, value: impl ToString) -> Ring {
        let value = value.to_string();
        if !value.is_empty() {
            self.facts.push((name, value));
        }
        self
    }

    /// Returns all facts with their names, the event first.
    pub fn all_facts(&self) -> Vec<(&'static str, String)> {
        let Subject { event, component, target } = &self.subject;
        let named = [("component", component), ("target", target)];
        let named = named.into_iter().filter(|(_, value)| !value.is_empty());
        let mut facts = vec![("event", (*event).to_string())];
        facts.extend(named.map(|(name, value)| (name, value.clone())));
        facts.extend(self.facts.iter().cloned());
        facts
    }
}

/// A ring that waits for its time.
struct WaitingRing {
    ring: Ring,
    due: Instant,
    failures: u32,
}

/// The rings that wait, and the bell.
pub struct Rings {
    bell: Bell,
    /// How long one ring may take.
    time_max: Duration,
    waiting: IndexMap<Subject, WaitingRing>,
}

impl Rings {
    /// Creates an empty queue in front of a bell.
    pub fn new(bell: Bell, time_max: Duration) -> Rings {
        Rings { bell, time_max, waiting: IndexMap::new() }
    }

    /// Adds a ring. It takes the place of an older one with the same subject, which may be in its
    /// pause after a failure: what is new is tried at once.
    pub fn add(&mut self, mut ring: Ring) {
        let older = self.waiting.get_mut(&ring.subject);
        if let Some(older) = older {
            ring.done.append(&mut older.ring.done);
            (older.ring, older.due) = (ring, Instant::now());
            return;
        }
        if WAITING_MAX <= self.waiting.len() {
            return say(&format!("{WAITING_MAX} rings wait already; one is left out"));
        }
        let waiting = WaitingRing { ring, due: Instant::now(), failures: 0 };
        self.waiting.insert(waiting.ring.subject.clone(), waiting);
    }

    /// Takes the next ring at its time. Cancel safe.
    async fn next(&mut self) -> WaitingRing {
        let first = self.waiting.values().enumerate().min_by_key(|(_, waiting)| waiting.due);
        let Some((place, due)) = first.map(|(place, waiting)| (place, waiting.due)) else {
            return std::future::pending().await;
        };
        sleep_until(due).await;
        match self.waiting.shift_remove_index(place) {
            Some((_, waiting)) => waiting,
            None => std::future::pending().await,
        }
    }

    /// Waits for the next ring, and starts it.
    pub async fn start(&mut self) -> Running {
        let waiting = self.next().await;
        let (bell, time_max) = (self.bell.clone(), self.time_max);
        let facts = waiting.ring.all_facts();
        let rung = tokio::spawn(async move {
            match tokio::time::timeout(time_max, bell.ring(&facts)).await {
                Ok(rung) => rung,
                Err(_elapsed) => anyhow::bail!("not done within {time_max:?}"),
            }
        });
        Running { waiting, rung: AbortOnDropHandle::new(rung) }
    }

    /// Takes the end of a ring: a failed one waits for another attempt, unless a newer one does.
    pub fn end(&mut self, running: Running, ended: anyhow::Result<()>) {
        let Running { waiting: WaitingRing { mut ring, failures, .. }, .. } = running;
        let Err(error) = ended else {
            // The call that asked may be gone.
            for done in ring.done {
                let _ = done.send(());
            }
            return;
        };
        let pause = PAUSE.saturating_mul(1 << failures.min(16)).min(PAUSE_MAX);
        let again = span::short(pause);
        say(&format!("{}: {error:#}; again in {again}", ring.subject.event));
        let due = Instant::now() + pause;
        let failures = failures.saturating_add(1);
        match self.waiting.get_mut(&ring.subject) {
            Some(newer) => {
                newer.ring.done.append(&mut ring.done);
                (newer.due, newer.failures) = (due, failures);
            }
            None => {
                let subject = ring.subject.clone();
                self.waiting.insert(subject, WaitingRing { ring, due, failures });
            }
        }
    }
}

/// A ring under way. It ends with its owner.
pub struct Running {
    waiting: WaitingRing,
    rung: AbortOnDropHandle<anyhow::Result<()>>,
}

impl Running {
    /// Waits for the end. Cancel safe.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        (&mut self.rung).await.unwrap_or_else(|error| Err(error.into()))
    }
}
