//! The status of each application as metrics, so that an alert can name the application.
//!
//! These series have names of applications as labels, so their number is capped, and they are
//! written at each scrape instead of being kept by the SDK.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntGauge, IntGaugeVec, Opts};

use super::fleet::FRESHNESS;
use crate::domain::level::Level;
use crate::domain::mark::MarkKind;

/// The status of one application.
#[derive(Debug, Clone, PartialEq)]
pub struct ApplicationState {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub application: String,
    /// Its level.
    pub level: Level,
    /// Since when it has this level, in seconds of Unix time.
    pub since_seconds: f64,
    /// Its units that are stale, lost and uncertain.
    pub silent_units: [u64; 3],
    /// Whether planned work covers what decides its level, and whether that is acknowledged.
    pub marked: [bool; 2],
}

/// The values of the label `mark`, in the order of [`ApplicationState::marked`].
const MARKS: [MarkKind; 2] = [MarkKind::Planned, MarkKind::Acknowledged];

/// The states of the applications that are shown, and the number of those that are not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ApplicationStates {
    /// The states.
    pub shown: Vec<ApplicationState>,
    /// How many applications the cap leaves out.
    pub omitted: u64,
}

impl ApplicationStates {
    /// Returns the families of metrics.
    pub(super) fn families(&self) -> Result<Vec<MetricFamily>, prometheus::Error> {
        // `namespace` is a label that Prometheus itself sets in Kubernetes.
        let names = ["app_namespace", "application"];
        let opts = |name: &str, help: &str| Opts::new(format!("bellwether_{name}"), help);
        let levels = IntGaugeVec::new(
            opts("application_status", "1 at the level of the application, 0 at the others."),
            &[names[0], names[1], "level"],
        )?;
        let since = GaugeVec::new(
            opts(
                "application_status_since_timestamp_seconds",
                "Since when the application has its level, in Unix time.",
            ),
            &names,
        )?;
        let silent = IntGaugeVec::new(
            opts("application_silent_units", "Units that are stale, lost or uncertain."),
            &[names[0], names[1], "freshness"],
        )?;
        let marked = IntGaugeVec::new(
            opts(
                "application_marked",
                "1 if a mark covers what decides the level of the application; otherwise absent.",
            ),
            &[names[0], names[1], "mark"],
        )?;
        let omitted = IntGauge::with_opts(opts(
            "applications_omitted",
            "Applications without a series of their own, because of metrics_applications_max.",
        ))?;
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        for state in &self.shown {
            let names = [state.namespace.as_str(), state.application.as_str()];
            for level in Level::ALL {
                let labels = [names[0], names[1], level.word()];
                levels.with_label_values(&labels).set(i64::from(level == state.level));
            }
            since.with_label_values(&names).set(state.since_seconds);
            for (count, freshness) in state.silent_units.iter().zip(FRESHNESS) {
                let labels = [names[0], names[1], freshness];
                silent.with_label_values(&labels).set(signed(*count));
            }
            for (_, mark) in state.marked.iter().zip(MARKS).filter(|(is, _)| **is) {
                marked.with_label_values(&[names[0], names[1], mark.word()]).set(1);
            }
        }
        omitted.set(signed(self.omitted));
        let collectors: [&dyn Collector; 5] = [&levels, &since, &silent, &marked, &omitted];
        Ok(collectors.into_iter().flat_map(Collector::collect).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::telemetry::Prometheus;

    fn state(application: &str, level: Level) -> ApplicationState {
        ApplicationState {
            namespace: "prod".to_string(),
            application: application.to_string(),
            level,
            since_seconds: 1_700_000_000.5,
            silent_units: [1, 2, 0],
            marked: [level == Level::Blocked, false],
        }
    }

    #[test]
    fn each_application_has_a_state_set_that_ends_with_it() {
        let prometheus = Prometheus::default();
        let shown = Arc::new(std::sync::Mutex::new(vec![
            state("db", Level::Active),
            state("we\"b\\\n", Level::Blocked),
        ]));
        let read = shown.clone();
        prometheus.observe_applications(move || ApplicationStates {
            shown: read.lock().unwrap().clone(),
            omitted: 3,
        });
        let text = prometheus.text();
        let db = r#"app_namespace="prod",application="db""#;
        let odd = r#"app_namespace="prod",application="we\"b\\\n""#;
        for line in [
            &format!("bellwether_application_status{{{db},level=\"active\"}} 1"),
            &format!("bellwether_application_status{{{db},level=\"blocked\"}} 0"),
            &format!("bellwether_application_status{{{odd},level=\"blocked\"}} 1"),
            &format!("bellwether_application_status_since_timestamp_seconds{{{db}}} 1700000000.5"),
            &format!("bellwether_application_silent_units{{{db},freshness=\"lost\"}} 2"),
            &format!("bellwether_application_marked{{{odd},mark=\"planned\"}} 1"),
            "bellwether_applications_omitted 3",
        ] {
            assert!(text.lines().any(|each| each == line), "no line {line:?} in\n{text}");
        }
        assert!(!text.contains("acknowledged"), "{text}");
        shown.lock().unwrap().clear();
        let text = prometheus.text();
        assert!(!text.contains("\"db\""), "{text}");
        assert!(text.contains("bellwether_applications_omitted 3"), "{text}");
    }
}
