//! The real binary over real sockets: one test binary, a file a subject.

mod peer;
mod redis;
mod server;

mod bad_input;
mod bench;
mod cli;
mod doctor;
mod durability;
mod faults;
mod health;
mod interop;
mod ops;
mod replicas;
mod report;
mod sessions;
mod valkey;
mod vectors;
mod watch;
