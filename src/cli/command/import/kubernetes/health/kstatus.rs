//! The rules of kstatus, the library with which kubectl, Helm 4 and Flux wait for objects: what
//! each object says in general, then the kinds that are built into Kubernetes.

use jiff::{Timestamp, ToSpan};

use crate::cli::command::import::kubernetes::object::{Object, at};
use serde_json::Value;

/// How long a pod may be unscheduled before it counts as unschedulable.
const SCHEDULE_SECONDS: i64 = 15;

/// A deployment without a deadline for its progress has this one.
const NO_DEADLINE: i64 = i32::MAX as i64;

/// The state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is as it should be.
    Current,
    /// It is on the way there.
    InProgress,
    /// It does not get there by itself.
    Failed,
    /// It is being deleted.
    Terminating,
}

/// The state of an object, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The state.
    pub state: State,
    /// Machine-readable cause.
    pub reason: String,
    /// The text for a person.
    pub message: String,
    /// The field that decided.
    pub field: String,
}

fn found(state: State, reason: &str, message: impl Into<String>, field: &str) -> Found {
    Found { state, reason: reason.to_string(), message: message.into(), field: field.to_string() }
}

fn busy(reason: &str, message: impl Into<String>, field: &str) -> Found {
    found(State::InProgress, reason, message, field)
}

fn current(message: impl Into<String>, field: &str) -> Found {
    found(State::Current, "", message, field)
}

/// Returns the state of an object of any kind. An object that says nothing counts as current.
pub fn compute(object: &Object, now: Timestamp) -> Found {
    general(object)
        .or_else(|| of_kind(object, now))
        .or_else(|| ready(object))
        .unwrap_or_else(|| current("the object says nothing about its state", ""))
}

/// Returns the state by what objects of all kinds have.
pub fn general(object: &Object) -> Option<Found> {
    if !object.text(&["metadata", "deletionTimestamp"]).is_empty() {
        let field = "metadata.deletionTimestamp";
        return Some(found(State::Terminating, "Terminating", "being deleted", field));
    }
    let generation = object.number(&["metadata", "generation"]);
    let observed = object.number(&["status", "observedGeneration"]);
    if let (Some(generation), Some(observed)) = (generation, observed)
        && generation != observed
    {
        let message = format!("generation {generation} is not observed yet, {observed} is");
        return Some(busy("GenerationNotObserved", message, "status.observedGeneration"));
    }
    let standard = |kind: &str| object.condition(kind).filter(|condition| condition.holds());
    if let Some(condition) = standard("Reconciling") {
        let (reason, text) = (condition.reason, condition.text());
        return Some(busy(reason, text, &condition.field()));
    }
    let condition = standard("Stalled")?;
    Some(found(State::Failed, condition.reason, condition.text(), &condition.field()))
}

