//! The probes of an orchestrator: it asks the ops port whether the process lives.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

/// How long a probe may take: the default of Kubernetes.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between two probes.
const PAUSE: Duration = Duration::from_millis(200);

/// How probes were answered.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Probed {
    /// Probes.
    pub made: u64,
    /// Probes that were not answered within a second.
    pub failed: u64,
    /// The longest answer, in seconds.
    pub longest: f64,
}

/// Probes until [`Probes::end`].
pub struct Probes {
    end: oneshot::Sender<()>,
    task: JoinHandle<Probed>,
}

impl Probes {
    /// Starts to ask, each time on a connection of its own.
    pub fn start(ops: SocketAddr) -> Probes {
        let (end, mut ended) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut probed = Probed::default();
            while ended.try_recv() == Err(oneshot::error::TryRecvError::Empty) {
                let start = Instant::now();
                let is_answered = matches!(timeout(TIMEOUT, probe(ops)).await, Ok(Ok(true)));
                probed.made += 1;
                probed.failed += u64::from(!is_answered);
                probed.longest = probed.longest.max(start.elapsed().as_secs_f64());
                sleep(PAUSE).await;
            }
            probed
        });
        Probes { end, task }
    }

    /// Returns what was answered.
    pub async fn end(self) -> anyhow::Result<Probed> {
        let _ = self.end.send(());
        Ok(self.task.await?)
    }
}

async fn probe(ops: SocketAddr) -> std::io::Result<bool> {
    let mut stream = TcpStream::connect(ops).await?;
    let request = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}
