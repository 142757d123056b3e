//! Simulated workers: each opens a session, sends heartbeats at the interval of the server, and
//! answers collections as the measurement defines.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use bellwether::proto::v1::{Collect, ConnectReplace, ConnectRequest, ConnectResponse, Goodbye};
use bellwether::proto::v1::{Heartbeat, Hello, Level, StatusReport, Welcome};
use futures_util::stream::{self, FuturesUnordered, StreamExt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::open_loop;

/// Sessions that are opened at once.
const OPENING_MAX: usize = 256;
/// Messages of one worker in its send queue.
const SAID_MAX: usize = 16;
/// How long the server may take to close the sessions.
const LEAVE_DEADLINE: Duration = Duration::from_secs(30);
/// How long a worker waits for its welcome.
const WELCOME_DEADLINE: Duration = Duration::from_secs(30);

/// The behaviour of the workers, and callbacks for their messages.
pub trait Conduct: Send + Sync + 'static {
    /// Returns how long worker number `index` waits before it answers; `None` if it never answers.
    fn thinks(&self, index: u64, question: &Collect) -> Option<Duration> {
        let _ = (index, question);
        Some(Duration::ZERO)
    }

    /// Called when a heartbeat is sent.
    fn beat(&self) {}

    /// Called when an answer of worker number `index` is committed.
    fn acknowledged(&self, index: u64) {
        let _ = index;
    }
}

/// The workers, and how they are spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crew {
    /// Workers, each with a session.
    pub workers: u64,
    /// Applications of the workers.
    pub applications: u64,
    /// Connections that their sessions share.
    pub connections: usize,
}

impl Crew {
    /// Returns the application of worker number `index`.
    pub fn application(&self, index: u64) -> String {
        format!("app-{:03}", index % self.applications)
    }

    /// Returns the first message of worker number `index`.
    pub fn hello(&self, index: u64) -> Hello {
        let application = self.application(index);
        let unit = format!("{application}/{}", index / self.applications);
        Hello { application, unit, ..Hello::default() }
    }
}

/// An open session.
pub struct Worker {
    index: u64,
    say: mpsc::Sender<ConnectRequest>,
    told: Streaming<ConnectResponse>,
    /// The welcome of the server.
    pub welcome: Welcome,
    seq: u64,
}

impl Worker {
    /// Opens a session.
    pub async fn connect(channel: Channel, index: u64, hello: Hello) -> Result<Worker, Status> {
        let (say, said) = mpsc::channel(SAID_MAX);
        // The channel is empty, so the first message fits.
        let _ = say.try_send(ConnectRequest { message: Some(Said::Hello(Box::new(hello))) });
        let welcomed = async {
            let mut client = WorkerServiceClient::new(channel);
            let mut told = client.connect(ReceiverStream::new(said)).await?.into_inner();
            match told.message().await?.and_then(|response| response.message) {
                Some(Told::Welcome(welcome)) => Ok((told, welcome)),
                other => Err(Status::aborted(format!("no welcome: {other:?}"))),
            }
        };
        let welcomed = tokio::time::timeout(WELCOME_DEADLINE, welcomed).await;
        let (told, welcome) =
            welcomed.map_err(|_elapsed| Status::deadline_exceeded("no welcome"))??;
        Ok(Worker { index, say, told, welcome, seq: 0 })
    }

    /// Serves until it is to leave, then says goodbye. Fails if the session ends before.
    pub async fn run<C: Conduct>(
        mut self,
        conduct: Arc<C>,
        leave: CancellationToken,
    ) -> Result<(), Status> {
        let mut beats = tokio::time::interval_at(self.first_beat(), self.interval());
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut thinking = FuturesUnordered::new();
        loop {
            tokio::select! {
                told = self.told.message() => match told?.and_then(|response| response.message) {
                    Some(Told::Collect(question)) => {
                        match conduct.thinks(self.index, &question) {
                            None => {}
                            Some(Duration::ZERO) => self.answer(question).await?,
                            Some(time) => thinking.push(async move {
                                tokio::time::sleep(time).await;
                                question
                            }),
                        }
                    }
                    Some(Told::Ack(_)) => conduct.acknowledged(self.index),
                    Some(Told::Reject(reject)) => {
                        return Err(Status::aborted(format!("rejected: {reject:?}")));
                    }
                    Some(_) => {}
                    None => return Err(Status::aborted("the server has ended the session")),
                },
                Some(question) = thinking.next() => self.answer(question).await?,
                _ = beats.tick() => {
                    self.say(Said::Heartbeat(Heartbeat {})).await?;
                    conduct.beat();
                }
                () = leave.cancelled() => break,
            }
        }
        self.say(Said::Goodbye(Goodbye { removed: false })).await?;
        let ended = async { while matches!(self.told.message().await, Ok(Some(_))) {} };
        let ended = tokio::time::timeout(LEAVE_DEADLINE, ended).await;
        ended.map_err(|_elapsed| Status::deadline_exceeded("a goodbye did not end the session"))
    }

