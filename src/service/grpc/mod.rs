//! The gRPC services: a file for each, with a function for each method.

mod application;
mod blockers;
mod collect;
mod data;
mod faults;
mod fleet_faults;
pub mod handlers;
mod health;
mod leader;
mod marks;
mod namespaces;
mod operation;
mod read_path;
mod report;
mod route;
mod server;
mod statuses;
mod timelines;
mod units;
mod uptime;
mod watch;
mod worker;
#[cfg(test)]
mod worlds;

use std::sync::Arc;

use tonic::service::Routes;
use tonic_reflection::pb;

use crate::proto;
use crate::proto::health::health_server::HealthServer;
use crate::proto::v1::app_data_service_server::AppDataServiceServer;
use crate::proto::v1::application_service_server::ApplicationServiceServer;
use crate::proto::v1::leader_service_server::LeaderServiceServer;
use crate::proto::v1::operation_service_server::OperationServiceServer;
use crate::proto::v1::report_service_server::ReportServiceServer;
use crate::proto::v1::server_service_server::ServerServiceServer;
use crate::proto::v1::worker_service_server::WorkerServiceServer;
use crate::service::offload::Offload;
use crate::service::{Options, Parts};

/// Returns every service.
pub(super) fn routes(parts: Parts, options: &Options, offload: &Offload) -> Routes {
    let relay = parts.relay.clone();
    let reads = read_path::Reads::new(parts.aggregator.clone(), parts.hub.clone());
    let watches = watch::Watches::new(&parts, reads.clone(), options.watches);
    let handlers = Arc::new(handlers::Handlers {
        parts,
        reads,
        watches: watches.clone(),
        offload: offload.clone(),
        blockers: blockers::Blockers::new(),
        grouping: tokio::sync::Mutex::new(()),
        timelines: timelines::Timelines::default(),
        has_reflection: options.reflection,
        share_max: (options.sessions_per_peer_max, options.sessions_per_principal_max),
    });
    let own = || handlers.clone();
    let bytes_max = options.requests.large_bytes_max;
    let reports = ReportServiceServer::from_arc(own()).max_decoding_message_size(bytes_max);
    let workers = WorkerServiceServer::from_arc(own()).max_decoding_message_size(bytes_max);
    let applications =
        ApplicationServiceServer::from_arc(own()).max_decoding_message_size(bytes_max);
    let operations = OperationServiceServer::from_arc(own()).max_decoding_message_size(bytes_max);
    let leaders = LeaderServiceServer::from_arc(own()).max_decoding_message_size(bytes_max);
    let data = AppDataServiceServer::from_arc(own()).max_decoding_message_size(bytes_max);
    let servers = ServerServiceServer::from_arc(own()).max_decoding_message_size(bytes_max);
    let health = HealthServer::from_arc(own());
    let reflect = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
            // Each version of the reflection service describes only itself, so both are registered.
            .register_encoded_file_descriptor_set(pb::v1::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(pb::v1alpha::FILE_DESCRIPTOR_SET)
    };
    let mut routes = Routes::new(reports)
        .add_service(workers)
        .add_service(applications)
        .add_service(operations)
        .add_service(leaders)
        .add_service(data)
        .add_service(servers)
        .add_service(health);
    if options.reflection {
        let v1 = reflect().build_v1().expect("our own descriptors decode");
        let v1alpha = reflect().build_v1alpha().expect("our own descriptors decode");
        routes = routes.add_service(v1).add_service(v1alpha);
    }
    let (streams, multiplexed) = (own(), watches.clone());
    let connect = move |request| worker::connect(streams.clone(), request, bytes_max);
    let watch = move |request| watches.clone().serve_watch(request, bytes_max);
    let multiplex = move |request| multiplexed.clone().serve_multiplex(request, bytes_max);
    let router = route::add(routes.into_axum_router(), worker::CONNECT, connect);
    let router = route::add(router, watch::WATCH, watch);
    let router = route::add(router, watch::MULTIPLEX, multiplex);
    let router = match relay {
        Some(relay) => route::at_relay(router, relay),
        None => router,
    };
    // Otherwise axum copies the handler of each call with its state.
    Routes::from(router).prepare()
}
