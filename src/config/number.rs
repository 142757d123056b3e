//! The settings that are numbers. An entry gives the meaning of the key, its type in the file, its
//! place in [`Config`], and its least value unless that is 1; `GetServerInfo`, `config print` and
//! docs/reference/configuration.md take them from here.

use std::time::Duration;

use serde::Deserialize;

use super::Config;
use crate::service::caller::Bound;

/// A setting that is a number, with the value in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Number {
    /// The table of the file; empty for a key outside of the tables.
    pub section: &'static str,
    /// The key.
    pub key: &'static str,
    /// What the number limits or sets, in a sentence or two.
    pub about: &'static str,
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

    /// Returns the unit of the value; empty for a count.
    pub fn unit(&self) -> &'static str {
        let units = ["milliseconds", "per_second", "seconds", "bytes", "percent"];
        match units.into_iter().find(|unit| self.key.contains(unit)) {
            Some("per_second") => "per second",
            unit => unit.unwrap_or_default(),
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

/// A time in seconds; 0 means that there is no limit.
#[derive(Debug, Clone, Copy, Deserialize)]
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
        $(
            $(#[doc = $about:literal])+
            $key:ident: $kind:ty => $($place:ident).+ $(, least $least:literal)?;
        )*
    }) => {
        #[doc = concat!("Table `[", $section, "]` of the file.")]
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub(super) struct $table {
            $($(#[doc = $about])+ pub(super) $key: Option<$kind>,)*
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
                    about: concat!($($about),+).trim_ascii_start(),
                    value: <$kind>::number(config.$($place).+),
                    // The one of the entry, else 1.
                    least: [$($least,)? 1][0],
                }),*]
            }
        }
    };
}

