//! Pods, and what each of their containers says.

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::command::import::kubernetes::health::container;
use crate::cli::command::import::kubernetes::health::kstatus::{self, State};
use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::health::{OfContainer, of_state};
use crate::cli::command::import::kubernetes::object::{Condition, Object, at, number};
use crate::proto::v1::Level;

/// Limit of the claims that a pod states as needs.
const CLAIMS_MAX: usize = 8;

/// Returns the health of a pod as a whole.
pub fn assess(object: &Object, now: Timestamp) -> Verdict {
    let phase = object.text(&["status", "phase"]);
    let field = format!("status.phase={phase}");
    let since = object.condition("Ready").and_then(|ready| ready.since);
    match phase {
        "Failed" => return failed(object).field(field).since(since),
        "Succeeded" => {
            return Verdict::new(Level::Terminated, "", "completed").field(field).since(since);
        }
        "Running" if crashed(object) => {
            let message = "not ready after a container has ended";
            return Verdict::new(Level::Error, "NotReady", message).field(field).since(since);
        }
        _ => {}
    }
    let found = kstatus::of_kind(object, now).or_else(|| kstatus::ready(object));
    let Some(found) = found else {
        return Verdict::new(Level::Waiting, "HealthUnknown", "no phase").field(field);
    };
    let scheduled = object.condition("PodScheduled").filter(Condition::fails);
    match scheduled {
        Some(condition) if found.state == State::Failed => unschedulable(object, &condition),
        _ => of_state(found).since(since),
    }
}

/// Returns what the containers say that is not well, init containers first.
pub fn containers(object: &Object) -> Vec<OfContainer> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let all = lists.iter().flat_map(|list| object.list(&["status", list]));
    let named = all.filter_map(|container| {
        let name = container.get("name").and_then(Value::as_str)?;
        Some((name.to_string(), container::assess(object, name, container)?))
    });
    named.collect()
}

/// Returns whether a pod that is to run for ever is not ready, and one of its containers has ended.
fn crashed(object: &Object) -> bool {
    let restarts = matches!(object.text(&["spec", "restartPolicy"]), "Always" | "");
    let is_ready = object.condition("Ready").is_some_and(|ready| ready.holds());
    let ended = |container: &Value| at(container, &["lastState", "terminated"]).is_object();
    restarts && !is_ready && object.list(&["status", "containerStatuses"]).iter().any(ended)
}

/// Returns the verdict on a pod that has ended with an error. One that was evicted has a
/// replacement, and stays only as a record.
fn failed(object: &Object) -> Verdict {
    let reason = object.text(&["status", "reason"]);
    let message = object.text(&["status", "message"]);
    let is_record = matches!(reason, "Evicted" | "NodeShutdown" | "NodeAffinity" | "Terminated")
        && object.owner().is_some_and(|(kind, _)| kind != "Job");
    if is_record {
        return Verdict::new(Level::Terminated, reason, message);
    }
    let lists = ["initContainerStatuses", "containerStatuses"];
    let all = lists.iter().flat_map(|list| object.list(&["status", list]));
    let ended = all.filter_map(|container| {
        let ended = at(container, &["state", "terminated"]);
        let code = number(at(ended, &["exitCode"])).filter(|code| *code != 0)?;
        let name = container.get("name").and_then(Value::as_str)?;
        let cause = at(ended, &["reason"]).as_str().unwrap_or("Error");
        Some(format!("container {name} ended with {code} ({cause})"))
    });
    let ended = ended.collect::<Vec<_>>().join(", ");
    let message = [message, &ended].into_iter().find(|text| !text.is_empty()).unwrap_or("failed");
    let reason = if reason.is_empty() { "PodFailed" } else { reason };
    Verdict::new(Level::Error, reason, message).action(object.kubectl("logs --all-containers"))
}

/// Returns the verdict on a pod that no node takes: what a person does depends on what is missing.
fn unschedulable(object: &Object, condition: &Condition<'_>) -> Verdict {
    let message = condition.message;
    let verdict = Verdict::of(Level::Blocked, condition);
    if message.contains("unbound immediate PersistentVolumeClaims")
        || message.contains("persistentvolumeclaim \"")
    {
        let waits = Verdict::of(Level::Waiting, condition);
        let namespace = object.namespace();
        let claims = claims(object).into_iter().take(CLAIMS_MAX);
        return claims.fold(waits, |v, claim| v.needs(format!("pvc {namespace}/{claim}")));
    }
    if message.contains("Insufficient") {
        return verdict.action("add nodes, or lower the requests of the pod");
    }
    if message.contains("taint") {
        return verdict.action("free a node of its taint, or let the pod tolerate it");
    }
    if message.contains("affinity") || message.contains("selector") {
        return verdict
            .action("give a node the labels that the pod selects, or change its selector");
    }
    if message.contains("free ports") {
        return verdict.action("free the host port on a node, or change the port of the pod");
    }
    verdict.action(object.kubectl("describe"))
}

/// Returns the names of the claims of a pod.
pub fn claims(object: &Object) -> Vec<&str> {
    let volumes = object.list(&["spec", "volumes"]).iter();
    let name = ["persistentVolumeClaim", "claimName"];
    volumes.filter_map(|volume| at(volume, &name).as_str()).collect()
}
