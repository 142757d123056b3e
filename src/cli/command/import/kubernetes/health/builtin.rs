//! The kinds that are built into Kubernetes, and those of its own extensions: kstatus decides, and
//! what it leaves open has its own rule here. docs/kubernetes.md has the table.

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::command::import::kubernetes::health::kstatus::{self, State};
use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::health::{of_state, pod, refusal};
use crate::cli::command::import::kubernetes::object::{Condition, Object, at, conditions};
use crate::proto::v1::Level;

/// Returns the health of an object of a built-in kind; `None` for other kinds.
pub fn assess(object: &Object, now: Timestamp) -> Option<Verdict> {
    let general = || kstatus::general(object).map(of_state);
    match (object.group(), object.kind()) {
        ("", "Pod") => Some(general().unwrap_or_else(|| pod::assess(object, now))),
        ("apps" | "extensions", "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet") => {
            Some(replicated(object, now))
        }
        ("batch", "Job") => Some(general().unwrap_or_else(|| job(object, now))),
        ("batch", "CronJob") => Some(cron_job(object)),
        ("", "PersistentVolumeClaim") => Some(general().unwrap_or_else(|| claim(object))),
        ("", "PersistentVolume") => Some(volume(object)),
        ("", "Service") => Some(service(object, now)),
        ("extensions" | "networking.k8s.io", "Ingress") => Some(ingress(object)),
        ("autoscaling", "HorizontalPodAutoscaler") => Some(autoscaler(object)),
        ("apiregistration.k8s.io", "APIService") => Some(api_service(object)),
        ("policy", "PodDisruptionBudget") => Some(general().unwrap_or_else(|| budget(object))),
        ("", "Node") => Some(node(object)),
        ("", "Namespace") => Some(namespace(object)),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            kstatus::of_kind(object, now).map(of_state)
        }
        _ => None,
    }
}

/// A controller of pods.
fn replicated(object: &Object, now: Timestamp) -> Verdict {
    if object.is(&["spec", "paused"]) {
        let verdict = Verdict::new(Level::Maintenance, "Paused", "the rollout is paused");
        return verdict.field("spec.paused=true");
    }
    if let Some(found) = kstatus::general(object) {
        return of_state(found);
    }
    if let Some(condition) = object.condition("ReplicaFailure").filter(Condition::holds) {
        return refusal::assess(object, &condition);
    }
    let Some(found) = kstatus::of_kind(object, now) else {
        return Verdict::new(Level::Waiting, "HealthUnknown", "the kind has no rules");
    };
    let by_deletion = object.text(&["spec", "updateStrategy", "type"]) == "OnDelete";
    if by_deletion && found.reason == "LessUpdated" && object.kind() == "DaemonSet" {
        let field = "spec.updateStrategy.type=OnDelete";
        return Verdict::new(Level::Active, "", "updated when a pod is deleted").field(field);
    }
    let failed = found.state == State::Failed;
    let kind = if failed { "Progressing" } else { "Available" };
    let since = object.condition(kind).and_then(|condition| condition.since);
    let verdict = of_state(found).since(since);
    if failed { verdict.action(object.kubectl("describe")) } else { verdict }
}

fn job(object: &Object, now: Timestamp) -> Verdict {
    if object.is(&["spec", "suspend"]) {
        return Verdict::new(Level::Active, "Suspended", "suspended").field("spec.suspend=true");
    }
    let of = |kind: &str| object.condition(kind).filter(Condition::holds);
    let Some(found) = kstatus::of_kind(object, now) else {
        return Verdict::new(Level::Waiting, "HealthUnknown", "the kind has no rules");
    };
    let state = found.state;
    let verdict = of_state(found);
    if let Some(complete) = of("Complete") {
        return Verdict { level: Level::Terminated, ..verdict }.since(complete.since);
    }
    if state == State::Failed {
        let since = of("Failed").and_then(|failed| failed.since);
        return verdict.since(since).action(object.kubectl("logs").replacen(" job ", " job/", 1));
    }
    verdict.since(object.time(&["status", "startTime"]))
}

fn cron_job(object: &Object) -> Verdict {
    if object.is(&["spec", "suspend"]) {
        return Verdict::new(Level::Active, "Suspended", "suspended").field("spec.suspend=true");
    }
    let message = match object.text(&["status", "lastScheduleTime"]) {
        "" => "not run yet".to_string(),
        last => format!("last run at {last}"),
    };
    Verdict::new(Level::Active, "", &message).field("status.lastScheduleTime")
}

fn claim(object: &Object) -> Verdict {
    let phase = object.text(&["status", "phase"]);
    let field = format!("status.phase={phase}");
    let verdict = match phase {
        "Bound" => Verdict::new(Level::Active, "", "bound"),
        "Lost" => {
            let volume = object.text(&["spec", "volumeName"]);
            let message = format!("its volume {volume} is lost");
            Verdict::new(Level::Error, "VolumeLost", &message).action(object.kubectl("describe"))
        }
        "Pending" => {
            let class = object.text(&["spec", "storageClassName"]);
            let of = if class.is_empty() { String::new() } else { format!(" of class {class}") };
            Verdict::new(Level::Waiting, "NotBound", &format!("waits for a volume{of}"))
        }
        phase => Verdict::new(Level::Waiting, "HealthUnknown", &format!("phase {phase}")),
    };
    verdict.field(field)
}

