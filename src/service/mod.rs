//! Speaks gRPC and HTTP.

pub mod observe;
