//! The bytes of a connection: as they are, or through TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use crate::security::identity::certificate::ClientCertificate;
use crate::security::tls::Tls;
use crate::service::guard::Presented;

/// How long, and for how many bytes, a refused client may go on.
const LINGER_MAX: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: usize = 64 << 10;

/// An open connection.
pub enum Transport {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS, after the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// Completes the TLS handshake, if the port has TLS. The caller sets the deadline.
    ///
    /// # Errors
    /// If the handshake fails.
    pub async fn open(stream: TcpStream, tls: Option<&Tls>) -> io::Result<Transport> {
        // Messages are small and awaited: waiting to fill a packet would only delay them.
        stream.set_nodelay(true).ok();
        match tls {
            None => Ok(Transport::Plain(stream)),
            Some(tls) => match tls.acceptor().accept(stream).into_fallible().await {
                Ok(accepted) => Ok(Transport::Tls(Box::new(accepted))),
                Err((error, stream)) => {
                    linger(stream).await;
                    Err(error)
                }
            },
        }
    }
}

/// Keeps a refused connection until the client has closed it: the system drops the alert, which
/// says why, if the connection is closed while bytes of the client are unread.
async fn linger(mut stream: TcpStream) {
    let drained = async {
        stream.shutdown().await.ok();
        let mut rest = [0; 1024];
        let mut left = LINGER_BYTES_MAX;
        while let Ok(read @ 1..) = stream.read(&mut rest).await {
            left = left.saturating_sub(read);
            if left == 0 {
                return;
            }
        }
    };
    tokio::time::timeout(LINGER_MAX, drained).await.ok();
}

impl Transport {
    /// Returns what the client has presented in the handshake.
    pub fn presented(&self) -> Presented {
        let chain = match self {
            Transport::Plain(_) => None,
            Transport::Tls(stream) => stream.get_ref().1.peer_certificates(),
        };
        Presented::new(chain.and_then(ClientCertificate::new))
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
