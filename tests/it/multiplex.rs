//! Many watches on one stream: each keeps the contract of a watch, and no watch disturbs another.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bellwether::proto::v1;
use bellwether::proto::v1::Level;
use bellwether::proto::v1::multiplex_watches_request::Request;
use bellwether::proto::v1::multiplex_watches_response::Response;
use bellwether::proto::v1::watch_applications_response::Event;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Code, Status, Streaming};

use crate::server::{DEADLINE, Server, mk_report, reason};
use crate::watch::{Copy, snapshot_token};

/// What one watch receives.
#[derive(Debug)]
enum Told {
    Event(Box<v1::WatchApplicationsResponse>),
    Ended(Status),
}

/// A stream of many watches, split by watch.
struct Many {
    requests: Option<mpsc::UnboundedSender<v1::MultiplexWatchesRequest>>,
    answers: Streaming<v1::MultiplexWatchesResponse>,
    told: BTreeMap<u64, VecDeque<Told>>,
    /// The number of watches that each message about an application went to.
    shared: Vec<usize>,
}

impl Many {
    async fn open(server: &Server) -> Many {
        let (requests, sent) = mpsc::unbounded_channel();
        let sent = UnboundedReceiverStream::new(sent);
        let answers = server.applications().await.multiplex_watches(sent).await.unwrap();
        let (told, shared) = (BTreeMap::new(), Vec::new());
        Many { requests: Some(requests), answers: answers.into_inner(), told, shared }
    }

    fn send(&self, request: Request) {
        let request = v1::MultiplexWatchesRequest { request: Some(request) };
        self.requests.as_ref().unwrap().send(request).unwrap();
    }

    fn create(&self, watch_id: u64, watch: &v1::WatchApplicationsRequest) {
        self.send(Request::Create(v1::CreateWatch { watch_id, watch: Some(watch.clone()) }));
    }

    fn cancel(&self, watch_id: u64) {
        self.send(Request::Cancel(v1::CancelWatch { watch_id }));
    }

    /// Reads and splits one message; `None` at the end of the stream.
    async fn read(&mut self) -> Result<Option<()>, Status> {
        let answer = tokio::time::timeout(DEADLINE, self.answers.message()).await;
        let Some(answer) = answer.expect("a message in time")? else { return Ok(None) };
        let ids: BTreeSet<u64> = answer.watch_ids.iter().copied().collect();
        assert!(!ids.is_empty() && ids.len() == answer.watch_ids.len(), "{answer:?}");
        if let Some(Response::Event(event)) = &answer.response
            && matches!(event.event, Some(Event::Upserted(_)))
        {
            self.shared.push(ids.len());
        }
        for id in ids {
            let told = match answer.response.clone().unwrap() {
                Response::Event(event) => Told::Event(Box::new(event)),
                Response::Ended(status) => {
                    let details = status.encode_to_vec().into();
                    Told::Ended(Status::with_details(status.code.into(), status.message, details))
                }
            };
            self.told.entry(id).or_default().push_back(told);
        }
        Ok(Some(()))
    }

    /// Returns the next message for a watch, and queues those for others.
    async fn next(&mut self, id: u64) -> Told {
        loop {
            if let Some(told) = self.told.entry(id).or_default().pop_front() {
                return told;
            }
            self.read().await.unwrap().expect("the stream goes on");
        }
    }

    async fn event(&mut self, id: u64) -> v1::WatchApplicationsResponse {
        match self.next(id).await {
            Told::Event(event) => *event,
            Told::Ended(status) => panic!("watch {id} has ended: {status:?}"),
        }
    }

    async fn ended(&mut self, id: u64) -> Status {
        match self.next(id).await {
            Told::Ended(status) => status,
            Told::Event(event) => panic!("watch {id} goes on: {event:?}"),
        }
    }

    /// Reads the messages of a watch up to a bookmark, which must match the copy.
    async fn read_to_bookmark(&mut self, id: u64, copy: &mut Copy) -> String {
        loop {
            let response = self.event(id).await;
            let event = response.event.unwrap();
            copy.apply(&event);
            if let Event::Bookmark(bookmark) = event {
                assert_eq!(bookmark.digest, copy.digest(), "watch {id}");
                return response.resume_token;
            }
        }
    }
}

