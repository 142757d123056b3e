//! Table `[limits]` of the configuration file, and the limits that follow from it.

use std::time::Duration;

use serde::Deserialize;

use super::faults::FileFaults;
use super::{FileHistory, FileSessions};
use crate::aggregator;
use crate::domain::limits::Limits;
use crate::service;

/// The keys of `[limits]`. Errors name a limit by the same word.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct FileLimits {
    applications_max: Option<usize>,
    units_max: Option<usize>,
    statuses_per_unit_max: Option<usize>,
    keys_per_component_max: Option<usize>,
    request_ids_max: Option<usize>,
    request_ids_per_unit_max: Option<usize>,
    mailbox_max: Option<usize>,
    connections_max: Option<usize>,
    connections_per_peer_max: Option<usize>,
    unfinished_connections_max: Option<usize>,
    handshake_seconds_max: Option<u64>,
    connection_age_seconds_max: Option<u64>,
    calls_per_connection_max: Option<u32>,
    watch_streams_max: Option<usize>,
    watch_streams_per_peer_max: Option<usize>,
    health_watch_streams_max: Option<usize>,
    request_bytes_max: Option<usize>,
    small_request_bytes_max: Option<usize>,
    request_seconds_max: Option<u64>,
    incomplete_bytes_per_connection_max: Option<usize>,
    incomplete_bytes_per_peer_max: Option<usize>,
    incomplete_bytes_max: Option<usize>,
    waiting_reads_max: Option<usize>,
    faults_max: Option<usize>,
    faults_per_unit_max: Option<usize>,
    pub(super) units_total_max: Option<u64>,
    pub(super) statuses_total_max: Option<u64>,
    pub(super) faults_total_max: Option<u64>,
    pub(super) operations_total_max: Option<u64>,
    pub(super) data_bytes_total_max: Option<u64>,
    pub(super) record_bytes_total_max: Option<u64>,
    pub(super) history_bytes_total_max: Option<u64>,
}

impl FileLimits {
    pub(super) fn aggregator(
        &self,
        faults: &FileFaults,
        history: &FileHistory,
    ) -> aggregator::Options {
        let default = aggregator::Options::default();
        let limits = Limits::default();
        aggregator::Options {
            limits: Limits {
                units_max: self.units_max.unwrap_or(limits.units_max),
                statuses_per_unit_max: self
                    .statuses_per_unit_max
                    .unwrap_or(limits.statuses_per_unit_max),
                keys_per_component_max: self
                    .keys_per_component_max
                    .unwrap_or(limits.keys_per_component_max),
                request_ids_max: self.request_ids_max.unwrap_or(limits.request_ids_max),
                request_ids_per_unit_max: self
                    .request_ids_per_unit_max
                    .unwrap_or(limits.request_ids_per_unit_max),
                faults_max: self.faults_max.unwrap_or(limits.faults_max),
                faults_per_unit_max: self.faults_per_unit_max.unwrap_or(limits.faults_per_unit_max),
                events_max: history.retention().events_max,
                total: self.total(limits.total),
                faults: faults.settings(),
            },
            applications_max: self.applications_max.unwrap_or(default.applications_max),
            mailbox_max: self.mailbox_max.unwrap_or(default.mailbox_max),
            ..default
        }
    }

