//! A TCP proxy with faults that a test can switch on.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The treatment of the data that passes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Pass,
    /// Connections stay open, and nothing passes.
    BlackHole,
    /// Connections are closed, new ones immediately.
    Cut,
}

/// A proxy in front of one address. Dropping it closes its connections.
pub struct Proxy {
    /// The port on 127.0.0.1.
    pub port: u16,
    mode: watch::Sender<Mode>,
    shared: Arc<Shared>,
    accepts: JoinHandle<()>,
}

struct Shared {
    /// The target of new connections.
    address: Mutex<String>,
    /// The bytes of answers that pass before the connections are cut; no limit if negative.
    answer_bytes_left: AtomicI64,
    delay_ms: AtomicI64,
}

impl Proxy {
    /// Listens on a free port and forwards to `address` (`host:port`).
    pub async fn to(address: &str) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mode = watch::Sender::new(Mode::Pass);
        let shared = Arc::new(Shared {
            address: Mutex::new(address.to_string()),
            answer_bytes_left: AtomicI64::new(-1),
            delay_ms: AtomicI64::new(0),
        });
        let serve = serve(listener, mode.clone(), shared.clone());
        Proxy { port, mode, shared, accepts: tokio::spawn(serve) }
    }

    /// Returns `127.0.0.1:port`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Forwards new connections to another address. Existing ones stay.
    pub fn lead_to(&self, address: &str) {
        *self.shared.address.lock().unwrap() = address.to_string();
    }

    /// Blocks all data without closing the connections.
    pub fn black_hole(&self) {
        self.mode.send_replace(Mode::BlackHole);
    }

    /// Closes all connections, and new ones as soon as they are made.
    pub fn cut(&self) {
        self.mode.send_replace(Mode::Cut);
    }

    /// Cuts the connections after so many more bytes of answers.
    pub fn cut_after(&self, answer_bytes: u32) {
        self.shared.answer_bytes_left.store(answer_bytes.into(), Ordering::SeqCst);
    }

    /// Waits until the connections are cut.
    pub async fn until_cut(&self) {
        let _ = self.mode.subscribe().wait_for(|mode| *mode == Mode::Cut).await;
    }

    /// Delays the data in both directions.
    pub fn delay(&self, delay: Duration) {
        let delay_ms = i64::try_from(delay.as_millis()).unwrap();
        self.shared.delay_ms.store(delay_ms, Ordering::SeqCst);
    }

    /// Forwards everything again, without delay. Data that a black hole blocked is forwarded too.
    pub fn heal(&self) {
        self.shared.answer_bytes_left.store(-1, Ordering::SeqCst);
        self.delay(Duration::ZERO);
        self.mode.send_replace(Mode::Pass);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        self.accepts.abort();
    }
}

async fn serve(listener: TcpListener, mode: watch::Sender<Mode>, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let (mode, shared) = (mode.clone(), shared.clone());
        tokio::spawn(async move {
            let mut notified = mode.subscribe();
            let passes = pass(client, &mode, &shared);
            tokio::select! {
                _ = passes => (),
                _ = notified.wait_for(|mode| *mode == Mode::Cut) => (),
            }
        });
    }
}

async fn pass(
    client: TcpStream,
    mode: &watch::Sender<Mode>,
    shared: &Shared,
) -> std::io::Result<()> {
    let _ = mode.subscribe().wait_for(|mode| *mode == Mode::Pass).await;
    let address = shared.address.lock().unwrap().clone();
    let server = TcpStream::connect(address).await?;
    let (client, server) = (client.into_split(), server.into_split());
    tokio::select! {
        ended = copy(client.0, server.1, mode, shared, false) => ended,
        ended = copy(server.0, client.1, mode, shared, true) => ended,
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mode: &watch::Sender<Mode>,
    shared: &Shared,
    is_answer: bool,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut notified = mode.subscribe();
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let delay_ms = shared.delay_ms.load(Ordering::SeqCst).unsigned_abs();
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        let _ = notified.wait_for(|mode| *mode == Mode::Pass).await;
        let mut passed = read;
        if is_answer && shared.answer_bytes_left.load(Ordering::SeqCst) >= 0 {
            let read = i64::try_from(read).unwrap_or(i64::MAX);
            let left = shared.answer_bytes_left.fetch_sub(read, Ordering::SeqCst).max(0);
            passed = passed.min(usize::try_from(left).unwrap_or(0));
            if left <= read {
                shared.answer_bytes_left.store(-1, Ordering::SeqCst);
                let _ = to.write_all(&buffer[..passed]).await;
                mode.send_replace(Mode::Cut);
                return Ok(());
            }
        }
        to.write_all(&buffer[..passed]).await?;
    }
}