    fn interval(&self) -> Duration {
        let interval = self.welcome.heartbeat_interval.and_then(|d| Duration::try_from(d).ok());
        interval.filter(|interval| !interval.is_zero()).unwrap_or(WELCOME_DEADLINE)
    }

    /// Returns a moment within the first interval, so that heartbeats are spread.
    fn first_beat(&self) -> Instant {
        Instant::now() + self.interval().mul_f64((self.index % 97) as f64 / 97.0)
    }

    /// Answers with a pull set that differs from the last one.
    async fn answer(&mut self, question: Collect) -> Result<(), Status> {
        self.seq += 1;
        let status = StatusReport {
            level: Level::Active.into(),
            message: format!("serving, look {:08}", self.seq),
            ..StatusReport::default()
        };
        self.say(Said::Replace(ConnectReplace {
            seq: self.seq,
            component: question.component,
            statuses: vec![status],
            collect_id: question.collect_id,
        }))
        .await
    }

    async fn say(&mut self, message: Said) -> Result<(), Status> {
        let request = ConnectRequest { message: Some(message) };
        let said = self.say.send(request).await;
        said.map_err(|_| Status::aborted("the session has ended"))
    }
}

/// Connected workers.
pub struct Fleet {
    workers: JoinSet<Result<(), Status>>,
    leave: CancellationToken,
}

impl Fleet {
    /// Connects the whole crew.
    pub async fn connect<C: Conduct>(
        address: SocketAddr,
        crew: Crew,
        conduct: &Arc<C>,
    ) -> anyhow::Result<Fleet> {
        let channels = open_loop::connect(address, crew.connections).await?;
        let opening = (0..crew.workers).map(|index| {
            let channel = channels[index as usize % channels.len()].clone();
            Worker::connect(channel, index, crew.hello(index))
        });
        let mut opening = stream::iter(opening).buffer_unordered(OPENING_MAX);
        let mut fleet = Fleet { workers: JoinSet::new(), leave: CancellationToken::new() };
        while let Some(worker) = opening.next().await {
            let worker = worker.context("open a session")?;
            // Connected workers send heartbeats while others still connect.
            fleet.workers.spawn(worker.run(conduct.clone(), fleet.leave.clone()));
        }
        Ok(fleet)
    }

    /// Fails if a worker's session has ended.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.workers.try_join_next() {
            None => Ok(()),
            Some(ended) => {
                ended.context("worker")?.context("a session ended before its time")?;
                bail!("a worker left before its time");
            }
        }
    }

    /// Ends all sessions with a goodbye.
    pub async fn leave(mut self) -> anyhow::Result<()> {
        self.leave.cancel();
        while let Some(ended) = self.workers.join_next().await {
            ended.context("worker")?.context("a session ended before its time")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn workers_are_spread_over_applications_and_all_different() {
        let crew = Crew { workers: 1000, applications: 10, connections: 8 };
        let hellos: Vec<Hello> = (0..crew.workers).map(|index| crew.hello(index)).collect();
        let units: HashSet<_> = hellos.iter().map(|hello| &hello.unit).collect();
        let applications: HashSet<_> = hellos.iter().map(|hello| &hello.application).collect();
        assert_eq!((units.len(), applications.len()), (1000, 10));
        assert!(hellos.iter().all(|hello| hello.unit.starts_with(&hello.application)));
    }
}
