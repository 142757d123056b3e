//! Every setting of the server with the value in force, in the order and with the names of the
//! file.

use serde_json::{Value, json};

use crate::config;
use crate::config::{Config, StoreChoice};

/// Section, key and value of a setting.
type Setting = (&'static str, &'static str, Value);

/// Returns all settings of the file. A setting that only the file has no value here.
pub fn of(config: &Config) -> Vec<Setting> {
    let own = [place(config), sessions(config), faults(config)].concat();
    let limits = config.limits();
    let value = |section: &str, key: &str| {
        let found = own.iter().find(|(table, name, _)| (*table, *name) == (section, key));
        let limit = || limits.get(key).filter(|_| !section.is_empty()).map(|limit| json!(limit));
        found.map(|(_, _, value)| value.clone()).or_else(limit).unwrap_or(Value::Null)
    };
    let all = config::keys().into_iter();
    all.map(|(section, key)| (section, key, value(section, key))).collect()
}

/// Returns the addresses and the storage backend. The URL of a Redis is printed as it was given.
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
