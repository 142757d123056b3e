//! A pod that the API server refuses to create: by a quota, by a policy, or because a webhook does
//! not answer. The controller has the text of the refusal in its condition `ReplicaFailure`.

use crate::cli::command::import::kubernetes::health::verdict::Verdict;
use crate::cli::command::import::kubernetes::object::{Condition, Object};
use crate::proto::v1::Level;

/// Returns the verdict on a refusal.
pub fn assess(object: &Object, condition: &Condition<'_>) -> Verdict {
    let message = condition.message;
    let blocked = Verdict::of(Level::Blocked, condition);
    if let Some(quota) = word_after(message, "exceeded quota: ") {
        let namespace = object.namespace();
        let action = format!("raise the quota {quota} of {namespace}, or lower the requests");
        return blocked.action(action).needs(format!("quota {quota} of {namespace}"));
    }
    if let Some(webhook) = word_after(message, "failed calling webhook \"") {
        let webhook = webhook.trim_end_matches('"');
        let action = format!("restore the service of the admission webhook {webhook}");
        return blocked.action(action).needs(format!("webhook {webhook}"));
    }
    if message.contains("violates PodSecurity") {
        return blocked.action("change the security context of the pod as the policy says");
    }
    if message.contains("serviceaccount \"") || message.contains("error looking up service account")
    {
        return blocked.action("create the service account of the pod");
    }
    if message.contains("is forbidden") || message.contains("denied the request") {
        return blocked.action("change the pod as the message says, or the policy");
    }
    Verdict::of(Level::Error, condition).action(object.kubectl("describe"))
}

fn word_after<'m>(text: &'m str, start: &str) -> Option<&'m str> {
    let rest = &text[text.find(start)? + start.len()..];
    let word = rest.split([',', ' ', ':']).next()?;
    (!word.is_empty() && word.len() <= 200).then_some(word)
}
