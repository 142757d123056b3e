//! The messages and the stubs of the services, generated from the protos of the server.
//!
//! `src/generated` is committed, so that the package needs no compiler of protos.
//! `tests/generated.rs` checks that it is current, and writes it.

#![allow(missing_docs, clippy::all, rust_2018_idioms)]

/// Package `bellwether.v1`: the fields have the comments of the protos.
pub mod v1 {
    include!("generated/bellwether.v1.rs");
}

/// Package `grpc.health.v1`.
pub mod health {
    include!("generated/grpc.health.v1.rs");
}
