//! Calls of any method by its path, with requests as JSON: a test can loop over all methods.

use std::time::Duration;

use bellwether::proto;
use prost_reflect::prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use serde_json::{Value, json};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{Request, Status};

/// The longest silence of a stream that goes on.
const SILENCE: Duration = Duration::from_secs(5);

/// Returns every method of `proto/`.
pub fn methods() -> Vec<MethodDescriptor> {
    let pool = DescriptorPool::decode(proto::FILE_DESCRIPTOR_SET).unwrap();
    pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()).collect()
}

pub fn path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// Returns a request about a unit of an application, in the fields that the method has.
pub fn request(method: &MethodDescriptor, namespace: &str, application: &str, unit: &str) -> Value {
    let target = json!({"namespace": namespace, "application": application, "unit": unit});
    let watch = json!({"namespace": namespace, "applications": [application]});
    match method.name() {
        "Connect" => json!({"hello": target}),
        "MultiplexWatches" => json!({"create": {"watchId": "1", "watch": watch}}),
        "WatchApplications" => watch,
        "Check" | "Watch" => json!({"service": format!("{namespace}/{application}")}),
        _ => {
            let has = |name: &str| method.input().get_field_by_name(name).is_some();
            let fields = target.as_object().unwrap().iter().filter(|(name, _)| has(name));
            Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
    }
}

/// Calls a method with these messages and these `authorization` headers. Returns the bytes of the
/// first `count` answers.
pub async fn call(
    channel: &Channel,
    method: &MethodDescriptor,
    authorization: &[&str],
    messages: &[Value],
    count: usize,
) -> Result<Vec<Vec<u8>>, Status> {
    let encode = |message: &Value| {
        DynamicMessage::deserialize(method.input(), message).unwrap().encode_to_vec()
    };
    let messages: Vec<Vec<u8>> = messages.iter().map(encode).collect();
    let mut answers = call_path(channel, &path(method), authorization, messages).await?;
    let mut all = Vec::new();
    while all.len() < count {
        match tokio::time::timeout(SILENCE, answers.message()).await {
            Ok(answer) => match answer? {
                Some(answer) => all.push(answer),
                None => break,
            },
            Err(_silent) => break,
        }
    }
    Ok(all)
}

/// Calls the method at a path with encoded messages.
pub async fn call_path(
    channel: &Channel,
    path: &str,
    authorization: &[&str],
    messages: Vec<Vec<u8>>,
) -> Result<tonic::Streaming<Vec<u8>>, Status> {
    let headers: Vec<_> = authorization.iter().map(|value| ("authorization", *value)).collect();
    call_path_with(channel, path, &headers, messages).await
}

/// Calls the method at a path with these headers.
pub async fn call_path_with(
    channel: &Channel,
    path: &str,
    headers: &[(&'static str, &str)],
    messages: Vec<Vec<u8>>,
) -> Result<tonic::Streaming<Vec<u8>>, Status> {
    let mut grpc = tonic::client::Grpc::new(channel.clone());
    grpc.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let mut request = Request::new(tokio_stream::iter(messages));
    for (name, value) in headers {
        let value: MetadataValue<_> = value.parse().unwrap();
        request.metadata_mut().append(*name, value);
    }
    let path = path.parse().unwrap();
    Ok(grpc.streaming(request, path, Bytes).await?.into_inner())
}

/// Messages as they are on the wire.
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Bytes;
    type Decoder = Bytes;

    fn encoder(&mut self) -> Bytes {
        Bytes
    }

    fn decoder(&mut self) -> Bytes {
        Bytes
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        bytes::BufMut::put_slice(buffer, &item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        use bytes::Buf;
        let count = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(count).to_vec()))
    }
}
