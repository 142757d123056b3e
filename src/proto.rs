//! The wire types, the traits of the services, and the descriptors they were generated from.

#![allow(missing_docs, clippy::all, rust_2018_idioms)]

/// Package `bellwether.v1`: see the comments in `proto/bellwether/v1`.
pub mod v1 {
    pub use bellwether_client::proto::v1::*;

    tonic::include_proto!("bellwether.v1");
}

/// Package `grpc.health.v1`.
pub mod health {
    pub use bellwether_client::proto::health::*;

    tonic::include_proto!("grpc.health.v1");
}

/// Every file of `proto/` with its imports and comments, encoded: for reflection and for JSON.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));