/// Returns the state by the rules of a kind; `None` for a kind without rules.
pub fn of_kind(object: &Object, now: Timestamp) -> Option<Found> {
    Some(match (object.group(), object.kind()) {
        ("", "Pod") => pod(object, now),
        ("", "Service") => service(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "ConfigMap" | "Secret") | ("batch", "CronJob") => current("always current", ""),
        ("policy", "PodDisruptionBudget") => current("disruptions are computed", ""),
        ("apps" | "extensions", "Deployment") => deployment(object),
        ("apps" | "extensions", "ReplicaSet") => replica_set(object),
        ("apps" | "extensions", "DaemonSet") => daemon_set(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("batch", "Job") => job(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        _ => return None,
    })
}

/// Returns the state by the condition `Ready`.
pub fn ready(object: &Object) -> Option<Found> {
    let condition = object.condition("Ready")?;
    let field = condition.field();
    if condition.holds() {
        return Some(current(condition.text(), &field));
    }
    let is_known = condition.fails() || condition.status == "Unknown";
    is_known.then(|| busy(condition.reason, condition.text(), &field))
}

/// Numbers of replicas.
struct Replicas<'o> {
    object: &'o Object,
    wanted: i64,
}

impl<'o> Replicas<'o> {
    fn of(object: &'o Object) -> Replicas<'o> {
        Replicas { object, wanted: object.number(&["spec", "replicas"]).unwrap_or(1) }
    }

    fn count(&self, name: &str) -> i64 {
        self.object.number(&["status", name]).unwrap_or(0)
    }

    /// Returns a state if fewer than wanted have what a field counts.
    fn too_few(&self, reason: &str, word: &str, name: &str) -> Option<Found> {
        fewer(reason, word, name, self.count(name), self.wanted)
    }

    fn too_many(&self) -> Option<Found> {
        let extra = self.count("replicas") - self.wanted;
        let message = format!("{extra} too many, being stopped");
        (0 < extra).then(|| busy("ExtraPods", message, "status.replicas"))
    }
}

fn fewer(reason: &str, word: &str, name: &str, there: i64, wanted: i64) -> Option<Found> {
    let message = format!("{there} of {wanted} {word}");
    (there < wanted).then(|| busy(reason, message, &format!("status.{name}")))
}

fn deployment(object: &Object) -> Found {
    let deadline = object.number(&["spec", "progressDeadlineSeconds"]).unwrap_or(NO_DEADLINE);
    let progressing = object.condition("Progressing");
    if let Some(condition) = &progressing
        && condition.reason == "ProgressDeadlineExceeded"
    {
        let (reason, text) = (condition.reason, condition.text());
        return found(State::Failed, reason, text, &condition.field());
    }
    let replicas = Replicas::of(object);
    let updated = replicas.count("updatedReplicas");
    let available = replicas.count("availableReplicas");
    let has_progressed = deadline == NO_DEADLINE
        || progressing.is_some_and(|c| c.holds() && c.reason == "NewReplicaSetAvailable");
    let is_available = object.condition("Available").is_some_and(|c| c.holds());
    let (new, whole) = ("ReplicaSetNotAvailable", "DeploymentNotAvailable");
    let by_new = || busy(new, "the new ReplicaSet is not available", "condition Progressing");
    let by_whole = || busy(whole, "the deployment is not available", "condition Available");
    replicas
        .too_few("LessReplicas", "created", "replicas")
        .or_else(|| replicas.too_few("LessUpdated", "updated", "updatedReplicas"))
        .or_else(|| replicas.too_many())
        .or_else(|| fewer("LessAvailable", "available", "availableReplicas", available, updated))
        .or_else(|| replicas.too_few("LessReady", "ready", "readyReplicas"))
        .or_else(|| (!has_progressed).then(by_new))
        .or_else(|| (!is_available).then(by_whole))
        .unwrap_or_else(|| {
            let message = format!("{available} of {} available", replicas.wanted);
            current(message, "condition Available=True")
        })
}

fn replica_set(object: &Object) -> Found {
    if let Some(condition) = object.condition("ReplicaFailure").filter(|c| c.holds()) {
        return busy("ReplicaFailure", condition.text(), &condition.field());
    }
    let replicas = Replicas::of(object);
    replicas
        .too_few("LessLabelled", "labelled", "fullyLabeledReplicas")
        .or_else(|| replicas.too_few("LessAvailable", "available", "availableReplicas"))
        .or_else(|| replicas.too_few("LessReady", "ready", "readyReplicas"))
        .or_else(|| replicas.too_many())
        .unwrap_or_else(|| {
            let (there, wanted) = (replicas.count("availableReplicas"), replicas.wanted);
            current(format!("{there} of {wanted} available"), "status.availableReplicas")
        })
}

fn stateful_set(object: &Object) -> Found {
    let strategy = ["spec", "updateStrategy", "type"];
    if object.text(&strategy) == "OnDelete" {
        let message = "updated when a pod is deleted";
        return current(message, "spec.updateStrategy.type=OnDelete");
    }
    let replicas = Replicas::of(object);
    let updated = replicas.count("updatedReplicas");
    let few = replicas
        .too_few("LessReplicas", "created", "replicas")
        .or_else(|| replicas.too_few("LessReady", "ready", "readyReplicas"))
        .or_else(|| replicas.too_many());
    if let Some(few) = few {
        return few;
    }
    if let Some(first) = object.number(&["spec", "updateStrategy", "rollingUpdate", "partition"]) {
        let wanted = replicas.wanted - first;
        return fewer("PartitionRollout", "updated", "updatedReplicas", updated, wanted)
            .unwrap_or_else(|| {
                let message = format!("the partition is updated, {updated} of {wanted}");
                current(message, "status.updatedReplicas")
            });
    }
    if let Some(few) = replicas.too_few("LessCurrent", "current", "currentReplicas") {
        return few;
    }
    let revision = |name: &str| object.text(&["status", name]);
    if revision("currentRevision") != revision("updateRevision") {
        let message = "the update to the new revision is not complete";
        return busy("RevisionMismatch", message, "status.updateRevision");
    }
    let ready = replicas.count("readyReplicas");
    current(format!("{ready} of {} ready", replicas.wanted), "status.readyReplicas")
}

fn daemon_set(object: &Object) -> Found {
    if object.number(&["metadata", "generation"]).is_none() {
        return busy("NoGeneration", "no generation is set", "metadata.generation");
    }
    if object.number(&["status", "observedGeneration"]).is_none() {
        let message = "no generation is observed yet";
        return busy("NoObservedGeneration", message, "status.observedGeneration");
    }
    let count = |name: &str| object.number(&["status", name]);
    let Some(wanted) = count("desiredNumberScheduled") else {
        let message = "the number of nodes is not known yet";
        return busy("NoDesiredNumber", message, "status.desiredNumberScheduled");
    };
    let steps = [
        ("LessCurrent", "scheduled", "currentNumberScheduled"),
        ("LessUpdated", "updated", "updatedNumberScheduled"),
        ("LessAvailable", "available", "numberAvailable"),
        ("LessReady", "ready", "numberReady"),
    ];
    let few = |(reason, word, name): (&str, &str, &str)| {
        fewer(reason, word, name, count(name).unwrap_or(0), wanted)
    };
    steps
        .into_iter()
        .find_map(few)
        .unwrap_or_else(|| current(format!("ready on {wanted} of {wanted}"), "status.numberReady"))
}

fn pod(object: &Object, now: Timestamp) -> Found {
    let phase = object.text(&["status", "phase"]);
    let field = format!("status.phase={phase}");
    match phase {
        "Succeeded" => current("completed", &field),
        "Failed" => current("completed, not successfully", &field),
        "Running" => {
            if let Some(ready) = object.condition("Ready").filter(|c| c.holds()) {
                return current("ready", &ready.field());
            }
            let crashing = crash_looping(object);
            if crashing.is_empty() {
                return busy("PodNotReady", "running, not ready", &field);
            }
            let message = format!("containers crash again and again: {}", crashing.join(", "));
            found(State::Failed, "CrashLoopBackOff", message, "status.containerStatuses")
        }
        "Pending" => match object.condition("PodScheduled").filter(|c| c.fails()) {
            Some(condition) if condition.reason == "Unschedulable" => {
                let (text, field) = (condition.text(), condition.field());
                let waits =
                    object.created().is_some_and(|at| now < at + SCHEDULE_SECONDS.seconds());
                match waits {
                    true => busy("PodNotScheduled", text, &field),
                    false => found(State::Failed, "Unschedulable", text, &field),
                }
            }
            _ => busy("PodPending", "pending", &field),
        },
        "" => busy("PodNotObserved", "no phase yet", "status.phase"),
        _ => busy("PodPhaseUnknown", format!("phase {phase}"), &field),
    }
}

/// Returns the names of the containers that crash again and again.
fn crash_looping(object: &Object) -> Vec<&str> {
    let reason = ["state", "waiting", "reason"];
    let containers = object.list(&["status", "containerStatuses"]).iter();
    let crashing = containers.filter(|c| at(c, &reason).as_str() == Some("CrashLoopBackOff"));
    crashing.filter_map(|c| c.get("name").and_then(Value::as_str)).collect()
}

fn job(object: &Object) -> Found {
    let status = |name: &str| object.number(&["status", name]).unwrap_or(0);
    let parallelism = object.number(&["spec", "parallelism"]).unwrap_or(1);
    let wanted = object.number(&["spec", "completions"]).unwrap_or(parallelism);
    for condition in object.conditions().iter().filter(|condition| condition.holds()) {
        match condition.kind {
            "Complete" => {
                let message = format!("completed, {} of {wanted}", status("succeeded"));
                return current(message, &condition.field());
            }
            "Failed" => {
                let text = condition.text();
                let reason =
                    if condition.reason.is_empty() { "JobFailed" } else { condition.reason };
                return found(State::Failed, reason, text, &condition.field());
            }
            _ => {}
        }
    }
    if object.text(&["status", "startTime"]).is_empty() {
        return busy("JobNotStarted", "not started", "status.startTime");
    }
    let (active, done) = (status("active"), status("succeeded"));
    current(format!("in progress: {active} active, {done} of {wanted} done"), "status.active")
}

fn service(object: &Object) -> Found {
    let is_balanced = object.text(&["spec", "type"]) == "LoadBalancer";
    if is_balanced && object.text(&["spec", "clusterIP"]).is_empty() {
        return busy("NoIPAssigned", "has no cluster IP", "spec.clusterIP");
    }
    current("there", "")
}

fn claim(object: &Object) -> Found {
    let phase = object.text(&["status", "phase"]);
    let field = format!("status.phase={phase}");
    match phase {
        "Bound" => current("bound", &field),
        phase => busy("NotBound", format!("not bound: {phase}"), &field),
    }
}

fn definition(object: &Object) -> Found {
    for condition in object.conditions() {
        let (reason, text, field) = (condition.reason, condition.text(), condition.field());
        match condition.kind {
            "NamesAccepted" if condition.fails() => {
                return found(State::Failed, reason, text, &field);
            }
            "Established" if condition.fails() && reason != "Installing" => {
                return found(State::Failed, reason, text, &field);
            }
            "Established" if condition.holds() => return current("established", &field),
            _ => {}
        }
    }
    busy("Installing", "being installed", "condition Established")
}
