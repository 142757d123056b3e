//! Speaks gRPC and HTTP.

pub mod observe;
pub mod ops;