table! {
    FileLimits "limits" {
        /// Applications of the server.
        applications_max: usize => aggregator.applications_max;
        /// Applications of one namespace. Default: `applications_max`.
        applications_per_namespace_max: usize => aggregator.applications_per_namespace_max;
        /// Units of one application.
        units_max: usize => aggregator.limits.units_max;
        /// Statuses of one unit.
        statuses_per_unit_max: usize => aggregator.limits.statuses_per_unit_max;
        /// Keys of one component.
        keys_per_component_max: usize => aggregator.limits.keys_per_component_max;
        /// Request ids that are kept for one application; the oldest are dropped first.
        request_ids_max: usize => aggregator.limits.request_ids_max, least 0;
        /// Request ids that are kept for one unit; the oldest are dropped first.
        request_ids_per_unit_max: usize => aggregator.limits.request_ids_per_unit_max, least 0;
        /// Changes of one application that wait for a commit.
        mailbox_max: usize => aggregator.mailbox_max;
        /// Open connections.
        connections_max: usize => service.connections.connections_max;
        /// Open connections of one address. Default: an eighth of `connections_max`.
        connections_per_peer_max: usize => service.connections.per_peer_max;
        /// Connections whose handshakes are not complete.
        unfinished_connections_max: usize => service.connections.unfinished_max;
        /// Time limit of the handshakes of a connection.
        handshake_seconds_max: Seconds => service.times.handshake;
        /// Age at which a connection accepts no more calls; 0: no limit.
        connection_age_seconds_max: SecondsOrNone => service.times.age_max, least 0;
        /// Open calls on one connection.
        calls_per_connection_max: u32 => service.calls_per_connection_max;
        /// Open watch streams.
        watch_streams_max: usize => service.watches.streams_max;
        /// Open watch streams of one address. Default: a quarter of `watch_streams_max`.
        watch_streams_per_peer_max: usize => service.watches.streams_per_peer_max;
        /// Open health watches.
        health_watch_streams_max: usize => service.watches.health_streams_max;
        /// Connections of one principal. Default: a quarter of `connections_max`.
        connections_per_principal_max: usize => service.account.connections_max;
        /// Watch streams of one principal. Default: a quarter of `watch_streams_max`.
        watch_streams_per_principal_max: usize => service.watches.streams_per_principal_max;
        /// Open unary calls of one caller.
        calls_per_principal_max: OfCaller => service.account.calls_max;
        /// Reports and other changes of one caller.
        reports_per_second_per_principal_max: OfCaller => service.account.reports_per_second;
        /// Reads of one caller.
        reads_per_second_per_principal_max: OfCaller => service.account.reads_per_second;
        /// New watches and sessions of one caller.
        watches_per_second_per_principal_max: OfCaller => service.account.watches_per_second;
        /// Lease renewals and health checks of one caller.
        heartbeats_per_second_per_principal_max: OfCaller => service.account.heartbeats_per_second;
        /// Size of a request with a set, a payload or a list of names.
        request_bytes_max: usize => service.requests.large_bytes_max;
        /// Size of any other request.
        small_request_bytes_max: usize => service.requests.small_bytes_max;
        /// Time in which a request must be complete.
        request_seconds_max: Seconds => service.requests.timeout;
        /// Received bytes of incomplete requests on one connection.
        incomplete_bytes_per_connection_max: usize => service.connections.bytes_per_connection_max;
        /// Received bytes of incomplete requests of one address.
        incomplete_bytes_per_peer_max: usize => service.connections.bytes_per_peer_max;
        /// Received bytes of incomplete requests in total.
        incomplete_bytes_max: usize => service.connections.bytes_max;
        /// Bytes of answers under way on one connection.
        answer_bytes_per_connection_max: usize => service.connections.answers.per_connection_max;
        /// Bytes of answers under way of one address.
        answer_bytes_per_peer_max: usize => service.connections.answers.per_peer_max;
        /// Bytes of answers under way of one principal.
        answer_bytes_per_principal_max: usize => service.connections.answers.per_principal_max;
        /// Bytes of answers under way in total.
        answer_bytes_max: usize => service.connections.answers.max;
        /// Time that a call waits for room for its answer.
        answer_wait_seconds_max: Seconds => service.connections.answers.wait_max, least 0;
        /// Time after which a stream or a connection ends if the peer takes nothing of an answer.
        untaken_seconds_max: Seconds => service.connections.answers.untaken_max;
        /// How many times its size a compressed request may become. One that becomes 64 KiB at
        /// most is always accepted.
        compression_ratio_max: usize => service.requests.compression_ratio_max;
        /// Large requests that are decoded, and large answers that are rendered, at the same time;
        /// the rest waits.
        offloaded_max: usize => service.offloaded_max;
        /// Reads of one application that wait for a revision.
        waiting_reads_max: usize => service.waiting_reads_max;
        /// Open faults of one application.
        faults_max: usize => aggregator.limits.faults_max;
        /// Open faults of one unit.
        faults_per_unit_max: usize => aggregator.limits.faults_per_unit_max;
        /// Units of all applications.
        units_total_max: u64 => aggregator.limits.total.units;
        /// Statuses of all applications.
        statuses_total_max: u64 => aggregator.limits.total.statuses;
        /// Units of one namespace. Default: `units_total_max`.
        units_per_namespace_max: u64 => aggregator.limits.namespace.units;
        /// Statuses of one namespace. Default: `statuses_total_max`.
        statuses_per_namespace_max: u64 => aggregator.limits.namespace.statuses;
        /// Leaders' data of one namespace. Default: `data_bytes_total_max`.
        data_bytes_per_namespace_max: u64 => aggregator.limits.namespace.data_bytes, least 0;
        /// Open faults of all applications.
        faults_total_max: u64 => aggregator.limits.total.faults, least 0;
        /// Operations of all applications, with the finished ones that are kept.
        operations_total_max: u64 => aggregator.limits.total.operations, least 0;
        /// Marks of all applications.
        marks_total_max: u64 => aggregator.limits.total.marks, least 0;
        /// Keys and values of leaders' data of all applications.
        data_bytes_total_max: u64 => aggregator.limits.total.data_bytes, least 0;
        /// Texts, checkpoints and payloads of all applications.
        record_bytes_total_max: u64 => aggregator.limits.total.record_bytes;
        /// Age at which an application without units, statuses, data, operations and a
        /// configuration is deleted; 0 keeps it.
        abandoned_after_seconds: SecondsOrNone => aggregator.limits.abandoned_after, least 0;
        /// Applications with series of their own at `/metrics`.
        metrics_applications_max: usize => metrics_applications_max, least 0;
        /// History of all applications; above it, new events lack their texts.
        history_bytes_total_max: u64 => aggregator.limits.total.history_bytes, least 0;
    }
}