fn volume(object: &Object) -> Verdict {
    let phase = object.text(&["status", "phase"]);
    let message = object.text(&["status", "message"]);
    let text = if message.is_empty() { phase } else { message };
    let level = match phase {
        "Bound" | "Available" | "Released" => Level::Active,
        "Failed" => Level::Error,
        "Pending" => Level::Maintenance,
        _ => return Verdict::new(Level::Waiting, "HealthUnknown", "no phase that is known"),
    };
    Verdict::new(level, "", text).field(format!("status.phase={phase}"))
}

fn service(object: &Object, now: Timestamp) -> Verdict {
    let is_balanced = object.text(&["spec", "type"]) == "LoadBalancer";
    let ingress = ["status", "loadBalancer", "ingress"];
    if is_balanced && object.list(&ingress).is_empty() {
        let verdict = Verdict::new(Level::Waiting, "NoAddress", "waits for its load balancer");
        return verdict.field("status.loadBalancer.ingress");
    }
    of_state(kstatus::compute(object, now))
}

fn ingress(object: &Object) -> Verdict {
    let field = "status.loadBalancer.ingress";
    match object.list(&["status", "loadBalancer", "ingress"]).is_empty() {
        true => Verdict::new(Level::Waiting, "NoAddress", "waits for its address"),
        false => Verdict::new(Level::Active, "", "has its address"),
    }
    .field(field)
}

/// An autoscaler: version 1 has its conditions as text in an annotation.
fn autoscaler(object: &Object) -> Verdict {
    let annotation = "autoscaling.alpha.kubernetes.io/conditions";
    let text = object.text(&["metadata", "annotations", annotation]);
    let old: Value = serde_json::from_str(text).unwrap_or_default();
    let own = at(object.value(), &["status", "conditions"]);
    let all = conditions(if own.is_array() { own } else { &old });
    for condition in &all {
        let fails = matches!(
            (condition.kind, condition.reason),
            ("AbleToScale", "FailedGetScale" | "FailedUpdateScale")
                | ("ScalingActive", "FailedGetResourceMetric" | "InvalidSelector")
        );
        if fails {
            return Verdict::of(Level::Error, condition).action(object.kubectl("describe"));
        }
        if matches!(condition.kind, "AbleToScale" | "ScalingLimited") && condition.holds() {
            return Verdict::of(Level::Active, condition);
        }
    }
    Verdict::new(Level::Maintenance, "", "not scaled yet").field("status.conditions")
}

fn api_service(object: &Object) -> Verdict {
    match object.condition("Available") {
        Some(condition) if condition.holds() => Verdict::of(Level::Active, &condition),
        Some(condition) => Verdict::of(Level::Waiting, &condition),
        None => Verdict::new(Level::Waiting, "", "not processed yet").field("status.conditions"),
    }
}

fn budget(object: &Object) -> Verdict {
    let count = |name: &str| object.number(&["status", name]).unwrap_or(0);
    let (healthy, wanted) = (count("currentHealthy"), count("desiredHealthy"));
    let message = format!("{healthy} healthy, {wanted} needed");
    match healthy < wanted {
        true => Verdict::new(Level::Waiting, "TooFewHealthy", &message),
        false => Verdict::new(Level::Active, "", &message),
    }
    .field("status.currentHealthy")
}

fn node(object: &Object) -> Verdict {
    let Some(ready) = object.condition("Ready") else {
        return Verdict::new(Level::Waiting, "HealthUnknown", "no condition Ready");
    };
    if !ready.holds() {
        return Verdict::of(Level::Error, &ready).action(object.kubectl("describe"));
    }
    let all = object.conditions();
    let pressure = |c: &&Condition<'_>| {
        let is_pressure = c.kind.ends_with("Pressure") || c.kind == "NetworkUnavailable";
        is_pressure && c.holds()
    };
    if let Some(condition) = all.iter().find(pressure) {
        return Verdict::of(Level::Error, condition).action(object.kubectl("describe"));
    }
    if object.is(&["spec", "unschedulable"]) {
        let verdict = Verdict::new(Level::Maintenance, "Cordoned", "takes no new pods");
        return verdict.field("spec.unschedulable=true");
    }
    Verdict::of(Level::Active, &ready)
}

fn namespace(object: &Object) -> Verdict {
    let phase = object.text(&["status", "phase"]);
    match phase {
        "Active" => Verdict::new(Level::Active, "", "active"),
        phase => Verdict::new(Level::Waiting, "HealthUnknown", &format!("phase {phase}")),
    }
    .field(format!("status.phase={phase}"))
}
