//! The bytes of a connection: as they are, or through TLS.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use crate::security::identity::certificate::ClientCertificate;
use crate::security::tls::Tls;
use crate::service::caller::Presented;

/// How long, and for how many bytes, a refused client may go on.
const LINGER_MAX: Duration = Duration::from_millis(500);
const LINGER_BYTES_MAX: u64 = 1 << 20;

/// An open connection: without TLS, or with TLS after the handshake.
pub type Transport = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// Completes the TLS handshake, if the port has TLS. The caller sets the deadline.
///
/// # Errors
/// If the handshake fails.
pub async fn open(stream: TcpStream, tls: Option<&Tls>) -> io::Result<Transport> {
    // Messages are small and awaited: waiting to fill a packet would only delay them.
    stream.set_nodelay(true).ok();
    let Some(tls) = tls else { return Ok(Either::Left(stream)) };
    match tls.acceptor().accept(stream).into_fallible().await {
        Ok(accepted) => Ok(Either::Right(Box::new(accepted))),
        Err((error, stream)) => {
            linger(stream).await;
            Err(error)
        }
    }
}

/// Answers a client that is refused, and ends the connection.
pub async fn refuse(mut transport: Transport, answer: &str) {
    let sent = async {
        transport.write_all(answer.as_bytes()).await.ok();
        transport.flush().await.ok();
    };
    tokio::time::timeout(LINGER_MAX, sent).await.ok();
    linger(transport).await;
}

/// Keeps a refused connection until the client has closed it: the system drops the alert or the
/// answer, which says why, if the connection is closed while bytes of the client are unread.
async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let drained = async {
        stream.shutdown().await.ok();
        tokio::io::copy(&mut stream.take(LINGER_BYTES_MAX), &mut tokio::io::sink()).await.ok();
    };
    tokio::time::timeout(LINGER_MAX, drained).await.ok();
}

/// Returns what the client has presented in the handshake.
pub fn presented(transport: &Transport) -> Presented {
    let chain = match transport {
        Either::Left(_) => None,
        Either::Right(stream) => stream.get_ref().1.peer_certificates(),
    };
    Presented::new(chain.and_then(ClientCertificate::new))
}
