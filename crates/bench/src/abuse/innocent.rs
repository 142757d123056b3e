//! The innocent client: it reports, reads, and now and then opens a new connection, before and
//! during an attack. It has a thread of its own, so that the attack takes no time from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use bellwether::proto::v1;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::report_service_client::ReportServiceClient;
use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

use super::attack::APPLICATION;
use super::distance::Distance;

/// How long a call may take; longer is a failure.
const CALL_MAX: Duration = Duration::from_secs(5);
/// The pause between two calls.
const PAUSE: Duration = Duration::from_millis(2);
/// One of this many calls needs a new connection.
const RECONNECT_EACH: u64 = 20;

/// How the innocent client was served in one phase.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Served {
    /// Calls.
    pub calls: u64,
    /// Calls that failed or took too long.
    pub failed: u64,
    /// Median in seconds, with the time for a new connection.
    pub p50: f64,
    /// 99th percentile in seconds.
    pub p99: f64,
}

/// The way of the innocent client to the server.
#[derive(Clone)]
pub struct Door {
    /// The address.
    pub endpoint: Endpoint,
    /// The token, if the server knows its callers.
    pub token: Option<String>,
    /// What makes the way longer.
    pub _distance: Option<Arc<Distance>>,
}

impl Door {
    /// Opens a connection.
    pub async fn connect(&self) -> anyhow::Result<Channel> {
        self.endpoint.connect().await.context("connect before the attack")
    }
}

/// The client. It runs until [`Innocent::end`].
pub struct Innocent {
    phase: Arc<AtomicU8>,
    thread: JoinHandle<anyhow::Result<[Served; 2]>>,
}

const BEFORE: u8 = 0;
const DURING: u8 = 1;
const OVER: u8 = 2;

impl Innocent {
    /// Starts the client.
    pub fn start(door: Door) -> Innocent {
        let phase = Arc::new(AtomicU8::new(BEFORE));
        let of_thread = phase.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(live(&door, &of_thread))
        });
        Innocent { phase, thread }
    }

    /// Says that the attack begins.
    pub fn attack_begins(&self) {
        self.phase.store(DURING, Ordering::Relaxed);
    }

    /// Ends the client; returns how it was served before and during the attack.
    pub async fn end(self) -> anyhow::Result<[Served; 2]> {
        self.phase.store(OVER, Ordering::Relaxed);
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await?;
        joined.map_err(|_| anyhow::anyhow!("the thread of the innocent client failed"))?
    }
}

async fn live(door: &Door, phase: &AtomicU8) -> anyhow::Result<[Served; 2]> {
    let mut channel = door.connect().await?;
    let (mut micros, mut failed) = ([Histogram::<u64>::new(3)?, Histogram::new(3)?], [0, 0]);
    for number in 0.. {
        let now = phase.load(Ordering::Relaxed);
        if now == OVER {
            break;
        }
        let start = Instant::now();
        let called = timeout(CALL_MAX, async {
            if number % RECONNECT_EACH == 0 {
                channel =
                    door.endpoint.connect().await.map_err(|_| Status::unavailable("connect"))?;
            }
            call(channel.clone(), door.token.as_deref(), number).await
        });
        let is_served = matches!(called.await, Ok(Ok(())));
        let at = usize::from(now);
        failed[at] += u64::from(!is_served);
        let elapsed = u64::try_from(start.elapsed().as_micros())?;
        micros[at].record(elapsed)?;
        sleep(PAUSE).await;
    }
    let served = |at: usize| Served {
        calls: micros[at].len(),
        failed: failed[at],
        p50: micros[at].value_at_quantile(0.5) as f64 / 1e6,
        p99: micros[at].value_at_quantile(0.99) as f64 / 1e6,
    };
    Ok([served(0), served(1)])
}

/// Reports and reads in turn.
async fn call(channel: Channel, token: Option<&str>, number: u64) -> Result<(), Status> {
    let application = APPLICATION.to_string();
    if number.is_multiple_of(2) {
        let level = if number.is_multiple_of(4) { v1::Level::Active } else { v1::Level::Waiting };
        let status = v1::StatusReport { level: level as i32, ..Default::default() };
        let report = v1::ReportStatusRequest {
            unit: format!("{application}/0"),
            application,
            status: Some(status),
            ..Default::default()
        };
        let call = with_token(report, token);
        return ReportServiceClient::new(channel).report_status(call).await.map(drop);
    }
    let get = v1::GetApplicationRequest { application, ..Default::default() };
    let call = with_token(get, token);
    ApplicationServiceClient::new(channel).get_application(call).await.map(drop)
}

fn with_token<T>(message: T, token: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    let bearer = token.and_then(|token| format!("Bearer {token}").parse().ok());
    if let Some(bearer) = bearer {
        request.metadata_mut().insert("authorization", bearer);
    }
    request
}
