//! Every setting of the server with the value in force, in the order and by the names of the file.

use serde_json::Value;
use serde_json::json;

use crate::config::Config;
use crate::config::StoreChoice;

/// Section, key and value of a setting.
type Setting = (&'static str, &'static str, Value);

/// All settings but those that are flags and have no default.
pub fn of(config: &Config) -> Vec<Setting> {
    let mut all = place(config);
    let limits = config.limits();
    let limit = |key: &str| limits.get(key).map_or(Value::Null, |value| json!(value));
    all.extend(LIMITS.iter().map(|key| ("limits", *key, limit(key))));
    all.extend(HISTORY.iter().map(|key| ("history", *key, limit(key))));
    all.extend(sessions(config));
    all.extend(faults(config));
    all
}

const LIMITS: [&str; 13] = [
    "applications_max",
    "units_max",
    "statuses_per_unit_max",
    "keys_per_component_max",
    "request_ids_max",
    "request_ids_per_unit_max",
    "mailbox_max",
    "connections_max",
    "calls_per_connection_max",
    "watch_streams_max",
    "request_bytes_max",
    "faults_max",
    "faults_per_unit_max",
];

const HISTORY: [&str; 3] = ["events_max", "event_age_max_seconds", "tombstones_max"];

/// Where it listens and remembers. The URL of a Redis is printed as it was given.
fn place(config: &Config) -> Vec<Setting> {
    let mut all = vec![
        ("", "grpc_listen", json!(config.grpc_listen.to_string())),
        ("", "ops_listen", json!(config.ops_listen.to_string())),
        ("", "drain_deadline_seconds", json!(config.drain_deadline.as_secs())),
    ];
    match &config.store {
        StoreChoice::Memory => all.push(("", "store", json!("memory"))),
        StoreChoice::Embedded(dir) => {
            all.push(("", "store", json!("embedded")));
            all.push(("", "data_dir", json!(dir.display().to_string())));
        }
        StoreChoice::Redis(..) => {}
    }
    all
}

fn sessions(config: &Config) -> Vec<Setting> {
    let session = &config.session;
    vec![
        ("sessions", "sessions_max", json!(session.sessions_max)),
        ("sessions", "heartbeat_interval_seconds", json!(session.heartbeat_interval.as_secs())),
        ("sessions", "heartbeats_per_second_max", json!(session.heartbeats_per_second_max)),
        ("sessions", "vanish_percent_max", json!(session.vanish_percent_max)),
        ("sessions", "replica_ttl_seconds", json!(session.replica_ttl.as_secs())),
    ]
}

fn faults(config: &Config) -> Vec<Setting> {
    let faults = &config.aggregator.limits.faults;
    vec![
        ("faults", "soft_count", json!(faults.soft_count)),
        ("faults", "soft_after_seconds", json!(faults.soft_after.as_secs())),
        ("faults", "hard_count", json!(faults.hard_count)),
        ("faults", "hard_after_seconds", json!(faults.hard_after.as_secs())),
        ("faults", "retry_base_milliseconds", json!(millis(faults.retry_base))),
        ("faults", "throttled_base_milliseconds", json!(millis(faults.throttled_base))),
        ("faults", "retry_max_seconds", json!(faults.retry_max.as_secs())),
        ("faults", "defer_interval_seconds", json!(faults.defer_interval.as_secs())),
        ("faults", "retries_per_second_max", json!(faults.retries_per_second_max)),
    ]
}

fn millis(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