    /// Returns the limits of the service. The share of one address defaults to a part of the whole
    /// limit and never exceeds it.
    pub(super) fn service(&self, sessions: &FileSessions, sessions_max: usize) -> service::Options {
        let default = service::Options::default();
        let connections_max = self.connections_max.unwrap_or(default.connections_max);
        let watch_streams_max = self.watch_streams_max.unwrap_or(default.watch_streams_max);
        let share = |given: Option<usize>, whole: usize, part: usize| {
            given.unwrap_or((whole / part).max(1)).min(whole)
        };
        let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
        let age = self.connection_age_seconds_max.filter(|seconds| 0 < *seconds);
        service::Options {
            connections_max,
            connections_per_peer_max: share(
                self.connections_per_peer_max,
                connections_max,
                service::CONNECTION_SHARE,
            ),
            unfinished_connections_max: self
                .unfinished_connections_max
                .unwrap_or(default.unfinished_connections_max),
            handshake_max: seconds(self.handshake_seconds_max, default.handshake_max),
            connection_age_max: age.map(Duration::from_secs),
            calls_per_connection_max: self
                .calls_per_connection_max
                .unwrap_or(default.calls_per_connection_max),
            watch_streams_max,
            watch_streams_per_peer_max: share(
                self.watch_streams_per_peer_max,
                watch_streams_max,
                service::STREAM_SHARE,
            ),
            sessions_per_peer_max: share(
                sessions.sessions_per_peer_max,
                sessions_max,
                service::STREAM_SHARE,
            ),
            health_watch_streams_max: self
                .health_watch_streams_max
                .unwrap_or(default.health_watch_streams_max),
            request_patience: seconds(self.request_seconds_max, default.request_patience),
            waiting_reads_max: self.waiting_reads_max.unwrap_or(default.waiting_reads_max),
            ..self.bytes(default)
        }
    }

    /// Returns the limits in bytes; the others stay at `default`.
    fn bytes(&self, default: service::Options) -> service::Options {
        service::Options {
            request_bytes_max: self.request_bytes_max.unwrap_or(default.request_bytes_max),
            small_request_bytes_max: self
                .small_request_bytes_max
                .unwrap_or(default.small_request_bytes_max),
            incomplete_bytes_per_connection_max: self
                .incomplete_bytes_per_connection_max
                .unwrap_or(default.incomplete_bytes_per_connection_max),
            incomplete_bytes_per_peer_max: self
                .incomplete_bytes_per_peer_max
                .unwrap_or(default.incomplete_bytes_per_peer_max),
            incomplete_bytes_max: self.incomplete_bytes_max.unwrap_or(default.incomplete_bytes_max),
            ..default
        }
    }
}

/// Returns the limits that must not be 0, by name.
pub(super) fn named(
    aggregator: &aggregator::Options,
    service: &service::Options,
) -> Vec<(&'static str, usize)> {
    let limits = &aggregator.limits;
    vec![
        ("applications_max", aggregator.applications_max),
        ("units_max", limits.units_max),
        ("statuses_per_unit_max", limits.statuses_per_unit_max),
        ("keys_per_component_max", limits.keys_per_component_max),
        ("faults_max", limits.faults_max),
        ("faults_per_unit_max", limits.faults_per_unit_max),
        ("units_total_max", limits.total.units as usize),
        ("statuses_total_max", limits.total.statuses as usize),
        ("record_bytes_total_max", limits.total.record_bytes as usize),
        ("mailbox_max", aggregator.mailbox_max),
        ("connections_max", service.connections_max),
        ("connections_per_peer_max", service.connections_per_peer_max),
        ("unfinished_connections_max", service.unfinished_connections_max),
        ("handshake_seconds_max", service.handshake_max.as_secs() as usize),
        ("calls_per_connection_max", service.calls_per_connection_max as usize),
        ("watch_streams_max", service.watch_streams_max),
        ("watch_streams_per_peer_max", service.watch_streams_per_peer_max),
        ("health_watch_streams_max", service.health_watch_streams_max),
        ("sessions_per_peer_max", service.sessions_per_peer_max),
        ("request_bytes_max", service.request_bytes_max),
        ("small_request_bytes_max", service.small_request_bytes_max),
        ("request_seconds_max", service.request_patience.as_secs() as usize),
        ("incomplete_bytes_per_connection_max", service.incomplete_bytes_per_connection_max),
        ("incomplete_bytes_per_peer_max", service.incomplete_bytes_per_peer_max),
        ("incomplete_bytes_max", service.incomplete_bytes_max),
        ("waiting_reads_max", service.waiting_reads_max),
    ]
}
