//! What is kept of an object while a document is read: a document of 256 MiB has some 100,000 of
//! them, so an object itself is dropped once its health is known.

use jiff::Timestamp;

use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::health::{self, OfContainer};
use crate::cli::command::import::kubernetes::object::{Object, at};
use crate::cli::command::import::kubernetes::rules::HealthRules;
use serde_json::Value;

/// Limit of the needs of one status.
const NEEDS_MAX: usize = 8;

/// An object, as far as a plan needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterObject {
    /// Its identity.
    pub id: Id,
    /// The object that owns it.
    pub owner: Option<Id>,
    /// The name that its labels give its application.
    pub label: Option<String>,
    /// Label that a Deployment gives the pods of one version.
    pub hash: Option<String>,
    /// What it says as a whole.
    pub verdict: Verdict,
    /// What its containers say.
    pub containers: Vec<OfContainer>,
    /// The objects of its kind that it waits for: namespace and name.
    pub waits_for: Vec<(String, String)>,
    /// How often it has failed, by the name of the label.
    pub failures: Vec<(&'static str, i64)>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it has a status.
    pub has_status: bool,
    /// Whether it has ended: a pod or a job.
    pub has_ended: bool,
    /// Whether it is to have no replicas.
    pub is_empty: bool,
}

/// The identity of an object within a document.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// Its namespace; empty for an object of the cluster.
    pub namespace: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
}

impl ClusterObject {
    /// Reads an object.
    ///
    /// # Errors
    /// What the rules of the user or their command refuse.
    pub fn of(
        object: &Object,
        rules: &mut HealthRules,
        now: Timestamp,
    ) -> anyhow::Result<ClusterObject> {
        let id = |kind: &str, name: &str| Id {
            namespace: object.namespace().to_string(),
            kind: kind.to_string(),
            name: name.to_string(),
        };
        let verdict = rules.assess(object, now)?;
        let given = |text: &str| (!text.is_empty()).then(|| text.to_string());
        let labels = ["app.kubernetes.io/instance", "app.kubernetes.io/name"];
        let phase = object.text(&["status", "phase"]);
        Ok(ClusterObject {
            id: id(object.kind(), object.name()),
            owner: object.owner().map(|(kind, name)| id(kind, name)),
            label: labels.iter().find_map(|label| given(object.label(label))),
            hash: given(object.label("pod-template-hash")),
            containers: health::containers(object),
            waits_for: waits_for(object, &verdict),
            failures: failures(object),
            created: object.created(),
            has_status: object.at(&["status"]).is_object(),
            has_ended: matches!(phase, "Succeeded" | "Failed"),
            is_empty: object.number(&["spec", "replicas"]) == Some(0),
            verdict,
        })
    }
}

/// The counters of a HelmRelease of Flux, with their labels.
const FAILURES: [(&str, &str); 3] = [
    ("failures", "failures"),
    ("installFailures", "install-failures"),
    ("upgradeFailures", "upgrade-failures"),
];

/// Returns how often the release of a HelmRelease has failed.
fn failures(object: &Object) -> Vec<(&'static str, i64)> {
    if (object.kind(), object.group()) != ("HelmRelease", "helm.toolkit.fluxcd.io") {
        return Vec::new();
    }
    let count = |(field, label)| Some((label, object.number(&["status", field])?));
    FAILURES.into_iter().filter_map(count).filter(|(_, count)| 0 < *count).collect()
}

/// Returns what an object of Flux waits for.
fn waits_for(object: &Object, verdict: &Verdict) -> Vec<(String, String)> {
    if verdict.reason != "DependencyNotReady" {
        return Vec::new();
    }
    let text = |value: &Value, name: &str| at(value, &[name]).as_str().map(str::to_string);
    let all = object.list(&["spec", "dependsOn"]).iter().take(NEEDS_MAX);
    let own = object.namespace();
    all.filter_map(|needed| {
        let namespace = text(needed, "namespace").unwrap_or_else(|| own.to_string());
        Some((namespace, text(needed, "name")?))
    })
    .collect()
}
