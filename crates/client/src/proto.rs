//! The messages and the stubs of the services, generated from the protos of the server.
//!
//! `src/generated` is committed, so that the package needs no compiler of protos.
//! `tests/generated.rs` checks that it is current, and writes it.

#![allow(missing_docs, clippy::all, rust_2018_idioms)]

/// The request of a unary call, for [`Client::call`](crate::Client::call).
pub trait Unary: prost::Message + 'static {
    /// The answer to this request.
    type Answer: prost::Message + Default + 'static;
    /// The path of the method.
    const PATH: &'static str;
    /// The name of the answer in its package.
    const ANSWER: &'static str;
}

/// A request about an application.
pub trait OfApplication: Default {
    /// Returns a request that names the application and nothing else.
    fn of_application(namespace: &str, application: &str) -> Self;
}

/// A request about a unit.
pub trait OfUnit: OfApplication {
    /// Returns a request that names the unit and nothing else.
    fn of_unit(namespace: &str, application: &str, unit: &str) -> Self;
}

/// Package `bellwether.v1`: the fields have the comments of the protos.
pub mod v1 {
    include!("generated/bellwether.v1.rs");
}

/// Package `grpc.health.v1`.
pub mod health {
    include!("generated/grpc.health.v1.rs");
}
