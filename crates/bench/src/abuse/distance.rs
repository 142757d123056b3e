//! A way to the server that takes time, as a network does: bytes arrive later, in both directions.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// The time of one direction.
const ONE_WAY: Duration = Duration::from_millis(20);

/// Forwards connections until it is dropped.
pub struct Distance {
    /// The near end.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Distance {
    /// Creates a way to a server.
    pub async fn to(server: SocketAddr) -> std::io::Result<Distance> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                tokio::spawn(forward(near, server));
            }
        });
        Ok(Distance { address, task })
    }
}

impl Drop for Distance {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(near: TcpStream, server: SocketAddr) {
    let Ok(far) = TcpStream::connect(server).await else { return };
    let _no_delay = (near.set_nodelay(true), far.set_nodelay(true));
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    tokio::join!(delayed(near_in, far_out), delayed(far_in, near_out));
}

async fn delayed(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    let (sent, mut due) = mpsc::channel::<(Instant, Vec<u8>)>(1024);
    let read = async move {
        let mut bytes = vec![0; 16 << 10];
        while let Ok(count) = from.read(&mut bytes).await {
            let piece = (Instant::now() + ONE_WAY, bytes[..count].to_vec());
            if sent.send(piece).await.is_err() || count == 0 {
                return;
            }
        }
    };
    let write = async move {
        while let Some((at, bytes)) = due.recv().await {
            sleep_until(at).await;
            if bytes.is_empty() || to.write_all(&bytes).await.is_err() {
                let _ended = to.shutdown().await;
                return;
            }
        }
    };
    tokio::join!(read, write);
}
