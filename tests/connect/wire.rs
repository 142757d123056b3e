//! The messages of the conformance service that the server reads or writes, by their field numbers.
//! The rest of each message is ignored.

use prost_types::Any;

#[derive(Clone, PartialEq, prost::Message)]
pub struct CompatRequest {
    #[prost(bool, tag = "4")]
    pub use_tls: bool,
    #[prost(uint32, tag = "6")]
    pub message_receive_limit: u32,
    #[prost(message, optional, tag = "7")]
    pub server_creds: Option<TlsCreds>,
}

/// A certificate and its key, in PEM.
#[derive(Clone, PartialEq, prost::Message)]
pub struct TlsCreds {
    #[prost(bytes = "vec", tag = "1")]
    pub cert: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub key: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct CompatResponse {
    #[prost(string, tag = "1")]
    pub host: String,
    #[prost(uint32, tag = "2")]
    pub port: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub pem_cert: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Header {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, repeated, tag = "2")]
    pub value: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Error {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, optional, tag = "2")]
    pub message: Option<String>,
    #[prost(message, repeated, tag = "3")]
    pub details: Vec<Any>,
}

/// A request of `Unary`, `IdempotentUnary` and `ClientStream`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct UnaryRequest {
    #[prost(message, optional, tag = "1")]
    pub response_definition: Option<UnaryDefinition>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct UnaryDefinition {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<Header>,
    #[prost(bytes = "vec", tag = "2")]
    pub data: Vec<u8>,
    #[prost(message, optional, tag = "3")]
    pub error: Option<Error>,
    #[prost(message, repeated, tag = "4")]
    pub trailers: Vec<Header>,
    #[prost(uint32, tag = "6")]
    pub delay_ms: u32,
}

/// A request of `ServerStream`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ServerStreamRequest {
    #[prost(message, optional, tag = "1")]
    pub response_definition: Option<StreamDefinition>,
}

/// A request of `BidiStream`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct BidiStreamRequest {
    #[prost(message, optional, tag = "1")]
    pub response_definition: Option<StreamDefinition>,
    #[prost(bool, tag = "2")]
    pub full_duplex: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct StreamDefinition {
    #[prost(message, repeated, tag = "1")]
    pub headers: Vec<Header>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub data: Vec<Vec<u8>>,
    #[prost(uint32, tag = "3")]
    pub delay_ms: u32,
    #[prost(message, optional, tag = "4")]
    pub error: Option<Error>,
    #[prost(message, repeated, tag = "5")]
    pub trailers: Vec<Header>,
}

/// An answer of every method.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Reply {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct Payload {
    #[prost(bytes = "vec", tag = "1")]
    pub data: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    pub request_info: Option<RequestInfo>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct RequestInfo {
    #[prost(message, repeated, tag = "1")]
    pub request_headers: Vec<Header>,
    #[prost(int64, optional, tag = "2")]
    pub timeout_ms: Option<i64>,
    #[prost(message, repeated, tag = "3")]
    pub requests: Vec<Any>,
}
