//! Binds listening sockets.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpListener;

/// Binds an address; the error names it.
pub async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| io::Error::new(error.kind(), format!("listen on {address}: {error}")))
}
