//! Sides measured in turn, A B A B: what the machine does meanwhile falls on all of them.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::Context;

use crate::bench::load::{self, Measured, Plan, Work};

type Measuring = Pin<Box<dyn Future<Output = anyhow::Result<Measured>> + Send>>;

/// One of those that are compared, and how to put load on it.
pub struct Contender {
    /// What it is, with its version: `etcd 3.4.23`.
    pub name: String,
    measure: Box<dyn Fn(Plan, u64) -> Measuring + Send>,
}

impl Contender {
    /// The server at `address`, asked to do `work`.
    pub fn new<W: Work>(name: impl Into<String>, address: SocketAddr, work: W) -> Contender {
        let work = Arc::new(work);
        let measure = move |plan, first| -> Measuring {
            Box::pin(load::run(work.clone(), format!("http://{address}"), plan, first))
        };
        Contender { name: name.into(), measure: Box::new(measure) }
    }
}

/// Numbers of calls in one round start here times the round: no round sends what another has sent.
const CALLS_PER_ROUND_MAX: u64 = 1 << 40;

/// Measures each contender once a round; what each one's rounds gave, in their order. A failed call
/// fails the whole, for a side that refuses work is not measured doing it.
pub async fn alternate(
    contenders: &[Contender],
    plan: &Plan,
    rounds: u32,
) -> anyhow::Result<Vec<Vec<Measured>>> {
    let progress = Progress::new();
    let mut measured = vec![Vec::new(); contenders.len()];
    for round in 1..=rounds {
        for (contender, measured) in contenders.iter().zip(&mut measured) {
            progress.say(&format!("round {round} of {rounds}: {}", contender.name));
            let first = u64::from(round) * CALLS_PER_ROUND_MAX;
            let result = (contender.measure)(plan.clone(), first).await;
            let result = result.and_then(|measured| measured.check().map(|()| measured));
            measured.push(result.with_context(|| format!("measure {}", contender.name))?);
        }
    }
    Ok(measured)
}

/// One line on a terminal that says what is going on, gone when dropped.
pub struct Progress {
    shown: bool,
}

impl Progress {
    /// Silent unless stderr is a terminal.
    pub fn new() -> Progress {
        Progress { shown: std::io::stderr().is_terminal() }
    }

    /// Replaces the line.
    pub fn say(&self, what: &str) {
        if self.shown {
            // A terminal that is gone is no reason to stop.
            let _ = write!(std::io::stderr(), "\r\x1b[K{what}");
        }
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
