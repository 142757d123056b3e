//! The controllers that deliver software: Flux, Argo CD, Argo Rollouts and OLM. Their words need
//! rules of their own, since some of them mean the opposite of what conditions mean elsewhere.

use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::health::{kstatus, of_state};
use crate::cli::command::import::kubernetes::object::{Condition, Object, at};
use crate::proto::v1::Level;

/// Returns the health of an object of such a controller; `None` for other kinds.
pub fn assess(object: &Object) -> Option<Verdict> {
    let (group, kind) = (object.group(), object.kind());
    match (group, kind) {
        (group, _) if group.ends_with(".toolkit.fluxcd.io") => Some(flux(object)),
        ("argoproj.io", "Application") => Some(application(object)),
        ("argoproj.io", "Rollout") => rollout(object),
        ("argoproj.io", "Workflow") => Some(workflow(object)),
        ("olm.operatorframework.io", "ClusterExtension") => extension(object),
        _ => None,
    }
}

/// An object of Flux.
fn flux(object: &Object) -> Verdict {
    if object.is(&["spec", "suspend"]) {
        return Verdict::new(Level::Active, "Suspended", "suspended").field("spec.suspend=true");
    }
    let ready = object.condition("Ready");
    if let Some(ready) = ready.as_ref().filter(|ready| ready.reason == "DependencyNotReady") {
        return Verdict::of(Level::Waiting, ready);
    }
    if let Some(found) = kstatus::general(object) {
        return of_state(found);
    }
    match ready {
        Some(ready) if ready.holds() => Verdict::of(Level::Active, &ready),
        Some(ready) if ready.fails() => {
            let is_busy = ready.reason.starts_with("Progressing") || ready.reason.is_empty();
            if is_busy {
                return Verdict::of(Level::Maintenance, &ready);
            }
            if ready.reason == "AuthenticationFailed" {
                let secret = object.text(&["spec", "secretRef", "name"]);
                let action = format!("correct the credentials in the Secret {secret}");
                return Verdict::of(Level::Blocked, &ready).action(action.trim_end());
            }
            Verdict::of(Level::Error, &ready).action(object.kubectl("describe"))
        }
        Some(ready) => Verdict::of(Level::Maintenance, &ready),
        None => {
            let message = "not reconciled yet";
            Verdict::new(Level::Waiting, "HealthUnknown", message).field("status.conditions")
        }
    }
}

/// An application of Argo CD. That it is out of sync adds nothing to its level.
fn application(object: &Object) -> Verdict {
    let word = object.text(&["status", "health", "status"]);
    let message = object.text(&["status", "health", "message"]);
    let phase = object.text(&["status", "operationState", "phase"]);
    let result = object.text(&["status", "operationState", "message"]);
    if phase == "Running" {
        let text = if result.is_empty() { "being synchronised" } else { result };
        let field = "status.operationState.phase=Running";
        return Verdict::new(Level::Maintenance, "Syncing", text).field(field);
    }
    if matches!(phase, "Error" | "Failed") && word != "Degraded" {
        let text = if result.is_empty() { "the last sync failed" } else { result };
        let field = format!("status.operationState.phase={phase}");
        let since = object.time(&["status", "operationState", "finishedAt"]);
        let action = format!("argocd app get {}", object.name());
        return Verdict::new(Level::Error, "SyncFailed", text)
            .field(field)
            .since(since)
            .action(action);
    }
    let conditions = object.list(&["status", "conditions"]).iter();
    let mut errors = conditions.filter(|condition| {
        at(condition, &["type"]).as_str().is_some_and(|kind| kind.ends_with("Error"))
    });
    if let Some(error) = errors.next() {
        let text = |name: &str| at(error, &[name]).as_str().unwrap_or_default();
        let since = text("lastTransitionTime").parse().ok();
        let verdict = Verdict::new(Level::Error, text("type"), text("message"));
        return verdict.field(format!("condition {}", text("type"))).since(since);
    }
    let since = object.time(&["status", "health", "lastTransitionTime"]);
    let text = if message.is_empty() { word } else { message };
    let verdict = match word {
        "Healthy" => Verdict::new(Level::Active, "", text),
        "Suspended" => Verdict::new(Level::Active, "Suspended", text),
        "Progressing" => Verdict::new(Level::Maintenance, "Progressing", text),
        "Degraded" => Verdict::new(Level::Error, "Degraded", text)
            .action(format!("argocd app get {}", object.name())),
        "Missing" => Verdict::new(Level::Waiting, "Missing", text),
        _ => Verdict::new(Level::Waiting, "HealthUnknown", "Argo CD does not know its health"),
    };
    verdict.field(format!("status.health.status={word}")).since(since)
}

/// A rollout of Argo Rollouts; an old one without a phase is judged by its conditions.
fn rollout(object: &Object) -> Option<Verdict> {
    let phase = object.text(&["status", "phase"]);
    let message = object.text(&["status", "message"]);
    let text = if message.is_empty() { phase } else { message };
    let (level, reason) = match phase {
        "Healthy" => (Level::Active, ""),
        "Paused" => (Level::Maintenance, "Paused"),
        "Progressing" => (Level::Maintenance, ""),
        "Degraded" => (Level::Error, "Degraded"),
        _ => return None,
    };
    if let Some(found) = kstatus::general(object).filter(|_| phase != "Degraded") {
        // Old versions write the generation as text of a hash.
        if object.at(&["status", "observedGeneration"]).is_i64() {
            return Some(of_state(found));
        }
    }
    Some(Verdict::new(level, reason, text).field(format!("status.phase={phase}")))
}

fn workflow(object: &Object) -> Verdict {
    let phase = object.text(&["status", "phase"]);
    let message = object.text(&["status", "message"]);
    let text = if message.is_empty() { phase } else { message };
    let (level, reason) = match phase {
        "" | "Pending" | "Running" => (Level::Maintenance, ""),
        "Succeeded" => (Level::Terminated, ""),
        "Failed" | "Error" => (Level::Error, phase),
        _ => (Level::Waiting, "HealthUnknown"),
    };
    let since = object.time(&["status", "finishedAt"]);
    Verdict::new(level, reason, text).field(format!("status.phase={phase}")).since(since)
}

/// An extension of OLM 1: `Progressing=True` with the reason `Succeeded` means that it is done, so
/// the reason decides.
fn extension(object: &Object) -> Option<Verdict> {
    if let Some(found) = kstatus::general(object) {
        return Some(of_state(found));
    }
    let of = |kind: &str| object.condition(kind);
    let is_installed = of("Installed").is_some_and(|c: Condition<'_>| c.holds());
    let progress = of("Progressing")?;
    Some(match progress.reason {
        "Succeeded" if is_installed || of("Installed").is_none() => {
            Verdict::of(Level::Active, &progress)
        }
        "Succeeded" | "RollingOut" => Verdict::of(Level::Maintenance, &progress),
        "Retrying" => Verdict::of(Level::Error, &progress).action(object.kubectl("describe")),
        "Blocked" => {
            let action = "change the extension as its condition Progressing says";
            Verdict::of(Level::Blocked, &progress).action(action)
        }
        "ProgressDeadlineExceeded" => {
            Verdict::of(Level::Error, &progress).action(object.kubectl("describe"))
        }
        _ => return None,
    })
}
