//! A worker on the level of the wire: it sends and reads single messages of a session, so that
//! tests control their content and their time.

use std::time::Duration;

use bellwether::proto::v1;
use bellwether::proto::v1::connect_request::Message as Said;
use bellwether::proto::v1::connect_response::Message as Told;
use bellwether::proto::v1::worker_service_client::WorkerServiceClient;
use bytes::Bytes;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::GrpcService;
use tonic::codegen::StdError;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use crate::server::{DEADLINE, Server};

/// One open stream.
pub struct Peer {
    say: mpsc::Sender<v1::ConnectRequest>,
    told: Streaming<v1::ConnectResponse>,
    pub welcome: v1::Welcome,
    seq: u64,
}

pub fn hello(application: &str, unit: &str) -> v1::Hello {
    v1::Hello { application: application.into(), unit: unit.into(), ..v1::Hello::default() }
}

pub fn status(level: v1::Level, message: &str) -> v1::StatusReport {
    v1::StatusReport { level: level as i32, message: message.into(), ..Default::default() }
}

impl Peer {
    /// Connects and waits for the welcome.
    pub async fn connect(server: &Server, hello: v1::Hello) -> Peer {
        Peer::try_connect(server, hello).await.unwrap()
    }

    pub async fn try_connect(server: &Server, hello: v1::Hello) -> Result<Peer, Status> {
        Peer::over(server.channel().await, hello).await
    }

    /// Connects over an existing channel.
    pub async fn over(channel: Channel, hello: v1::Hello) -> Result<Peer, Status> {
        Peer::by(WorkerServiceClient::new(channel), hello).await
    }

    /// Connects by a client, with what it presents.
    pub async fn by<T>(mut client: WorkerServiceClient<T>, hello: v1::Hello) -> Result<Peer, Status>
    where
        T: GrpcService<tonic::body::Body, ResponseBody: http_body::Body<Data = Bytes> + Send>,
        T::ResponseBody: 'static,
        T::Error: Into<StdError>,
        <T::ResponseBody as http_body::Body>::Error: Into<StdError> + Send,
    {
        let (say, said) = mpsc::channel(16);
        say.send(request(Said::Hello(Box::new(hello)))).await.unwrap();
        let mut told = client.connect(ReceiverStream::new(said)).await?.into_inner();
        match next(&mut told).await? {
            Some(Told::Welcome(welcome)) => Ok(Peer { say, told, welcome, seq: 0 }),
            other => panic!("no welcome: {other:?}"),
        }
    }

    /// Sends heartbeats from now on, at the interval of the welcome.
    pub fn keep_alive(&self) {
        let interval = self.welcome.heartbeat_interval.unwrap();
        let interval = Duration::try_from(interval).unwrap() / 2;
        let say = self.say.downgrade();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(say) = say.upgrade() else { return };
                if say.send(request(Said::Heartbeat(v1::Heartbeat {}))).await.is_err() {
                    return;
                }
            }
        });
    }

    pub async fn say(&self, message: Said) {
        self.say.send(request(message)).await.unwrap();
    }

    /// Reports statuses; returns the sequence number.
    pub async fn report(&mut self, statuses: Vec<v1::StatusReport>) -> u64 {
        self.seq += 1;
        self.say(Said::Report(v1::ConnectReport { seq: self.seq, statuses })).await;
        self.seq
    }

    /// Answers a question, or replaces the pull set without a question if the id is empty.
    pub async fn replace(&mut self, collect_id: &str, statuses: Vec<v1::StatusReport>) -> u64 {
        self.seq += 1;
        let (seq, collect_id) = (self.seq, collect_id.into());
        let replace = v1::ConnectReplace { seq, component: None, statuses, collect_id };
        self.say(Said::Replace(replace)).await;
        seq
    }

    /// Reports an error; returns the sequence number.
    pub async fn error(&mut self, error: v1::ErrorReport) -> u64 {
        self.seq += 1;
        self.say(Said::Error(Box::new(v1::ConnectError { seq: self.seq, error: Some(error) })))
            .await;
        self.seq
    }

    /// Reports that a target works; returns the sequence number.
    pub async fn resolve(&mut self, component: &str, target: &str) -> u64 {
        self.seq += 1;
        let (component, target) = (component.into(), target.into());
        let resolve = v1::ConnectResolve { seq: self.seq, component, target, ..Default::default() };
        self.say(Said::Resolve(resolve)).await;
        self.seq
    }

    /// Returns the next message; `None` at the end of the stream.
    pub async fn next(&mut self) -> Result<Option<Told>, Status> {
        next(&mut self.told).await
    }

    /// Returns the next message, without a timeout.
    pub async fn try_next(&mut self) -> Result<Option<Told>, Status> {
        Ok(self.told.message().await?.and_then(|response| response.message))
    }

    /// Returns the next message that is not a question.
    pub async fn answer(&mut self) -> Told {
        loop {
            match self.next().await.unwrap() {
                Some(Told::Collect(_)) => {}
                Some(told) => return told,
                None => panic!("the stream has ended"),
            }
        }
    }

    /// Returns the next question.
    pub async fn question(&mut self) -> v1::Collect {
        loop {
            match self.next().await.unwrap() {
                Some(Told::Collect(collect)) => return collect,
                Some(_) => {}
                None => panic!("the stream has ended"),
            }
        }
    }

    /// Waits until everything up to `seq` is acknowledged.
    pub async fn acknowledged(&mut self, seq: u64) -> u64 {
        loop {
            match self.answer().await {
                Told::Ack(ack) if seq <= ack.seq => return ack.revision,
                Told::Reject(reject) => panic!("rejected: {reject:?}"),
                _ => {}
            }
        }
    }

    /// Returns the status with which the stream ends.
    pub async fn end(&mut self) -> Result<(), Status> {
        while self.next().await?.is_some() {}
        Ok(())
    }
}

fn request(message: Said) -> v1::ConnectRequest {
    v1::ConnectRequest { message: Some(message) }
}

async fn next(told: &mut Streaming<v1::ConnectResponse>) -> Result<Option<Told>, Status> {
    let next = tokio::time::timeout(DEADLINE, told.message()).await.expect("nothing is said");
    Ok(next?.and_then(|response| response.message))
}
