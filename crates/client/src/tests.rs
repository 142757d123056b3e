//! Tests of the watch over a socket, against a server that plays scripts.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::Request;
use axum::routing::post;
use futures_util::{StreamExt, future, stream};
use tonic::server::{Grpc, ServerStreamingService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tonic_types::{ErrorDetails, StatusExt};

use crate::connection::Client;
use crate::proto::v1::watch_applications_response::Event as WireEvent;
use crate::proto::v1::{
    Application, SnapshotComplete, WatchApplicationsRequest, WatchApplicationsResponse,
};
use crate::testing::serve;
use crate::watch::{Event, Watch};

const PATH: &str = "/bellwether.v1.ApplicationService/WatchApplications";

type Played = Result<WatchApplicationsResponse, Status>;
type Stream = Pin<Box<dyn futures_util::Stream<Item = Played> + Send>>;

/// The behaviour of the server in one call.
enum Script {
    /// Refuses the call.
    Refuse(Status),
    /// Sends these messages, then ends the stream.
    End(Vec<WatchApplicationsResponse>),
    /// Sends these messages, then nothing more.
    Hold(Vec<WatchApplicationsResponse>),
}

/// Plays one script for each call, the last one forever, and records the tokens that it receives.
#[derive(Clone)]
struct Scripted {
    scripts: Arc<Mutex<VecDeque<Script>>>,
    tokens: Arc<Mutex<Vec<String>>>,
}

impl ServerStreamingService<WatchApplicationsRequest> for Scripted {
    type Response = WatchApplicationsResponse;
    type ResponseStream = Stream;
    type Future = future::Ready<Result<tonic::Response<Stream>, Status>>;

    fn call(&mut self, request: tonic::Request<WatchApplicationsRequest>) -> Self::Future {
        let token = request.into_inner().resume_token;
        self.tokens.lock().expect("not poisoned").push(token);
        let script = self.scripts.lock().expect("not poisoned").pop_front();
        let sent = |messages: Vec<WatchApplicationsResponse>| stream::iter(messages).map(Ok);
        future::ready(match script {
            Some(Script::Refuse(status)) => Err(status),
            Some(Script::End(messages)) => Ok(tonic::Response::new(sent(messages).boxed())),
            Some(Script::Hold(messages)) => {
                let held = sent(messages).chain(stream::pending());
                Ok(tonic::Response::new(held.boxed()))
            }
            None => Err(Status::unavailable("nothing left to play")),
        })
    }
}

/// Starts a server and a watch on it.
async fn play(scripts: Vec<Script>) -> (Watch, Scripted) {
    let scripted =
        Scripted { scripts: Arc::new(Mutex::new(scripts.into())), tokens: Arc::default() };
    let service = scripted.clone();
    let handler = move |request: Request| {
        let service = service.clone();
        async move {
            let codec = ProstCodec::default();
            Grpc::new(codec).server_streaming(service, request).await
        }
    };
    let url = serve("127.0.0.1:0".parse().expect("an address"), PATH, post(handler));
    let client = Client::connect(&url).await.expect("it listens");
    (Watch::new(&client, WatchApplicationsRequest::default()), scripted)
}

fn mk_upsert(name: &str) -> WatchApplicationsResponse {
    WatchApplicationsResponse {
        event: Some(WireEvent::Upserted(Application {
            name: name.into(),
            revision: 1,
            ..Application::default()
        })),
        ..WatchApplicationsResponse::default()
    }
}

fn mk_complete(resume_token: &str) -> WatchApplicationsResponse {
    WatchApplicationsResponse {
        event: Some(WireEvent::SnapshotComplete(SnapshotComplete::default())),
        resume_token: resume_token.into(),
        ..WatchApplicationsResponse::default()
    }
}

fn mk_expired(cause: &str) -> Status {
    let mut details = ErrorDetails::new();
    let facts = [("cause".to_string(), cause.to_string())];
    details.set_error_info("RESUME_TOKEN_EXPIRED", "bellwether", facts);
    Status::with_error_details(Code::OutOfRange, cause, details)
}

/// Returns the next events, one word each.
async fn received(watch: &mut Watch, count: usize) -> String {
    let mut words = Vec::new();
    for _ in 0..count {
        words.push(match watch.next().await.expect("nothing final") {
            Event::Upserted(application, _) => format!("+{}", application.name),
            Event::Removed { name, .. } => format!("-{name}"),
            Event::Current => "current".to_string(),
            Event::Disconnected { error, .. } => format!("({error})"),
        });
    }
    words.join(" ")
}

#[tokio::test]
async fn the_watch_continues_where_the_stream_ended() {
    let (mut watch, scripted) = play(vec![
        Script::End(vec![mk_upsert("web"), mk_complete("t1")]),
        Script::Hold(vec![mk_upsert("web"), mk_upsert("db")]),
    ])
    .await;
    let expected = "+web current (the server ended the stream) +db";
    assert_eq!(received(&mut watch, 4).await, expected);
    assert_eq!(*scripted.tokens.lock().expect("not poisoned"), ["", "t1"]);
}

#[tokio::test]
async fn a_token_too_old_means_a_snapshot() {
    let (mut watch, scripted) = play(vec![
        Script::End(vec![mk_upsert("old"), mk_upsert("web"), mk_complete("t1")]),
        Script::Refuse(mk_expired("pruned")),
        Script::Hold(vec![mk_upsert("web"), mk_complete("t2")]),
    ])
    .await;
    let expected = "+old +web current (the server ended the stream) +web -old current";
    assert_eq!(received(&mut watch, 7).await, expected);
    assert_eq!(*scripted.tokens.lock().expect("not poisoned"), ["", "t1", ""]);
}

#[tokio::test]
async fn a_token_ahead_of_the_server_is_tried_at_another_one() {
    let (mut watch, scripted) = play(vec![
        Script::End(vec![mk_upsert("web"), mk_complete("t1")]),
        Script::Refuse(mk_expired("behind")),
        Script::Hold(vec![mk_upsert("db")]),
    ])
    .await;
    let expected = "+web current (the server ended the stream) (behind [RESUME_TOKEN_EXPIRED]) \
                    +db";
    assert_eq!(received(&mut watch, 5).await, expected);
    assert_eq!(*scripted.tokens.lock().expect("not poisoned"), ["", "t1", "t1"]);
}

#[tokio::test]
async fn a_permanent_refusal_ends_the_watch() {
    let refusal = Status::invalid_argument("`a b` is no name");
    let (mut watch, _) = play(vec![Script::Refuse(refusal)]).await;
    let error = watch.next().await.expect_err("refused");
    assert_eq!(error.to_string(), "`a b` is no name");
}

#[tokio::test]
async fn silence_is_a_dead_stream() {
    let (mut watch, _) =
        play(vec![Script::Hold(vec![mk_complete("t1")]), Script::Hold(vec![mk_upsert("web")])])
            .await;
    assert_eq!(received(&mut watch, 1).await, "current");
    // From here on only the clock advances.
    tokio::time::pause();
    let text = received(&mut watch, 1).await;
    assert!(text.contains("no message for 15 s"), "{text}");
    tokio::time::resume();
    assert_eq!(received(&mut watch, 1).await, "+web");
}

#[tokio::test]
async fn dropping_the_wait_for_an_event_loses_none() {
    let (mut watch, _) = play(vec![Script::Hold(vec![mk_upsert("web"), mk_complete("t1")])]).await;
    let mut events = Vec::new();
    while events.len() < 2 {
        let patience = Duration::from_micros(50);
        if let Ok(event) = tokio::time::timeout(patience, watch.next()).await {
            events.push(event.expect("nothing final"));
        }
    }
    assert!(matches!(events[0], Event::Upserted(..)));
    assert!(matches!(events[1], Event::Current));
}
