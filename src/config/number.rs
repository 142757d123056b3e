//! The settings that are numbers. One line for each key gives its type in the file, its place in
//! [`Config`] and its least value; `GetServerInfo` and `config print` read the same lines.

use std::time::Duration;

use serde::Deserialize;

use super::Config;
use crate::service::account::Bound;

/// A setting that is a number, with the value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// The table of the file; empty for a key outside of the tables.
    pub section: &'static str,
    /// The key.
    pub key: &'static str,
    /// The value, in the unit of the key.
    pub value: u64,
    /// The least value.
    pub least: u64,
}

impl Number {
    /// Returns the name in messages.
    pub fn name(&self) -> String {
        match self.section {
            "faults" => format!("faults.{}", self.key),
            _ => self.key.to_string(),
        }
    }

    /// Returns the largest value, so that no computation overflows: 136 years for a time, and more
    /// than any machine has for a count or bytes.
    pub fn most(&self) -> u64 {
        if self.key.contains("seconds") { u64::from(u32::MAX) } else { 1 << 48 }
    }
}

/// A number of the file, and the value that it stands for.
pub(super) trait FileNumber {
    type Value;

    /// Returns the value.
    fn value(self) -> Self::Value;

    /// Returns the number of a value.
    fn number(value: Self::Value) -> u64;
}

macro_rules! plain {
    ($($kind:ty)*) => {
        $(impl FileNumber for $kind {
            type Value = $kind;

            fn value(self) -> $kind {
                self
            }

            fn number(value: $kind) -> u64 {
                value as u64
            }
        })*
    };
}

plain! { u32 u64 usize }

/// A time in seconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(super) struct Seconds(u64);

impl FileNumber for Seconds {
    type Value = Duration;

    fn value(self) -> Duration {
        Duration::from_secs(self.0)
    }

    fn number(value: Duration) -> u64 {
        value.as_secs()
    }
}

/// A time in seconds, without a limit at 0.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(super) struct SecondsOrNone(u64);

impl FileNumber for SecondsOrNone {
    type Value = Option<Duration>;

    fn value(self) -> Option<Duration> {
        Some(Duration::from_secs(self.0)).filter(|time| !time.is_zero())
    }

    fn number(value: Option<Duration>) -> u64 {
        value.map_or(0, |time| time.as_secs())
    }
}

/// A time in milliseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(super) struct Millis(u64);

impl FileNumber for Millis {
    type Value = Duration;

    fn value(self) -> Duration {
        Duration::from_millis(self.0)
    }

    fn number(value: Duration) -> u64 {
        u64::try_from(value.as_millis()).unwrap_or(u64::MAX)
    }
}

/// A limit on one caller. A limit of the file also holds for callers on this machine.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent)]
pub(super) struct OfCaller(usize);

impl FileNumber for OfCaller {
    type Value = Bound;

    fn value(self) -> Bound {
        Bound { max: self.0, is_for_local: true }
    }

    fn number(value: Bound) -> u64 {
        value.max as u64
    }
}

macro_rules! table {
    ($table:ident $section:literal {
        $($key:ident: $kind:ty => $($place:ident).+, least $least:literal;)*
    }) => {
        #[doc = concat!("Table `[", $section, "]` of the file.")]
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $table {
            $(pub(super) $key: Option<$kind>,)*
        }

        impl $table {
            /// Sets the values that the file gives.
            pub(super) fn apply(&self, config: &mut Config) {
                $(if let Some(given) = self.$key {
                    config.$($place).+ = given.value();
                })*
            }

            fn numbers(config: &Config) -> Vec<Number> {
                vec![$(Number {
                    section: $section,
                    key: stringify!($key),
                    value: <$kind>::number(config.$($place).+),
                    least: $least,
                }),*]
            }
        }
    };
}

