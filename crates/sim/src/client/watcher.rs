//! A watcher: it keeps a copy of all applications, and resumes on any replica.

use std::collections::BTreeMap;
use std::time::Duration;

use bellwether::domain::level::Level;
use bellwether::domain::name::AppName;
use bellwether::domain::revision::Revision;
use bellwether::watch::{Event, Item, Token};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use crate::lock;
use crate::network::Link;
use crate::process::ToClient;

use super::Client;

/// Without a message for so long a watch is dead: bookmarks come every four seconds.
const PATIENCE: Duration = Duration::from_secs(9);

/// The applications that a watcher has received.
type Known = BTreeMap<AppName, (Revision, Level)>;

/// A watcher.
pub struct Watcher {
    client: Client,
    copy: Known,
    /// The last token, with the copy at that moment.
    token: Option<(String, Known)>,
}

impl Watcher {
    /// Returns a watcher.
    pub fn new(client: Client) -> Watcher {
        Watcher { client, copy: BTreeMap::new(), token: None }
    }

    /// Watches for ever.
    pub async fn run(mut self) {
        loop {
            self.watch().await;
            if self.client.dice.per_mille(100) {
                self.token = None;
            }
            let most = if self.client.dice.per_mille(200) { 60_000 } else { 8_000 };
            let pause = self.client.dice.between(50, most);
            sleep(Duration::from_millis(pause)).await;
        }
    }

    async fn watch(&mut self) {
        let place = self.client.pick();
        let (end, mut items) = mpsc::unbounded_channel();
        let link = self.client.network.new_link();
        let at = (link, self.client.node());
        // As the proto asks: a replica that is behind may send a digest as of the token.
        let (token, copy) = self.token.clone().unzip();
        let is_resumed = token.is_some();
        let watch = self
            .client
            .call(place, "watch", move |process| async move { process.watch(token, at, end) });
        match watch.await {
            Some(Ok(())) => {}
            Some(Err(reason)) => {
                self.client.note(format_args!("watch refused: {reason}"));
                self.token = None;
                return;
            }
            None => return self.client.network.cut(link),
        }
        self.copy = copy.unwrap_or_default();
        let mut seen = BTreeMap::new();
        let ends = Instant::now() + Duration::from_secs(self.client.dice.between(1, 90));
        while Instant::now() < ends {
            match timeout(PATIENCE, items.recv()).await {
                Ok(Some(ToClient::Watch(item))) => self.take(item, &mut seen),
                Ok(Some(ToClient::Session(_))) => {}
                Ok(None) => {
                    // The watch expired: a resume with the same token is refused.
                    if is_resumed && seen.is_empty() {
                        self.token = None;
                    }
                    return;
                }
                Err(_) => break,
            }
            if self.client.dice.per_mille(20) {
                // A slow reader.
                let pause = self.client.dice.between(500, 6000);
                sleep(Duration::from_millis(pause)).await;
            }
            self.answer(place, link, true);
        }
        match self.client.dice.per_mille(500) {
            true => self.answer(place, link, false),
            false => self.client.network.cut(link),
        }
    }

    fn answer(&self, place: usize, link: Link, goes_on: bool) {
        let at = (place, link);
        self.client.tell(at, "read", move |process| process.has_read(link, goes_on));
    }

    fn take(&mut self, item: Item, seen: &mut BTreeMap<AppName, Revision>) {
        let judge = self.client.network.judge.clone();
        let mut judge = lock(&judge);
        match item.event {
            Event::Upserted(entry) => {
                judge.on_item(&entry);
                let revision = entry.revision();
                let before = seen.insert(entry.app.clone(), revision).unwrap_or_default();
                if revision < before {
                    let app = &entry.app;
                    judge.accuse(format!("a watch of {app} went from {before} to {revision}"));
                }
                self.copy.insert(entry.app.clone(), (revision, entry.level()));
            }
            Event::Removed(app) => drop(self.copy.remove(&app)),
            Event::SnapshotComplete { token, .. } => {
                self.token = Some((token, self.copy.clone()));
            }
            Event::Bookmark { digest, application_count, token } => {
                match Token::decode(&token) {
                    Ok(decoded) => {
                        let bookmark = (digest, application_count);
                        for store in &decoded.stores {
                            judge.on_bookmark(&self.copy, bookmark, &store.cursors);
                        }
                    }
                    Err(error) => judge.accuse(format!("a bookmark has no token: {error}")),
                }
                self.token = Some((token, self.copy.clone()));
            }
        }
    }
}