fn all() -> v1::WatchApplicationsRequest {
    v1::WatchApplicationsRequest::default()
}

fn only(application: &str) -> v1::WatchApplicationsRequest {
    v1::WatchApplicationsRequest { applications: vec![application.to_string()], ..all() }
}

#[tokio::test]
async fn each_watch_keeps_the_contract_and_they_share_messages() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    for name in ["a", "b"] {
        reports.report_status(mk_report(name, "u/0", Level::Active, "")).await.unwrap();
    }
    let mut many = Many::open(&server).await;
    let with_units = v1::WatchApplicationsRequest { include_units: true, ..all() };
    for id in 1..=3 {
        many.create(id, &all());
    }
    many.create(300, &only("b"));
    many.create(301, &with_units);
    let ids = [1, 2, 3, 300, 301];
    let mut copies = ids.map(|id| (id, Copy::default()));
    for (id, copy) in &mut copies {
        let mut seen = 0;
        loop {
            let response = many.event(*id).await;
            let event = response.event.unwrap();
            copy.apply(&event);
            assert_eq!(
                matches!(event, Event::Upserted(_)) && *id == 301,
                !response.units.is_empty()
            );
            match event {
                Event::Upserted(_) => seen += 1,
                Event::SnapshotComplete(done) => {
                    assert_eq!(done.application_count, seen);
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(seen, if *id == 300 { 1 } else { 2 });
    }
    // Watches with the same filter share messages as soon as all are current.
    let mut round = 0;
    while !many.shared.contains(&3) {
        round += 1;
        reports
            .report_status(mk_report("b", "u/0", Level::Error, &round.to_string()))
            .await
            .unwrap();
        for (id, copy) in &mut copies {
            copy.apply(&many.event(*id).await.event.unwrap());
        }
        assert!(round < 1000, "they never share a message: {:?}", many.shared);
    }
    for (id, copy) in &mut copies {
        many.read_to_bookmark(*id, copy).await;
    }
}

#[tokio::test]
async fn a_failure_of_one_watch_ends_it_alone() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    reports.report_status(mk_report("a", "u/0", Level::Active, "")).await.unwrap();
    let token = snapshot_token(&mut server.applications().await, only("a")).await;
    let mut many = Many::open(&server).await;
    many.create(7, &all());
    let resume = |token: &str| v1::WatchApplicationsRequest { resume_token: token.into(), ..all() };
    let bad = v1::WatchApplicationsRequest { namespace: "Not a name".into(), ..all() };
    for (id, watch, expected) in [
        (1, bad, "INVALID_NAME"),
        (2, resume("nonsense"), "INVALID_VALUE"),
        (3, resume(&token), "INVALID_VALUE"),
    ] {
        many.create(id, &watch);
        let ended = many.ended(id).await;
        assert_eq!((ended.code(), &*reason(&ended)), (Code::InvalidArgument, expected));
        // The number of the ended watch is free again.
        many.create(id, &only("nothing"));
        assert!(matches!(many.event(id).await.event, Some(Event::SnapshotComplete(_))));
        many.cancel(id);
        assert_eq!(many.ended(id).await.code(), Code::Cancelled);
    }
    many.cancel(99);
    many.read_to_bookmark(7, &mut Copy::default()).await;
    // A number in use is an error of the stream itself.
    many.create(7, &all());
    let status = loop {
        match many.read().await {
            Ok(Some(())) => {}
            Ok(None) => panic!("the stream ended with OK"),
            Err(status) => break status,
        }
    };
    assert_eq!((status.code(), &*reason(&status)), (Code::InvalidArgument, "INVALID_VALUE"));
}

#[tokio::test]
async fn tokens_are_good_on_either_kind_of_stream() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::on(directory.path());
    let mut reports = server.reports().await;
    reports.report_status(mk_report("a", "u/0", Level::Active, "")).await.unwrap();
    let mut client = server.applications().await;
    let token = snapshot_token(&mut client, all()).await;
    reports.report_status(mk_report("a", "u/0", Level::Error, "")).await.unwrap();
    let mut many = Many::open(&server).await;
    many.create(1, &v1::WatchApplicationsRequest { resume_token: token, ..all() });
    let event = many.event(1).await.event;
    assert!(matches!(&event, Some(Event::Upserted(app)) if app.revision == 2), "{event:?}");
    let mut copy = Copy::default();
    copy.apply(&event.unwrap());
    let token = many.read_to_bookmark(1, &mut copy).await;
    server.kill();
    let server = Server::on(directory.path());
    let request = v1::WatchApplicationsRequest { resume_token: token, ..all() };
    let mut client = server.applications().await;
    let mut single = client.watch_applications(request).await.unwrap().into_inner();
    // No event is missing.
    assert!(matches!(crate::watch::next(&mut single).await.event, Some(Event::Bookmark(_))));
}

