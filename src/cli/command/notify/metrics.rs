//! What the process counts, for Prometheus: messages by receiver, what is open, what is late.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::domain::time::Timestamp;

/// The counts of one receiver.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Messages that began or changed a problem, and were delivered.
    pub told: u64,
    /// Messages that ended one, and were delivered.
    pub ended: u64,
    /// Deliveries that failed.
    pub failed: u64,
    /// Since when something is owed.
    pub owed_since: Option<Timestamp>,
}

/// Everything that is counted.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    /// By receiver.
    pub receivers: BTreeMap<String, Counts>,
    /// Open problems.
    pub open: usize,
    /// Problems that are not sent, because too many are open.
    pub unsent: usize,
    /// Whether this process leads.
    pub leads: bool,
    /// Whether the watch is current.
    pub sees: bool,
}

/// The counts, shared with the server of the metrics.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Mutex<Counters>>);

impl Metrics {
    /// Creates the counts of receivers, at 0.
    pub fn new<'a>(receivers: impl Iterator<Item = &'a String>) -> Metrics {
        let receivers = receivers.map(|name| (name.clone(), Counts::default())).collect();
        Metrics(Arc::new(Mutex::new(Counters { receivers, ..Counters::default() })))
    }

    /// Changes the counts.
    pub fn change(&self, change: impl FnOnce(&mut Counters)) {
        change(&mut self.locked());
    }

    fn locked(&self) -> MutexGuard<'_, Counters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the counts until it is dropped.
    pub async fn serve(self, listener: TcpListener) {
        let text = move || {
            let text = self.locked().text(now());
            async move { ([("content-type", "text/plain; version=0.0.4")], text) }
        };
        let routes =
            Router::new().route("/metrics", get(text)).route("/livez", get(|| async { "ok\n" }));
        // It ends with the process.
        let _ = axum::serve(listener, routes).await;
    }
}

/// Returns the time of this process.
pub fn now() -> Timestamp {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    Timestamp::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

type Series = (&'static str, &'static str, &'static str, fn(&Counts, Timestamp) -> f64);

const BY_RECEIVER: [Series; 4] = [
    (
        "bellwether_notify_told_total",
        "counter",
        "Messages that began or changed a problem, and were delivered.",
        |counts, _| counts.told as f64,
    ),
    (
        "bellwether_notify_ended_total",
        "counter",
        "Messages that ended a problem, and were delivered.",
        |counts, _| counts.ended as f64,
    ),
    (
        "bellwether_notify_failed_total",
        "counter",
        "Deliveries that failed. Each is tried again.",
        |counts, _| counts.failed as f64,
    ),
    (
        "bellwether_notify_behind_seconds",
        "gauge",
        "How long the oldest message that a receiver has not got is owed.",
        |counts, now| counts.owed_since.map_or(0.0, |since| now.since(since).as_secs_f64()),
    ),
];

impl Counters {
    /// Returns the counts in the text format of Prometheus.
    pub fn text(&self, now: Timestamp) -> String {
        let mut text = String::new();
        for (name, kind, help, value) in BY_RECEIVER {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (receiver, counts) in &self.receivers {
                let value = value(counts, now);
                let _ = writeln!(text, "{name}{{receiver=\"{receiver}\"}} {value}");
            }
        }
        for (name, help, value) in [
            ("open", "Problems of which receivers were told, and not of their end.", self.open),
            ("unsent", "Problems that are not sent, because too many are open.", self.unsent),
            (
                "leads",
                "1 in the process that notifies, 0 in one that stands by.",
                self.leads.into(),
            ),
            ("sees", "1 while the watch is current.", self.sees.into()),
        ] {
            let name = format!("bellwether_notify_{name}");
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_each_receiver_and_what_is_late() {
        let metrics = Metrics::new(["ops".to_string(), "pager".to_string()].iter());
        metrics.change(|tally| {
            tally.open = 3;
            let ops = tally.receivers.get_mut("ops").unwrap();
            (ops.told, ops.owed_since) = (7, Some(Timestamp::new(1_000)));
        });
        let text = metrics.locked().text(Timestamp::new(3_500));
        for line in [
            "bellwether_notify_told_total{receiver=\"ops\"} 7",
            "bellwether_notify_told_total{receiver=\"pager\"} 0",
            "bellwether_notify_behind_seconds{receiver=\"ops\"} 2.5",
            "bellwether_notify_open 3",
            "# TYPE bellwether_notify_leads gauge",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is not in:\n{text}");
        }
    }
}
