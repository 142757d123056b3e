//! The open errors and the operations of an application, each with what comes next.

use std::fmt::Display;

use tonic::Status;

use super::rule::add_rest;
use super::{begin, joined, word};
use crate::proto::v1;
use crate::service::web::page::add_failure;
use crate::service::web::page::html::Html;
use crate::service::web::page::moment::add_until;

/// Adds the open errors with their next attempts.
pub fn add_faults(html: &mut Html, faults: &[v1::Fault], count: i32, command: &str) {
    if faults.is_empty() {
        return;
    }
    begin(html, "faults", "Open errors", "");
    html.raw(r#"<ul class="entries">"#);
    for fault in faults {
        let place = joined(&[&fault.unit, &fault.component, &fault.target]);
        let text = fault.last.as_ref().map(|last| last.message.as_str()).unwrap_or_default();
        let class = word(fault.class().as_str_name(), "ERROR_CLASS_");
        let times = if fault.count == 1 { "time" } else { "times" };
        let markup = r#"<li><b>{}</b>: {} <span class="note">{}, {} {}, "#;
        html.fill(markup, &[&place, &text, &class, &fault.count, &times]);
        match &fault.next_retry_time {
            Some(time) => {
                html.raw("next attempt ");
                add_until(html, time);
            }
            None => {
                html.raw("no further attempt");
            }
        }
        html.raw("</span></li>");
    }
    html.raw("</ul>");
    add_rest(html, faults.len(), count, command);
    html.raw("</div>");
}

/// Adds the operations, the latest first. The flag says whether there are more.
pub fn add_operations(
    html: &mut Html,
    operations: &Result<(Vec<v1::Operation>, bool), Status>,
    command: &str,
) {
    if operations.as_ref().is_ok_and(|(operations, _)| operations.is_empty()) {
        return;
    }
    begin(html, "operations", "Operations", "");
    match operations {
        Err(status) => add_failure(html, status),
        Ok((operations, is_cut)) => {
            html.raw(r#"<ul class="entries">"#);
            operations.iter().for_each(|operation| add_operation(html, operation));
            html.raw("</ul>");
            if *is_cut {
                html.fill(r#"<p class="note">older ones: <code>{}</code></p>"#, &[&command]);
            }
        }
    }
    html.raw("</div>");
}

fn add_operation(html: &mut Html, operation: &v1::Operation) {
    let kind = word(operation.kind().as_str_name(), "OPERATION_KIND_");
    html.fill("<li>{} <b>{}</b>: ", &[&kind, &operation.operation_id]);
    if !operation.from_version.is_empty() {
        html.fill("{} to ", &[&operation.from_version]);
    }
    let state = word(operation.state().as_str_name(), "OPERATION_STATE_");
    html.fill("{}, <b>{}</b>", &[&operation.target_version, &state]);
    html.labelled(", ", &operation.progress).labelled(", held by ", &operation.holder);
    if 0 < operation.attempts_failed {
        let counts: [&dyn Display; 2] = [&operation.attempts_failed, &operation.max_attempts];
        html.fill(", {} of {} attempts failed", &counts);
    }
    if !operation.next_step.is_empty() || operation.next_time.is_some() {
        html.fill(r#" <span class="note">Next: {} "#, &[&operation.next_step]);
        if let Some(time) = &operation.next_time {
            add_until(html, time);
        }
        html.raw("</span>");
    }
    html.raw("</li>");
}
