//! The real binary over real sockets: one test binary, a file a subject.

mod candidate;
mod load;
mod pair;
mod peer;
mod redis;
mod server;
/// Redis servers, Sentinels, Clusters and a faulty network, as the tests of the library have them.
#[allow(dead_code, unused_imports, reason = "the library's tests use the rest")]
#[path = "../../src/store/redis/testing/mod.rs"]
mod testing;

mod bad_input;
mod bench;
mod bench_all;
mod bench_watch;
mod cli;
mod cli_commands;
mod cli_leader;
mod cli_ops;
mod cli_words;
mod clock;
mod cluster;
mod damping;
mod doctor;
mod durability;
mod elections;
mod errors;
mod errors_files;
mod errors_sessions;
mod failover;
mod faults;
mod first_calls;
mod health;
mod history;
mod in_force;
mod interop;
mod leader;
mod leader_worker;
mod many;
mod multiplex;
mod network;
mod operations;
mod operations_client;
mod operations_helm;
mod operations_vectors;
mod ops;
mod replicas;
mod report;
mod request_ids;
mod secrets;
mod sentinel;
mod server_info;
mod sessions;
mod sessions_bad;
mod sessions_charm;
mod sessions_clocks;
mod sessions_crowd;
mod sessions_replicas;
mod tls;
mod totals;
mod valkey;
mod vectors;
mod watch;
mod worker_client;