table! {
    FileLimits "limits" {
        applications_max: usize => aggregator.applications_max, least 1;
        applications_per_namespace_max: usize =>
            aggregator.applications_per_namespace_max, least 1;
        units_max: usize => aggregator.limits.units_max, least 1;
        statuses_per_unit_max: usize => aggregator.limits.statuses_per_unit_max, least 1;
        keys_per_component_max: usize => aggregator.limits.keys_per_component_max, least 1;
        request_ids_max: usize => aggregator.limits.request_ids_max, least 0;
        request_ids_per_unit_max: usize => aggregator.limits.request_ids_per_unit_max, least 0;
        mailbox_max: usize => aggregator.mailbox_max, least 1;
        connections_max: usize => service.connections_max, least 1;
        connections_per_peer_max: usize => service.connections_per_peer_max, least 1;
        unfinished_connections_max: usize => service.unfinished_connections_max, least 1;
        handshake_seconds_max: Seconds => service.handshake_max, least 1;
        connection_age_seconds_max: SecondsOrNone => service.connection_age_max, least 0;
        calls_per_connection_max: u32 => service.calls_per_connection_max, least 1;
        watch_streams_max: usize => service.watch_streams_max, least 1;
        watch_streams_per_peer_max: usize => service.watch_streams_per_peer_max, least 1;
        health_watch_streams_max: usize => service.health_watch_streams_max, least 1;
        connections_per_principal_max: usize => service.account.connections_max, least 1;
        watch_streams_per_principal_max: usize =>
            service.watch_streams_per_principal_max, least 1;
        calls_per_principal_max: OfCaller => service.account.calls_max, least 1;
        reports_per_second_per_principal_max: OfCaller =>
            service.account.reports_per_second, least 1;
        reads_per_second_per_principal_max: OfCaller => service.account.reads_per_second, least 1;
        watches_per_second_per_principal_max: OfCaller =>
            service.account.watches_per_second, least 1;
        heartbeats_per_second_per_principal_max: OfCaller =>
            service.account.heartbeats_per_second, least 1;
        request_bytes_max: usize => service.request_bytes_max, least 1;
        small_request_bytes_max: usize => service.small_request_bytes_max, least 1;
        request_seconds_max: Seconds => service.request_patience, least 1;
        incomplete_bytes_per_connection_max: usize =>
            service.incomplete_bytes_per_connection_max, least 1;
        incomplete_bytes_per_peer_max: usize => service.incomplete_bytes_per_peer_max, least 1;
        incomplete_bytes_max: usize => service.incomplete_bytes_max, least 1;
        waiting_reads_max: usize => service.waiting_reads_max, least 1;
        faults_max: usize => aggregator.limits.faults_max, least 1;
        faults_per_unit_max: usize => aggregator.limits.faults_per_unit_max, least 1;
        units_total_max: u64 => aggregator.limits.total.units, least 1;
        statuses_total_max: u64 => aggregator.limits.total.statuses, least 1;
        units_per_namespace_max: u64 => aggregator.limits.namespace.units, least 1;
        statuses_per_namespace_max: u64 => aggregator.limits.namespace.statuses, least 1;
        data_bytes_per_namespace_max: u64 => aggregator.limits.namespace.data_bytes, least 0;
        faults_total_max: u64 => aggregator.limits.total.faults, least 0;
        operations_total_max: u64 => aggregator.limits.total.operations, least 0;
        data_bytes_total_max: u64 => aggregator.limits.total.data_bytes, least 0;
        record_bytes_total_max: u64 => aggregator.limits.total.record_bytes, least 1;
        metrics_applications_max: usize => metrics_applications_max, least 0;
        history_bytes_total_max: u64 => aggregator.limits.total.history_bytes, least 0;
    }
}

table! {
    FileHistory "history" {
        events_max: u64 => retention.events_max, least 0;
        event_age_max_seconds: Seconds => retention.event_age_max, least 0;
        tombstones_max: usize => retention.tombstones_max, least 0;
    }
}

table! {
    FileSessions "sessions" {
        sessions_max: usize => session.sessions_max, least 1;
        sessions_per_peer_max: usize => service.sessions_per_peer_max, least 1;
        sessions_per_principal_max: usize => service.sessions_per_principal_max, least 1;
        heartbeat_interval_seconds: Seconds => session.heartbeat_interval, least 1;
        heartbeats_per_second_max: u32 => session.heartbeats_per_second_max, least 1;
        vanish_percent_max: u32 => session.vanish_percent_max, least 0;
        replica_ttl_seconds: Seconds => session.replica_ttl, least 1;
    }
}

table! {
    FileFaults "faults" {
        soft_count: u32 => aggregator.limits.faults.soft_count, least 1;
        soft_after_seconds: Seconds => aggregator.limits.faults.soft_after, least 1;
        hard_count: u32 => aggregator.limits.faults.hard_count, least 0;
        hard_after_seconds: Seconds => aggregator.limits.faults.hard_after, least 0;
        retry_base_milliseconds: Millis => aggregator.limits.faults.retry_base, least 1;
        throttled_base_milliseconds: Millis => aggregator.limits.faults.throttled_base, least 1;
        retry_max_seconds: Seconds => aggregator.limits.faults.retry_max, least 1;
        defer_interval_seconds: Seconds => aggregator.limits.faults.defer_interval, least 1;
        retries_per_second_max: u32 => aggregator.limits.faults.retries_per_second_max, least 1;
    }
}

impl Config {
    /// Returns every setting that is a number, in the order of the file.
    pub fn numbers(&self) -> Vec<Number> {
        let drain_deadline = Number {
            section: "",
            key: "drain_deadline_seconds",
            value: self.drain_deadline.as_secs(),
            least: 0,
        };
        let mut all = vec![drain_deadline];
        all.extend(FileLimits::numbers(self));
        all.extend(FileHistory::numbers(self));
        all.extend(FileSessions::numbers(self));
        all.extend(FileFaults::numbers(self));
        all
    }
}