table! {
    FileHistory "history" {
        /// Events about units and their statuses that are kept for one application.
        events_max: u64 => retention.events_max, least 0;
        /// Age at which such an event is dropped.
        event_age_max_seconds: Seconds => retention.event_age_max, least 0;
        /// Events of one application's own status, configuration, leaders and operations.
        own_events_max: u64 => retention.own_events_max, least 0;
        /// Age at which such an event is dropped.
        own_event_age_max_seconds: Seconds => retention.own_event_age_max, least 0;
        /// Deleted applications that are kept, so that watches continue past them.
        tombstones_max: usize => retention.tombstones_max, least 0;
    }
}

table! {
    FileSessions "sessions" {
        /// Open sessions of workers.
        sessions_max: usize => session.sessions_max;
        /// Sessions of one address. Default: a quarter of `sessions_max`.
        sessions_per_peer_max: usize => service.sessions_per_peer_max;
        /// Sessions of one principal. Default: a quarter of `sessions_max`.
        sessions_per_principal_max: usize => service.sessions_per_principal_max;
        /// The longest interval between two messages of a worker.
        heartbeat_interval_seconds: Seconds => session.heartbeat_interval;
        /// Heartbeats that a replica accepts; with more sessions the interval grows.
        heartbeats_per_second_max: u32 => session.heartbeats_per_second_max;
        /// Share of the units of an application that may fall silent at about the same time;
        /// a larger share is taken for a fault of this replica.
        vanish_percent_max: u32 => session.vanish_percent_max, least 0;
        /// Silence after which a replica counts as gone.
        replica_ttl_seconds: Seconds => session.replica_ttl;
    }
}

table! {
    FileFaults "faults" {
        /// Failed attempts in a row after which a fault shows waiting.
        soft_count: u32 => aggregator.limits.faults.soft_count;
        /// Time since the first failed attempt after which a fault shows waiting.
        soft_after_seconds: Seconds => aggregator.limits.faults.soft_after;
        /// Failed attempts in a row after which a fault shows error.
        hard_count: u32 => aggregator.limits.faults.hard_count, least 0;
        /// Time since the first failed attempt after which a fault shows error.
        hard_after_seconds: Seconds => aggregator.limits.faults.hard_after, least 0;
        /// The first wait before a retry; each next one is twice as long.
        retry_base_milliseconds: Millis => aggregator.limits.faults.retry_base;
        /// The first wait after a throttled call.
        throttled_base_milliseconds: Millis => aggregator.limits.faults.throttled_base;
        /// The longest wait before a retry.
        retry_max_seconds: Seconds => aggregator.limits.faults.retry_max;
        /// The wait for a missing dependency.
        defer_interval_seconds: Seconds => aggregator.limits.faults.defer_interval;
        /// Retries of one application in one second.
        retries_per_second_max: u32 => aggregator.limits.faults.retries_per_second_max;
        /// Successes among the errors of one target, within `hard_after_seconds`, after which its
        /// next error shows waiting; at most 16, 0 for never.
        intermittent_count: u32 => aggregator.limits.faults.intermittent_count, least 0;
    }
}

impl Config {
    /// Returns every setting that is a number, in the order of the file.
    pub fn numbers(&self) -> Vec<Number> {
        let drain_deadline = Number {
            section: "",
            key: "drain_deadline_seconds",
            about: "Time that open calls have to finish when the server stops.",
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
