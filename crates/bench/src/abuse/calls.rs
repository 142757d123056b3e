//! Calls by gRPC with a message that is encoded once.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use tokio::time::sleep;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

use super::counts::Counts;

/// Pause before a connection that was ended is opened again.
const PAUSE: Duration = Duration::from_millis(10);

/// Calls a method from this address until the future is dropped.
pub async fn run(
    from: IpAddr,
    to: SocketAddr,
    path: &'static str,
    message: Bytes,
    counts: Arc<Counts>,
) {
    loop {
        if let Ok(endpoint) = Endpoint::from_shared(format!("http://{to}"))
            && let Ok(channel) = endpoint.local_address(Some(from)).connect().await
        {
            counts.connected();
            let mut grpc = Grpc::new(channel);
            while let Ok(()) = call(&mut grpc, path, &message, &counts).await {}
        }
        sleep(PAUSE).await;
    }
}

/// Makes one call, and counts it as it begins. A refusal is an answer too.
async fn call(
    grpc: &mut Grpc<Channel>,
    path: &'static str,
    message: &Bytes,
    counts: &Counts,
) -> Result<(), Status> {
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    counts.add(message.len(), 1);
    let path = PathAndQuery::from_static(path);
    match grpc.unary(Request::new(message.clone()), path, Raw).await {
        Err(status) if status.code() == Code::Unavailable => Err(status),
        _ => Ok(()),
    }
}

/// Messages as they are on the wire.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = ();
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ();
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<()>, Status> {
        buffer.advance(buffer.remaining());
        Ok(Some(()))
    }
}