#[tokio::test]
async fn a_drain_ends_every_watch_then_the_stream() {
    let mut server = Server::ephemeral();
    let mut many = Many::open(&server).await;
    let empty = Many::open(&server).await;
    many.create(1, &all());
    many.create(2, &only("b"));
    for id in [1, 2] {
        assert!(matches!(many.event(id).await.event, Some(Event::SnapshotComplete(_))));
    }
    server.terminate();
    for id in [1, 2] {
        let response = loop {
            let response = many.event(id).await;
            if !matches!(response.event, Some(Event::Bookmark(_))) {
                break response;
            }
        };
        assert!(matches!(response.event, Some(Event::Drain(_))), "{response:?}");
        assert!(!response.resume_token.is_empty());
    }
    // A stream without any watch ends in the same way.
    for mut many in [many, empty] {
        let status = many.read().await.unwrap_err();
        assert_eq!((status.code(), &*reason(&status)), (Code::Unavailable, "DRAINING"));
    }
    assert!(server.wait().success());
}

#[tokio::test]
async fn a_half_closed_stream_ends_with_its_last_watch() {
    let server = Server::ephemeral();
    let mut many = Many::open(&server).await;
    many.create(1, &all());
    many.create(2, &all());
    many.cancel(1);
    many.requests = None;
    assert_eq!(loop_to_end(&mut many, 1).await.code(), Code::Cancelled);
    // The other watch continues.
    many.read_to_bookmark(2, &mut Copy::default()).await;
    let mut none = Many::open(&server).await;
    none.create(1, &all());
    none.cancel(1);
    none.requests = None;
    while none.read().await.unwrap().is_some() {}
    let last = none.told.remove(&1).unwrap().pop_back();
    assert!(matches!(last, Some(Told::Ended(status)) if status.code() == Code::Cancelled));
}

/// Returns the status that ends a watch, and skips the messages before it.
async fn loop_to_end(many: &mut Many, id: u64) -> Status {
    loop {
        if let Told::Ended(status) = many.next(id).await {
            return status;
        }
    }
}

#[tokio::test]
async fn a_stream_has_so_many_watches_and_no_more() {
    let server = Server::ephemeral();
    let mut many = Many::open(&server).await;
    for id in 0..=10_000 {
        many.create(id, &all());
    }
    let refused = many.ended(10_000).await;
    assert_eq!((refused.code(), &*reason(&refused)), (Code::ResourceExhausted, "LIMIT_EXCEEDED"));
    many.cancel(17);
    assert_eq!(loop_to_end(&mut many, 17).await.code(), Code::Cancelled);
    many.create(10_000, &all());
    assert!(matches!(many.event(10_000).await.event, Some(Event::SnapshotComplete(_))));
}

#[tokio::test]
async fn a_watch_begins_again_right_after_its_end() {
    let server = Server::ephemeral();
    let mut reports = server.reports().await;
    reports.report_status(mk_report("web", "u/0", Level::Active, "")).await.unwrap();
    let mut many = Many::open(&server).await;
    // Sent together, so that the server reads them together.
    for id in (1..100).step_by(2) {
        many.create(id, &only("web"));
        many.cancel(id);
        many.create(id + 1, &only("web"));
    }
    for id in (2..=100).step_by(2) {
        let mut copy = Copy::default();
        let read = many.read_to_bookmark(id, &mut copy);
        tokio::time::timeout(DEADLINE, read).await.expect("a bookmark in time");
    }
}
