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

/// Returns a duration of a message; `None` for a negative one, which has no meaning.
///
/// The conversion of `prost_types` overflows for the least durations, so they are cut before it.
pub fn span(given: Option<prost_types::Duration>) -> Option<std::time::Duration> {
    let given = given?;
    let seconds = given.seconds.max(i64::MIN / 2);
    std::time::Duration::try_from(prost_types::Duration { seconds, ..given }).ok()
}

/// Package `bellwether.v1`: the fields have the comments of the protos.
pub mod v1 {
    include!("generated/bellwether.v1.rs");
}

/// Package `grpc.health.v1`.
pub mod health {
    include!("generated/grpc.health.v1.rs");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_duration_of_any_numbers_is_read() {
        let read = |seconds, nanos| span(Some(prost_types::Duration { seconds, nanos }));
        assert_eq!(read(3, 500_000_000), Some(Duration::from_millis(3500)));
        for nanos in [i32::MIN, 0, i32::MAX] {
            assert_eq!(read(i64::MIN, nanos), None);
            assert!(read(i64::MAX, nanos).is_some());
        }
    }
}
