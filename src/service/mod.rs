//! Speaks: wire in, wire out. `convert` is the only translation, `code` the only table from failures to gRPC codes,
//! `observe` the only one that measures and logs.

pub mod observe;
pub mod ops;
