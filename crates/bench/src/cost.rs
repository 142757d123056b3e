//! The processor time of servers while they are under load. It varies less than a rate on a machine
//! that servers and load share.

use crate::load::{Measured, Plan};
use crate::process;
use crate::scalar::{AnyRow, ScalarRow, ScalarSide, Target};

/// The calls of one measurement, and the processor time of our processes meanwhile.
pub struct Cost {
    /// The calls.
    pub calls: Measured,
    /// Seconds of processor time of each process, in the order in which they were given.
    pub cpu_seconds: Vec<f64>,
}

impl Cost {
    /// Returns the calls of a load that starts now, with the processor time of these processes in
    /// its window. Fails if a call failed.
    pub async fn of(
        calls: impl Future<Output = anyhow::Result<Measured>>,
        ids: Vec<u32>,
        plan: Plan,
    ) -> anyhow::Result<Cost> {
        let (calls, cpu_seconds) = tokio::try_join!(calls, used(&ids, &plan))?;
        calls.check()?;
        Ok(Cost { calls, cpu_seconds })
    }

    /// Returns the microseconds that a process has used for a call.
    pub fn micros(&self, process: usize) -> Option<f64> {
        let seconds = self.cpu_seconds.get(process)?;
        Some(seconds * 1e6 / self.calls.acknowledged.max(1) as f64)
    }
}

/// Returns the row of the processor time that a process has used for a call.
pub fn row(
    work: String,
    name: &str,
    rounds: &[Cost],
    process: usize,
    target: Option<f64>,
) -> Option<AnyRow> {
    let micros: Option<Vec<f64>> = rounds.iter().map(|round| round.micros(process)).collect();
    let side = ScalarSide::mean(name, micros?);
    let target = target.map(Target::AtMost);
    Some(AnyRow::Scalar(ScalarRow::compare(work, "microseconds", side, None, target)))
}

/// Measures the processor time of each process in seconds, within the window of a load that starts
/// now.
pub async fn used(ids: &[u32], plan: &Plan) -> anyhow::Result<Vec<f64>> {
    let now =
        || ids.iter().map(|id| process::cpu_seconds(*id)).collect::<anyhow::Result<Vec<f64>>>();
    tokio::time::sleep(plan.warm_up).await;
    let before = now()?;
    tokio::time::sleep(plan.window).await;
    Ok(now()?.iter().zip(before).map(|(after, before)| after - before).collect())
}
