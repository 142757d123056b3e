//! One container of a pod: why it does not run, and what a person does about it.

use serde_json::Value;

use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::object::{Object, at, number};
use crate::proto::v1::Level;

/// Returns what a container says, unless it is well or only starts.
pub fn assess(pod: &Object, name: &str, container: &Value) -> Option<Verdict> {
    let waiting = at(container, &["state", "waiting"]);
    let reason = at(waiting, &["reason"]).as_str().unwrap_or_default();
    let message = at(waiting, &["message"]).as_str().unwrap_or_default();
    let message = if message.is_empty() { reason } else { message };
    let field = format!("containerStatuses[{name}].state.waiting.reason={reason}");
    let blocked = || Verdict::new(Level::Blocked, reason, message).field(field.as_str());
    Some(match reason {
        "" | "ContainerCreating" | "PodInitializing" => return None,
        "ImagePullBackOff" | "ErrImagePull" | "RegistryUnavailable" | "ImageInspectError" => {
            blocked().action(pull(container, message))
        }
        "InvalidImageName" => blocked().action(format!("correct the image {}", image(container))),
        "ErrImageNeverPull" => {
            let image = image(container);
            blocked().action(format!("put the image {image} on the node, or allow to pull it"))
        }
        "CreateContainerConfigError" => configured(pod, message, blocked()),
        "CrashLoopBackOff" => crash_loop(pod, name, container).field(field),
        reason if is_error(reason) => {
            let action = pod.kubectl("describe");
            Verdict::new(Level::Error, reason, message).field(field).action(action)
        }
        reason => Verdict::new(Level::Waiting, reason, message).field(field),
    })
}

/// Returns whether a reason of the kubelet is an error: `ErrImagePull`, `RunContainerError`,
/// `PreStartHookBackOff`.
fn is_error(reason: &str) -> bool {
    reason.starts_with("Err") || reason.ends_with("Error") || reason.ends_with("BackOff")
}

fn image(container: &Value) -> &str {
    at(container, &["image"]).as_str().unwrap_or("of the container")
}

/// Returns what to do about an image that cannot be pulled.
fn pull(container: &Value, message: &str) -> String {
    let image = image(container);
    let says = |words: &[&str]| words.iter().any(|word| message.to_lowercase().contains(word));
    if says(&["unauthorized", "denied", "authentication", "forbidden", "no basic auth"]) {
        format!("give the pod an image pull secret that may read {image}, or correct the image")
    } else if says(&["not found", "manifest unknown", "does not exist"]) {
        format!("correct the image, or push it: {image} does not exist")
    } else if says(&["toomanyrequests", "rate limit"]) {
        format!("pull {image} with an account, or from a mirror: the registry limits this one")
    } else {
        format!("make {image} reachable from the node, or correct it")
    }
}

/// Returns the verdict on a container whose ConfigMap or Secret is missing: `configmap "x" not
/// found`, or `couldn't find key K in ConfigMap NS/x`.
fn configured(pod: &Object, message: &str, blocked: Verdict) -> Verdict {
    let namespace = pod.namespace();
    let text = message.to_lowercase();
    for (kind, word) in [("ConfigMap", "configmap"), ("Secret", "secret")] {
        if let Some(name) = between(message, &text, &format!("{word} \""), '"') {
            let action = format!("create the {kind} {name} in {namespace}");
            return blocked.action(action).needs(format!("{word} {namespace}/{name}"));
        }
        let key = between(message, &text, "find key ", ' ');
        let of = between(message, &text, &format!("in {word} "), ' ');
        if let (Some(key), Some(of)) = (key, of) {
            let of = of.trim_end_matches(['.', ',']);
            let action = format!("add the key {key} to the {kind} {of}");
            return blocked.action(action).needs(format!("{word} {of}"));
        }
    }
    blocked.action(pod.kubectl("describe"))
}

/// Returns what stands between a word and an end, or the end of the text. `lower` is the text in
/// lower case.
fn between<'m>(text: &'m str, lower: &str, word: &str, end: char) -> Option<&'m str> {
    let start = lower.find(word)? + word.len();
    // Letters beyond ASCII may have another length in lower case.
    let rest = text.get(start..)?;
    let found = rest.split(end).next().unwrap_or(rest);
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ',');
    (!found.is_empty() && found.len() <= 200 && found.chars().all(is_name)).then_some(found)
}

fn crash_loop(pod: &Object, name: &str, container: &Value) -> Verdict {
    let restarts = number(at(container, &["restartCount"])).unwrap_or(0);
    let ended = at(container, &["lastState", "terminated"]);
    let cause = at(ended, &["reason"]).as_str().unwrap_or_default();
    let code = number(at(ended, &["exitCode"]));
    let how = match (code, cause) {
        (Some(code), "" | "Error") => format!(", the last time with exit code {code}"),
        (Some(code), cause) => format!(", the last time with exit code {code} ({cause})"),
        (None, _) => String::new(),
    };
    let message = format!("crashes again and again: restarted {restarts} times{how}");
    let action = match cause {
        "OOMKilled" => format!("raise the memory limit of the container {name}, or use less"),
        _ => pod.kubectl(&format!("logs -c {name} --previous")).replacen(" pod ", " ", 1),
    };
    let since = at(ended, &["finishedAt"]).as_str().and_then(|at| at.parse().ok());
    Verdict::new(Level::Error, "CrashLoopBackOff", &message).action(action).since(since)
}
