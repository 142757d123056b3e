//! The rings that wait: one at a time, the newest of each subject, again after a failure.

use std::time::Duration;

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

/// One ring, which waits for its time.
#[derive(Debug)]
pub struct Ring {
    /// The facts with their names: event, component and target, then others.
    facts: Vec<(&'static str, String)>,
    /// Calls that wait for its success.
    pub done: Vec<oneshot::Sender<()>>,
    due: Instant,
    failures: u32,
}

impl Ring {
    /// Creates a ring about an event, as `retry-due`; component and target may be empty.
    pub fn new(event: &str, component: &str, target: &str) -> Ring {
        let facts = [("event", event), ("component", component), ("target", target)];
        let facts = facts.map(|(name, value)| (name, value.to_string())).to_vec();
        Ring { facts, done: Vec::new(), due: Instant::now(), failures: 0 }
    }

    /// Adds a fact.
    pub fn fact(mut self, name: &'static str, value: impl ToString) -> Ring {
        self.facts.push((name, value.to_string()));
        self
    }

    /// Returns the subject: of two rings with the same subject only the newest counts.
    fn subject(&self) -> &[(&'static str, String)] {
        &self.facts[..3]
    }
}

/// The rings that wait, and the bell.
pub struct Rings {
    bell: Bell,
    /// How long one ring may take.
    time_max: Duration,
    waiting: Vec<Ring>,
    /// The ring under way, and its end. It ends with its owner.
    running: Option<(Ring, AbortOnDropHandle<anyhow::Result<()>>)>,
}

impl Rings {
    /// Creates an empty queue in front of a bell.
    pub fn new(bell: Bell, time_max: Duration) -> Rings {
        Rings { bell, time_max, waiting: Vec::new(), running: None }
    }

    fn same_subject(&mut self, ring: &Ring) -> Option<&mut Ring> {
        self.waiting.iter_mut().find(|waiting| waiting.subject() == ring.subject())
    }

    /// Adds a ring. It takes the place of an older one with the same subject, which may be in its
    /// pause after a failure: what is new is tried at once.
    pub fn add(&mut self, mut ring: Ring) {
        if let Some(older) = self.same_subject(&ring) {
            ring.done.append(&mut older.done);
            ring.failures = older.failures;
            *older = ring;
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push(ring);
        } else {
            say(&format!("{WAITING_MAX} rings wait already; one is left out"));
        }
    }

    /// Waits for the end of the ring under way; without one, for the time of the next, and starts
    /// it. Cancel safe.
    pub async fn turn(&mut self) {
        let Some((_, rung)) = &mut self.running else { return self.start().await };
        let ended = rung.await.unwrap_or_else(|error| Err(error.into()));
        if let Some((ring, _)) = self.running.take() {
            self.end(ring, ended);
        }
    }

    async fn start(&mut self) {
        let first = self.waiting.iter().enumerate().min_by_key(|(_, ring)| ring.due);
        let Some((place, due)) = first.map(|(place, ring)| (place, ring.due)) else {
            return std::future::pending().await;
        };
        sleep_until(due).await;
        let ring = self.waiting.remove(place);
        let (bell, time_max) = (self.bell.clone(), self.time_max);
        let facts = ring.facts.iter().filter(|(_, value)| !value.is_empty());
        let facts: Vec<_> = facts.cloned().collect();
        let rung = tokio::spawn(async move {
            match tokio::time::timeout(time_max, bell.ring(&facts)).await {
                Ok(rung) => rung,
                Err(_elapsed) => anyhow::bail!("not done within {time_max:?}"),
            }
        });
        self.running = Some((ring, AbortOnDropHandle::new(rung)));
    }

    /// Takes the end of a ring: a failed one waits for another attempt, unless a newer one does.
    fn end(&mut self, mut ring: Ring, ended: anyhow::Result<()>) {
        let Err(error) = ended else {
            // The call that asked may be gone.
            for done in ring.done {
                let _ = done.send(());
            }
            return;
        };
        let pause = PAUSE.saturating_mul(1 << ring.failures.min(16)).min(PAUSE_MAX);
        let (_, event) = &ring.facts[0];
        say(&format!("{event}: {error:#}; again in {}", span::short(pause)));
        (ring.due, ring.failures) = (Instant::now() + pause, ring.failures.saturating_add(1));
        match self.same_subject(&ring) {
            Some(newer) => {
                newer.done.append(&mut ring.done);
                (newer.due, newer.failures) = (ring.due, ring.failures);
            }
            None => self.waiting.push(ring),
        }
    }
}
