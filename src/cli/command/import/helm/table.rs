//! The table: what a status of Helm means.

use std::time::Duration;

use jiff::Timestamp;

use crate::cli::command::import::facts::Meaning;
use crate::cli::command::import::helm::document::Release;
use crate::cli::command::import::name::taken;
use crate::cli::command::import::work::{CutOff, WorkFacts};
use crate::domain::limits::PROGRESS_BYTES_MAX;
use crate::domain::message::cut_bytes;
use crate::proto::v1::{Level, OperationKind};

/// How far a release is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// No helm works on it.
    AtRest,
    /// A helm may work on it.
    UnderWay,
    /// The same, since a time that cannot be read.
    Timeless,
    /// It is pending for so long that its helm is gone.
    CutOff,
}

impl Progress {
    /// Returns how far a release is at a time.
    pub fn of(release: &Release, pending_after: Duration, now: Timestamp) -> Progress {
        if kind(release).is_none() {
            return Progress::AtRest;
        }
        let Some(since) = release.updated else { return Progress::Timeless };
        // One that begins after our time is new.
        let age = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        if pending_after <= age { Progress::CutOff } else { Progress::UnderWay }
    }
}

/// Returns the kind of work that is pending.
fn kind(release: &Release) -> Option<OperationKind> {
    match release.status.as_str() {
        "pending-install" => Some(OperationKind::Install),
        "pending-upgrade" => Some(OperationKind::Upgrade),
        "pending-rollback" => Some(OperationKind::Rollback),
        _ => None,
    }
}

/// Returns whether the state is that of a release on which nothing is done.
pub fn is_at_rest(release: &Release) -> bool {
    matches!(release.status.as_str(), "deployed" | "failed")
}

/// Returns the meaning of a release. A word that the table lacks is never active.
pub fn meaning(release: &Release, progress: Progress) -> Meaning {
    let Release { revision, chart, status, .. } = release;
    let (level, reason, message) = match status.as_str() {
        "deployed" => (Level::Active, "", format!("{}, revision {revision}", version(release))),
        "failed" => {
            (Level::Error, "ReleaseFailed", format!("revision {revision} of {chart} failed"))
        }
        "pending-install" | "pending-upgrade" | "pending-rollback" => pending(release, progress),
        "uninstalling" => (Level::Maintenance, "Uninstalling", format!("uninstalling {chart}")),
        "uninstalled" => {
            (Level::Terminated, "Uninstalled", "uninstalled, its history is kept".to_string())
        }
        "superseded" => {
            let text = format!("revision {revision} is superseded, and there is no newer one");
            (Level::Waiting, "Superseded", text)
        }
        "unknown" => {
            (Level::Waiting, "HealthUnknown", format!("helm does not know revision {revision}"))
        }
        other => (Level::Waiting, "UnrecognizedStatus", other.to_string()),
    };
    Meaning::new(level, reason, &message)
}

/// A release on which a helm works, or has worked.
fn pending(release: &Release, progress: Progress) -> (Level, &'static str, String) {
    let Release { revision, chart, .. } = release;
    let [work, doing, reason] = match kind(release) {
        Some(OperationKind::Install) => ["installation of", "installing", "PendingInstall"],
        Some(OperationKind::Rollback) => ["rollback to", "rolling back to", "PendingRollback"],
        _ => ["upgrade to", "upgrading to", "PendingUpgrade"],
    };
    match progress {
        Progress::CutOff => {
            let text = format!("{work} {chart} was cut off at revision {revision}");
            (Level::Blocked, "CutOff", text)
        }
        _ => (Level::Maintenance, reason, format!("{doing} {chart}, revision {revision}")),
    }
}

/// Returns `web-1.4.0 (2.1)`.
fn version(release: &Release) -> String {
    match (release.chart.as_str(), release.app_version.as_str()) {
        ("", _) => "a chart without a name".to_string(),
        (chart, "") => chart.to_string(),
        (chart, version) => format!("{chart} ({version})"),
    }
}

/// Returns what a person does about the state; empty if nothing has to be done.
pub fn action(release: &Release, progress: Progress) -> String {
    let Release { name, namespace, revision, .. } = release;
    let helm = |verb: &str| format!("helm -n {namespace} {verb} {name}");
    let is_first = *revision <= 1 || kind(release) == Some(OperationKind::Install);
    match (release.status.as_str(), progress) {
        ("failed", _) if is_first => {
            format!("{}, then upgrade it, or {}", helm("status"), helm("uninstall"))
        }
        ("failed", _) => format!("{}, then {}", helm("history"), helm("rollback")),
        (_, Progress::CutOff) if is_first => {
            format!("if no helm runs any more: {}, then install it again", helm("uninstall"))
        }
        (_, Progress::CutOff) => format!("if no helm runs any more: {}", helm("rollback")),
        ("superseded" | "unknown", _) => helm("history"),
        _ => String::new(),
    }
}

/// Returns the field that decided.
pub fn decided_by(release: &Release) -> String {
    format!("status={} revision={}", release.status, release.revision)
}

/// Returns the work on a release: one that was cut off becomes an operation.
pub fn work(application: &str, release: &Release, progress: Progress) -> WorkFacts {
    let target = cut_bytes(&release.chart, PROGRESS_BYTES_MAX).to_string();
    let Some(kind) = kind(release) else {
        let in_place = (release.status == "deployed").then_some(target);
        return WorkFacts::Ended { in_place };
    };
    let revision = release.revision;
    let Some(id) = taken(&format!("helm-{application}-{revision}")) else {
        return WorkFacts::NotStated;
    };
    match progress {
        Progress::CutOff if !target.is_empty() => {
            WorkFacts::CutOff(CutOff { id, kind, target, progress: format!("revision {revision}") })
        }
        _ => WorkFacts::UnderWay { id },
    }
}
