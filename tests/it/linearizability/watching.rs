//! Watchers that check each event: revisions rise, no revision names two contents, no change is
//! left out, and the digest of each bookmark is that of the copy.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bellwether::proto::v1;
use bellwether::proto::v1::application_service_client::ApplicationServiceClient;
use bellwether::proto::v1::watch_applications_response::Event;
use prost::Message;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::transport::Channel;
use tonic_types::StatusExt;

use crate::load::{Listed, agree};
use crate::server::{LOOK_EVERY, Server, eventually};
use crate::watch::Copy;

/// What all watchers have checked together.
#[derive(Default)]
pub struct Checked {
    pub events: AtomicU64,
    pub bookmarks: AtomicU64,
    pub resumed: AtomicU64,
    pub snapshots: AtomicU64,
    /// Changes that a newer one replaced before a watcher took them.
    pub coalesced: AtomicU64,
    /// The hash of each state by store epoch, application and revision.
    contents: Mutex<BTreeMap<(String, String, u64), u64>>,
}

/// The watchers of all applications, spread over both servers.
pub struct Watchers {
    pub checked: Arc<Checked>,
    copies: Vec<Arc<Mutex<Copy>>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Watchers {
    /// Starts so many watchers of each server. A watcher that is disconnected resumes at the other
    /// server.
    pub fn start(ways: &[Channel; 2], each: usize) -> Watchers {
        let checked: Arc<Checked> = Arc::default();
        let (mut copies, mut tasks) = (Vec::new(), Vec::new());
        for n in 0..each * ways.len() {
            let copy: Arc<Mutex<Copy>> = Arc::default();
            let watcher = Watcher {
                ways: ways.clone(),
                way: n % ways.len(),
                checked: checked.clone(),
                copy: copy.clone(),
                epoch: String::new(),
                token: String::new(),
                at_token: Listed::new(),
                advanced: 0,
                received: 0,
            };
            copies.push(copy);
            tasks.push(tokio::spawn(watcher.run()));
        }
        Watchers { checked, copies, tasks }
    }

    /// Waits until each copy is what the servers list, and ends the watchers. Leases end meanwhile,
    /// so each look lists again.
    pub async fn finish(self, servers: &[Server]) {
        eventually("the copies of all watchers are what the servers list", async || {
            let has_failed = self.tasks.iter().any(JoinHandle::is_finished);
            assert!(!has_failed, "a watcher has found a fault, see above");
            let listed = agree(servers).await;
            self.copies.iter().all(|copy| copy.lock().unwrap().0 == listed).then_some(())
        })
        .await;
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

struct Watcher {
    ways: [Channel; 2],
    way: usize,
    checked: Arc<Checked>,
    copy: Arc<Mutex<Copy>>,
    epoch: String,
    token: String,
    /// The copy at the token.
    at_token: Listed,
    /// The revisions that passed since the last bookmark, and the changes that were received.
    advanced: u64,
    received: u64,
}

impl Watcher {
    async fn run(mut self) {
        loop {
            let status = self.follow().await.expect_err("a stream ends with a status");
            let details = status.get_error_details();
            if details.error_info().is_some_and(|info| info.reason == "RESUME_TOKEN_EXPIRED") {
                self.token.clear();
            }
            self.way = (self.way + 1) % self.ways.len();
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Follows one stream to its end.
    async fn follow(&mut self) -> Result<(), Status> {
        let request =
            v1::WatchApplicationsRequest { resume_token: self.token.clone(), ..Default::default() };
        let mut client = ApplicationServiceClient::new(self.ways[self.way].clone());
        let mut stream = client.watch_applications(request).await?.into_inner();
        let resumes = !self.token.is_empty();
        let count = if resumes { &self.checked.resumed } else { &self.checked.snapshots };
        count.fetch_add(1, Ordering::Relaxed);
        // Changes after the token are sent again. A replica that is behind sends them late, and
        // its digest until then lacks them.
        self.copy.lock().unwrap().0 = match resumes {
            true => self.at_token.clone(),
            false => Listed::new(),
        };
        let mut is_current = false;
        while let Some(message) = stream.message().await? {
            if !message.store_epoch.is_empty() && message.store_epoch != self.epoch {
                let is_new = !std::mem::replace(&mut self.epoch, message.store_epoch).is_empty();
                if is_new && resumes {
                    self.token.clear();
                    return Err(Status::aborted("another store epoch"));
                }
            }
            let coalesced = u64::try_from(message.coalesced_count).unwrap();
            self.checked.coalesced.fetch_add(coalesced, Ordering::Relaxed);
            self.received += coalesced;
            self.checked.events.fetch_add(1, Ordering::Relaxed);
            match message.event.unwrap() {
                Event::Upserted(application) => self.upsert(application, is_current),
                Event::SnapshotComplete(_) => {
                    is_current = true;
                    (self.advanced, self.received) = (0, 0);
                }
                Event::Bookmark(bookmark) => {
                    self.check(&bookmark, is_current);
                    is_current = true;
                }
                event => self.copy.lock().unwrap().apply(&event),
            }
            if !message.resume_token.is_empty() {
                self.token = message.resume_token;
                self.at_token = self.copy.lock().unwrap().0.clone();
            }
        }
        Err(Status::aborted("the stream ended"))
    }

    fn upsert(&mut self, application: v1::Application, is_current: bool) {
        let (revision, name) = (application.revision, application.name.clone());
        let mut copy = self.copy.lock().unwrap();
        let key = (application.namespace.clone(), name.clone());
        let known = copy.0.get(&key).map_or(0, |(known, _)| *known);
        assert!(!is_current || known < revision, "{name}: revision {revision} after {known}");
        self.advanced += revision.saturating_sub(known);
        self.received += 1;
        let mut hasher = DefaultHasher::new();
        application.encode_to_vec().hash(&mut hasher);
        let hash = hasher.finish();
        let mut contents = self.checked.contents.lock().unwrap();
        let first = contents.entry((self.epoch.clone(), name, revision)).or_insert(hash);
        assert_eq!(*first, hash, "revision {revision} has two contents: {application:?}");
        copy.apply(&Event::Upserted(application));
    }

    fn check(&mut self, bookmark: &v1::Bookmark, is_current: bool) {
        let copy = self.copy.lock().unwrap();
        let server = self.way;
        let differs = || format!("the copy is not what server {server} has: {:?}", copy.0);
        assert_eq!(copy.digest(), bookmark.digest, "{}", differs());
        assert_eq!(copy.0.len(), usize::try_from(bookmark.application_count).unwrap());
        if is_current {
            assert_eq!(self.advanced, self.received, "revisions, and the received changes");
        }
        (self.advanced, self.received) = (0, 0);
        self.checked.bookmarks.fetch_add(1, Ordering::Relaxed);
    }
}
