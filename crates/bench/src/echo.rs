//! A plain tonic echo, and a plain fan-out of one message to many streams: the speed of the gRPC
//! library without decisions or storage.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Context as _;
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio_stream::wrappers::BroadcastStream;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::Service;

use crate::load::Work;
use crate::wire::{self, Echo, Shared};

/// Serves until stdin ends, which happens when the parent process ends.
pub async fn serve() -> anyhow::Result<()> {
    // Stock tonic on a stock runtime, independent of the runtime of the command line.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let server = runtime.spawn(listen());
    let (mut stdin, mut rest) = (tokio::io::stdin(), Vec::new());
    let ended = tokio::select! {
        read = stdin.read_to_end(&mut rest) => read.map(|_| ()).context("read stdin"),
        served = server => served.context("serve echoes").flatten(),
    };
    // A runtime may not wait for its tasks within another one.
    runtime.shutdown_background();
    ended
}

async fn listen() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listen for echoes")?;
    println!("{}", serde_json::json!({ "grpc": listener.local_addr()? }));
    answer(listener).await
}

async fn answer(listener: TcpListener) -> anyhow::Result<()> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    // The limit of our own server; the default is 200.
    let mut server = Server::builder().max_concurrent_streams(Some(STREAMS_MAX));
    let echo = EchoServer { listeners: broadcast::Sender::new(QUEUED_MAX) };
    server.add_service(echo).serve_with_incoming(incoming).await?;
    Ok(())
}

/// Streams open at once on one connection.
const STREAMS_MAX: u32 = 4096;
/// Messages that a listener may lag behind.
const QUEUED_MAX: usize = 16;

#[derive(Clone)]
struct EchoServer {
    listeners: broadcast::Sender<Shared>,
}

impl NamedService for EchoServer {
    const NAME: &'static str = wire::ECHO_SERVICE;
}

impl Service<http::Request<Body>> for EchoServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let echo = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<Echo, Echo>::default());
            let mut shared = Grpc::new(ProstCodec::<Shared, Shared>::default());
            Ok(match request.uri().path() {
                wire::ECHO_STREAM => grpc.streaming(echo, request).await,
                wire::ECHO_LISTEN => shared.server_streaming(echo, request).await,
                wire::ECHO_SEND => shared.unary(echo, request).await,
                _ => grpc.unary(echo, request).await,
            })
        })
    }
}

impl UnaryService<Echo> for EchoServer {
    type Response = Echo;
    type Future = Ready<Result<Response<Echo>, Status>>;

    fn call(&mut self, request: Request<Echo>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

impl StreamingService<Echo> for EchoServer {
    type Response = Echo;
    type ResponseStream = Streaming<Echo>;
    type Future = Ready<Result<Response<Streaming<Echo>>, Status>>;

    fn call(&mut self, request: Request<Streaming<Echo>>) -> Self::Future {
        ready(Ok(Response::new(request.into_inner())))
    }
}

impl UnaryService<Shared> for EchoServer {
    type Response = Shared;
    type Future = Ready<Result<Response<Shared>, Status>>;

    fn call(&mut self, request: Request<Shared>) -> Self::Future {
        // An error means that there are no listeners.
        let _ = self.listeners.send(request.into_inner());
        ready(Ok(Response::new(Shared::default())))
    }
}

impl ServerStreamingService<Shared> for EchoServer {
    type Response = Shared;
    type ResponseStream = Pin<Box<dyn Stream<Item = Result<Shared, Status>> + Send>>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, _: Request<Shared>) -> Self::Future {
        let heard = BroadcastStream::new(self.listeners.subscribe());
        let heard =
            heard.map(|message| message.map_err(|lost| Status::data_loss(lost.to_string())));
        ready(Ok(Response::new(Box::pin(heard))))
    }
}

/// Echoes of requests that are `request_bytes` long.
pub struct Echoes {
    payload: Vec<u8>,
}

impl Echoes {
    /// Creates requests of this encoded length.
    pub fn of(request_bytes: usize) -> Echoes {
        use prost::Message;
        let of = |len| Echo { payload: vec![b'.'; len] };
        let len = wire::filling(request_bytes, |len| of(len).encoded_len());
        Echoes { payload: of(len).payload }
    }

    /// Returns one request.
    pub fn message(&self) -> Echo {
        Echo { payload: self.payload.clone() }
    }
}

impl Work for Echoes {
    async fn call(&self, channel: tonic::transport::Channel, _: u64) -> Result<(), Status> {
        let echo = self.message();
        let _: Echo = wire::unary(channel, wire::ECHO, echo).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    use crate::load::{self, Plan};

    #[tokio::test]
    async fn every_echo_of_a_load_is_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(answer(listener));
        let plan = Plan {
            connections: 3,
            in_flight: 4,
            warm_up: Duration::from_millis(20),
            window: Duration::from_millis(100),
        };
        let measured = load::run(Arc::new(Echoes::of(60)), url, plan, 0).await.unwrap();
        measured.check().unwrap();
        assert!(measured.acknowledged > 0);
        assert_eq!(measured.acknowledged, measured.latencies.len());
    }
}
