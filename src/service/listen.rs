//! Connections, within their number: accepting never spins when the process is out of files.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::Stream;
use tonic::transport::server::{Connected, TcpConnectInfo};

use super::cork::Cork;

/// Rest after the process ran out of files: without it, accepting takes a whole core until one is
/// closed.
const PAUSE_WITHOUT_FILES: Duration = Duration::from_millis(50);

/// Accepts at most `connections_max` connections at once; more wait in the kernel's queue.
pub fn connections(
    listener: TcpListener,
    connections_max: usize,
) -> impl Stream<Item = io::Result<Connection>> {
    let open = Arc::new(Semaphore::new(connections_max));
    futures_util::stream::unfold((listener, open), |(listener, open)| async {
        let connection = accept(&listener, &open).await;
        Some((connection, (listener, open)))
    })
}

async fn accept(listener: &TcpListener, open: &Arc<Semaphore>) -> io::Result<Connection> {
    loop {
        let permit = open.clone().acquire_owned().await.map_err(io::Error::other)?;
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small and awaited: waiting to fill a packet would only delay them.
                stream.set_nodelay(true).ok();
                return Ok(Connection { stream: Cork::new(stream), _permit: permit });
            }
            // The client left before we took it, or we are out of files: the next may fare better.
            Err(error) => {
                tracing::debug!(%error, "accept a connection");
                tokio::time::sleep(PAUSE_WITHOUT_FILES).await;
            }
        }
    }
}

/// A connection that counts as open until it is dropped.
pub struct Connection {
    stream: Cork<TcpStream>,
    _permit: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.get_ref().connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Connection {
    // Not vectored, as the cork says.

    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Binds an address; the error names it.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| io::Error::new(error.kind(), format!("listen on {address}: {error}")))
}
