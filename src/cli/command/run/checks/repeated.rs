//! Checks at their intervals: a task for each check, a session for each unit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::cli::command::run::checks::definition::PluginCheck;
use crate::cli::command::run::checks::outcome::Outcome;
use crate::cli::command::run::checks::schedule;
use crate::cli::command::run::checks::unit::{CheckedUnit, PluginFinding, Requests};
use crate::cli::command::run::process;
use crate::cli::context::{Context, say};
use crate::cli::target::UnitTarget;

/// Findings of a unit that wait for its session.
const FINDINGS_MAX: usize = 64;

/// What all checks share.
struct Common {
    start: Instant,
    permits: Semaphore,
    /// Whether a late start was said.
    is_late: AtomicBool,
}

/// Runs the checks until SIGTERM, or until all units are removed.
///
/// # Errors
/// If the server refuses a unit for good.
pub async fn run(
    checks: Vec<PluginCheck>,
    parallel: usize,
    context: &Context,
) -> anyhow::Result<()> {
    let mut stop = signal(SignalKind::terminate())?;
    let common = Arc::new(Common {
        start: Instant::now(),
        permits: Semaphore::new(parallel),
        is_late: AtomicBool::new(false),
    });
    // One check has nothing to be spread over.
    let is_alone = checks.len() == 1;
    let (mut running, mut units) = (JoinSet::new(), JoinSet::new());
    for (target, checks) in by_unit(checks) {
        let (found, findings) = mpsc::channel(FINDINGS_MAX);
        let mut requests = Requests::new();
        for check in checks {
            let (request, asked) = mpsc::channel(1);
            requests.insert(check.component.clone(), request);
            let every = check.every.unwrap_or_default();
            let due = if is_alone { Duration::ZERO } else { schedule::offset(&check, every) };
            running.spawn(repeat(check, due, common.clone(), found.clone(), asked));
        }
        units.spawn(CheckedUnit::new(target, requests, context).run(findings));
    }
    loop {
        tokio::select! {
            _ = stop.recv() => break,
            ended = units.join_next() => match ended {
                Some(ended) => ended??,
                None => return Ok(()),
            },
        }
    }
    // Each session ends when its checks have.
    running.shutdown().await;
    while units.join_next().await.is_some() {}
    Ok(())
}

fn by_unit(checks: Vec<PluginCheck>) -> Vec<(UnitTarget, Vec<PluginCheck>)> {
    let mut units: BTreeMap<(String, String), (UnitTarget, Vec<PluginCheck>)> = BTreeMap::new();
    for check in checks {
        let name = (check.unit.application.clone(), check.unit.unit.clone());
        let (_, checks) = units.entry(name).or_insert_with(|| (check.unit.clone(), Vec::new()));
        checks.push(check);
    }
    units.into_values().collect()
}

/// Runs a check at its interval, and when it is asked for.
async fn repeat(
    check: PluginCheck,
    mut due: Duration,
    common: Arc<Common>,
    found: mpsc::Sender<PluginFinding>,
    mut asked: mpsc::Receiver<oneshot::Sender<()>>,
) {
    let every = check.every.unwrap_or_default();
    loop {
        let done = tokio::select! {
            () = sleep_until(common.start + due) => None,
            Some(done) = asked.recv() => Some(done),
        };
        let Ok(permit) = common.permits.acquire().await else { return };
        if done.is_none() {
            common.examine_start(&check, due, every);
        }
        let finished = process::run(&check.command, check.timeout).await;
        drop(permit);
        if done.is_none() {
            due = schedule::after(due, every, common.start.elapsed());
        }
        let outcome = Outcome::of(&check, &finished);
        let finding = PluginFinding { component: check.component.clone(), outcome, done };
        if found.send(finding).await.is_err() {
            return;
        }
    }
}

impl Common {
    /// Says once that checks start later than an interval after their time.
    fn examine_start(&self, check: &PluginCheck, due: Duration, every: Duration) {
        let late = self.start.elapsed().saturating_sub(due);
        if every < late && !self.is_late.swap(true, Ordering::Relaxed) {
            say(&format!(
                "{} of {} starts {:.0} s late: raise --parallel, or lengthen intervals",
                check.component,
                check.unit.unit,
                late.as_secs_f64()
            ));
        }
    }
}
