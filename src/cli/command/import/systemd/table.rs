//! The table: what a state of systemd means.

use crate::cli::command::import::facts::Meaning;
use crate::cli::command::import::systemd::document::SystemdUnit;
use crate::proto::v1::Level;

/// Restarts after which a service that ends and is started again counts as failing.
const RESTARTS_MAX: u32 = 3;

/// Reasons by `Result`.
const RESULTS: [(&str, &str); 12] = [
    ("resources", "Resources"),
    ("protocol", "Protocol"),
    ("timeout", "Timeout"),
    ("exit-code", "ExitCode"),
    ("signal", "Signal"),
    ("core-dump", "CoreDump"),
    ("watchdog", "Watchdog"),
    ("start-limit-hit", "StartLimitHit"),
    ("oom-kill", "OomKill"),
    ("exec-condition", "ExecCondition"),
    ("trigger-limit-hit", "TriggerLimitHit"),
    ("service-start-limit-hit", "ServiceStartLimitHit"),
];

/// Returns the meaning of the state of a unit. A word that the table lacks is never active.
pub fn meaning(unit: &SystemdUnit) -> Meaning {
    match unit.load_state.as_str() {
        "not-found" => return Meaning::new(Level::Blocked, "NotFound", "there is no such unit"),
        "bad-setting" | "error" => {
            return Meaning::new(Level::Blocked, "BadSetting", or(&unit.load_error, "bad setting"));
        }
        "masked" => return Meaning::new(Level::Terminated, "Masked", "masked"),
        _ => {}
    }
    match unit.active_state.as_str() {
        "active" => Meaning::new(Level::Active, "", or(&unit.status_text, &unit.sub_state)),
        "activating" if unit.sub_state.starts_with("auto-restart") => restarting(unit),
        "reloading" | "activating" | "deactivating" | "refreshing" | "maintenance" => {
            Meaning::new(Level::Maintenance, "", or(&unit.status_text, &unit.active_state))
        }
        "failed" => Meaning::new(Level::Error, reason(unit), &failed(unit)),
        "inactive" => inactive(unit),
        other => Meaning::new(Level::Waiting, "UnrecognizedStatus", other),
    }
}

/// A service that ended, and that systemd starts again.
fn restarting(unit: &SystemdUnit) -> Meaning {
    let message = format!("restart {}: {}", unit.restarts, failed(unit));
    match RESTARTS_MAX <= unit.restarts {
        true => Meaning::new(Level::Error, "RestartLoop", &message),
        false => Meaning::new(Level::Maintenance, "AutoRestart", &message),
    }
}

fn inactive(unit: &SystemdUnit) -> Meaning {
    let is_enabled = matches!(unit.file_state.as_str(), "enabled" | "enabled-runtime");
    match unit.kind.as_str() {
        // A oneshot service ends, unless it remains after its exit.
        "oneshot" => Meaning::new(Level::Terminated, "", "not running, as after its end"),
        _ if is_enabled => Meaning::new(Level::Waiting, "NotStarted", "enabled, and not started"),
        _ => Meaning::new(Level::Terminated, "", or(&unit.file_state, "inactive")),
    }
}

/// Returns `exit-code 1`.
fn failed(unit: &SystemdUnit) -> String {
    let result = or(&unit.result, "failed");
    match unit.exit_status.as_str() {
        "" | "0" => result.to_string(),
        status => format!("{result} {status}"),
    }
}

fn reason(unit: &SystemdUnit) -> &'static str {
    let known = RESULTS.iter().find(|(result, _)| *result == unit.result);
    known.map_or("Failed", |(_, reason)| reason)
}

/// Returns what a person does about the state; empty if nothing has to be done.
pub fn action(unit: &SystemdUnit) -> String {
    let id = &unit.id;
    let is_limited = unit.result.ends_with("start-limit-hit");
    match meaning(unit).level {
        Level::Error if is_limited => {
            format!("journalctl -u {id}, then systemctl reset-failed {id}")
        }
        Level::Error => format!("journalctl -u {id}"),
        Level::Blocked if unit.load_state == "not-found" => {
            format!("install {id}, or stop importing it")
        }
        Level::Blocked => format!("systemctl status {id}, then systemctl daemon-reload"),
        _ => String::new(),
    }
}

/// Returns the properties that decided.
pub fn decided_by(unit: &SystemdUnit) -> String {
    let loaded = matches!(unit.load_state.as_str(), "" | "loaded" | "stub" | "merged");
    let state = if loaded {
        format!("ActiveState={} SubState={}", unit.active_state, unit.sub_state)
    } else {
        format!("LoadState={}", unit.load_state)
    };
    format!("systemctl show {}: {state}", unit.id)
}

fn or<'a>(text: &'a str, otherwise: &'a str) -> &'a str {
    if text.is_empty() { otherwise } else { text }
}
