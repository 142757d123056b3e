//! Measures sides in turn, A B A B, so that other work of the machine affects all of them.

use std::io::{IsTerminal, Write};
use std::pin::Pin;

use anyhow::Context;

/// A running measurement.
pub type Measuring<M> = Pin<Box<dyn Future<Output = anyhow::Result<M>> + Send>>;

/// One of the compared sides, with its measurement.
pub struct Contender<M> {
    /// Name and version: `etcd 3.4.23`.
    pub name: String,
    measure: Box<dyn Fn(u64) -> Measuring<M> + Send>,
}

impl<M> Contender<M> {
    /// Creates a contender. `measure` gets the number of the first call of its round.
    pub fn new(
        name: impl Into<String>,
        measure: impl Fn(u64) -> Measuring<M> + Send + 'static,
    ) -> Contender<M> {
        Contender { name: name.into(), measure: Box::new(measure) }
    }
}

/// The distance between the first call numbers of two rounds: no round repeats a call of another.
const CALLS_PER_ROUND_MAX: u64 = 1 << 40;

/// Measures each contender once a round; returns the results of each, in their order. A failure of
/// one fails the whole, because a side that refuses work is not measured doing it.
pub async fn alternate<M>(contenders: &[Contender<M>], rounds: u32) -> anyhow::Result<Vec<Vec<M>>> {
    let progress = Progress::new();
    let mut measured: Vec<Vec<M>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        for (contender, measured) in contenders.iter().zip(&mut measured) {
            progress.say(&format!("round {round} of {rounds}: {}", contender.name));
            let first = u64::from(round) * CALLS_PER_ROUND_MAX;
            let result = (contender.measure)(first).await;
            measured.push(result.with_context(|| format!("measure {}", contender.name))?);
        }
    }
    Ok(measured)
}

/// One line on a terminal that shows the progress; removed when dropped.
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// Creates a line; nothing is shown unless stderr is a terminal.
    pub fn new() -> Progress {
        Progress { shown: std::io::stderr().is_terminal() }
    }

    /// Replaces the line.
    pub fn say(&self, what: &str) {
        if self.shown {
            // A closed terminal is no reason to stop.
            let _ = write!(std::io::stderr(), "\r\x1b[K{what}");
        }
    }

    /// Replaces the line by one that stays.
    pub fn keep(&self, what: &str) {
        self.say(&format!("{what}\n"));
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.say("");
    }
}
