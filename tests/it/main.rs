//! The real binary over real sockets: one test binary, a file a subject.

mod peer;
mod redis;
mod server;

mod bad_input;
mod cli;
mod durability;
mod faults;
mod health;
mod interop;
mod ops;
mod replicas;
mod report;
mod sessions;
mod sessions_bad;
mod sessions_charm;
mod sessions_clocks;
mod sessions_crowd;
mod sessions_replicas;
mod vectors;
mod watch;
