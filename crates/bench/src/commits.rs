//! Counts the commits of a server, from its `/metrics`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use bellwether::cli::scrape;
use tokio::time::Instant;

use crate::load::Plan;

/// A server under load answers late.
const ANSWER_DEADLINE: Duration = Duration::from_secs(10);

/// The counter in the text of the metrics.
const COUNTER: &str = "bellwether_commits_total{result=\"ok\"} ";

/// Returns the commits per second of the server whose ops port is `ops`, during the load of this
/// plan, which starts now.
pub async fn per_second(ops: SocketAddr, plan: &Plan) -> anyhow::Result<f64> {
    tokio::time::sleep(plan.warm_up).await;
    let (before, opened) = count(ops).await?;
    tokio::time::sleep(plan.window).await;
    let (after, closed) = count(ops).await?;
    Ok(after.saturating_sub(before) as f64 / (closed - opened).as_secs_f64())
}

/// Returns the commits so far of the server whose ops port is `ops`.
pub async fn total(ops: SocketAddr) -> anyhow::Result<u64> {
    Ok(count(ops).await?.0)
}

/// Returns the commits so far, with the time of the count: halfway between request and answer.
async fn count(ops: SocketAddr) -> anyhow::Result<(u64, Instant)> {
    let asked = Instant::now();
    let text = tokio::time::timeout(ANSWER_DEADLINE, scrape::metrics(ops)).await;
    let text = text.context("no answer").flatten().context("read the metrics of our server")?;
    Ok((parse(&text)?, asked + asked.elapsed() / 2))
}

fn parse(metrics: &str) -> anyhow::Result<u64> {
    let count = metrics.lines().find_map(|line| line.strip_prefix(COUNTER));
    let count = count.with_context(|| format!("no {COUNTER:?} among the metrics of our server"))?;
    count.trim().parse().with_context(|| format!("read the count of commits: {count:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_read() {
        let metrics = "# TYPE bellwether_commits_total counter\n\
                       bellwether_commits_total{result=\"conflict\"} 7\n\
                       bellwether_commits_total{result=\"ok\"} 42\n";
        assert_eq!(parse(metrics).unwrap(), 42);
        for metrics in ["", "bellwether_commits_total{result=\"ok\"} many\n"] {
            let error = parse(metrics).unwrap_err().to_string();
            assert!(error.contains("commits"), "{error}");
        }
    }
}
