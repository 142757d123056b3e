//! The copy of a relay: what a watch of the upstream sent since the last proof, and the digest that
//! the upstream must confirm before any of it is shown.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;

use super::claims::NamespaceClaims;
use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::proto::v1;
use crate::proto::v1::watch_applications_response::Event;
use crate::service::convert;
use crate::store::Bucket;
use crate::sync::lock;
use crate::telemetry::ResyncCause;
use crate::watch::{Copied, Digest, Entry, Hub, Token, mark};

/// Applications of an upstream: two million, some 4 GB.
const APPLICATIONS_MAX: usize = 2_000_000;

/// What a relay has of one upstream: in its hub, or kept aside if another upstream owns the
/// namespace.
#[derive(Clone, Copy)]
pub struct Proven<'r> {
    pub hub: &'r Hub,
    pub(super) claims: &'r Mutex<NamespaceClaims>,
    pub upstream: Bucket,
}

/// An application that was proved before.
struct KnownCopy {
    mark: u64,
    revision: Revision,
    image: Bytes,
}

impl KnownCopy {
    fn shown(entry: &Entry) -> KnownCopy {
        let image = entry.copied().cloned().unwrap_or_default();
        KnownCopy { mark: entry.mark(), revision: entry.revision(), image }
    }

    fn aside(Copied { app, head, image }: &Copied) -> Option<KnownCopy> {
        let head = head.as_ref()?;
        let mark = mark(app, head.revision, head.summary.level);
        Some(KnownCopy { mark, revision: head.revision, image: image.clone() })
    }
}

impl Proven<'_> {
    fn get(&self, app: &AppName) -> Option<KnownCopy> {
        let number = usize::from(self.upstream.0);
        // First: what moves to the hub is aside until the hub has it.
        if let Some(aside) = lock(self.claims).aside(number, app) {
            return KnownCopy::aside(aside);
        }
        let own = self.hub.get(app).filter(|entry| entry.bucket == self.upstream);
        own.map(|entry| KnownCopy::shown(&entry))
    }

    /// Returns every application of a namespace, or of all, with its share in digests.
    fn list(&self, namespace: Option<&str>) -> Vec<(AppName, u64)> {
        let is_asked = |copied: &&Copied| {
            namespace.is_none_or(|namespace| copied.app.namespace() == namespace)
        };
        let number = usize::from(self.upstream.0);
        let aside = lock(self.claims);
        let aside = aside.aside_of(number).filter(is_asked).map(|copied| {
            (copied.app.clone(), KnownCopy::aside(copied).map_or(0, |known| known.mark))
        });
        let mut all: Vec<(AppName, u64)> = aside.collect();
        let names: HashSet<AppName> = all.iter().map(|(app, _)| app.clone()).collect();
        let is_own = |entry: &Entry| entry.bucket == self.upstream && !names.contains(&entry.app);
        let shown = self.hub.list_where(namespace, None, &is_own, usize::MAX);
        all.extend(shown.iter().map(|entry| (entry.app.clone(), entry.mark())));
        all
    }
}

/// One part of the copy: the applications of one upstream watch.
#[derive(Debug)]
pub struct Copy {
    /// The namespace; `None`: all.
    namespace: Option<Arc<str>>,
    /// What came since the last proof; `None`: a removal.
    pending: BTreeMap<AppName, Option<Unproved>>,
    /// The digest and number of applications with what is pending.
    digest: Digest,
    count: usize,
    snapshot: Snapshot,
}

#[derive(Debug)]
struct Unproved {
    head: Arc<Head>,
    image: Bytes,
    mark: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Snapshot {
    /// The watch follows changes.
    Done,
    /// The applications arrive.
    Begun,
    /// All have arrived; the proof follows.
    Complete,
}

/// What the copy makes of a message.
#[derive(Debug)]
pub enum Taken {
    /// It waits for a proof.
    Nothing,
    /// Everything so far is proved.
    Proved(ProvedBatch),
    /// The upstream ends the stream.
    Drain,
    /// The copy cannot be that of the upstream.
    Wrong(ResyncCause),
}

/// A batch that the digest of the upstream has proved.
#[derive(Debug)]
pub struct ProvedBatch {
    /// The changes.
    pub changes: Vec<Copied>,
    /// The position of the upstream.
    pub token: Token,
    /// The same as text.
    pub token_text: String,
    /// As of when the upstream was current; `None` from an older server.
    pub as_of: Option<Timestamp>,
    /// Whether an application would go back to an older revision: the upstream is behind.
    pub goes_back: bool,
}

impl Copy {
    /// Creates an empty part.
    pub fn new(namespace: Option<Arc<str>>) -> Copy {
        let (digest, snapshot) = (Digest::default(), Snapshot::Begun);
        Copy { namespace, pending: BTreeMap::new(), digest, count: 0, snapshot }
    }

    /// Forgets what is not proved; a snapshot follows, or the changes after the last proof.
    pub fn begin(&mut self, proven: Proven<'_>, is_resumed: bool) {
        self.pending.clear();
        self.snapshot = if is_resumed { Snapshot::Done } else { Snapshot::Begun };
        (self.digest, self.count) = (Digest::default(), 0);
        if is_resumed {
            for (_, mark) in proven.list(self.namespace.as_deref()) {
                self.digest.add(mark);
                self.count += 1;
            }
        }
    }

    /// Takes a message of the upstream.
    pub fn take(&mut self, message: v1::WatchApplicationsResponse, proven: Proven<'_>) -> Taken {
        match message.event {
            Some(Event::Upserted(application)) => self.upsert(application, proven),
            Some(Event::Removed(removed)) => {
                let app = AppName::new(&removed.namespace, &removed.name);
                app.map_or(Taken::Wrong(ResyncCause::Malformed), |app| self.put(app, None, proven))
            }
            Some(Event::SnapshotComplete(complete)) => {
                let is_whole = usize::try_from(complete.application_count) == Ok(self.count);
                if self.snapshot != Snapshot::Begun || !is_whole {
                    return Taken::Wrong(ResyncCause::Digest);
                }
                self.snapshot = Snapshot::Complete;
                Taken::Nothing
            }
            Some(Event::Bookmark(bookmark)) => {
                let (text, epoch) = (message.resume_token, message.store_epoch);
                self.prove(&bookmark, text, &epoch, proven)
            }
            Some(Event::Drain(_)) => Taken::Drain,
            None => Taken::Nothing,
        }
    }

    fn upsert(&mut self, application: v1::Application, proven: Proven<'_>) -> Taken {
        let Some((app, head)) = convert::copied(&application) else {
            return Taken::Wrong(ResyncCause::Malformed);
        };
        let mark = mark(&app, head.revision, head.summary.level);
        let pending = Unproved { head: Arc::new(head), image: convert::image(application), mark };
        self.put(app, Some(pending), proven)
    }

    fn put(&mut self, app: AppName, pending: Option<Unproved>, proven: Proven<'_>) -> Taken {
        let is_mine = self.namespace.as_deref().is_none_or(|own| own == app.namespace());
        if !is_mine || APPLICATIONS_MAX <= self.count {
            return Taken::Wrong(ResyncCause::Malformed);
        }
        // A snapshot begins without what is known.
        let is_anew = self.snapshot != Snapshot::Done;
        let before = match self.pending.get(&app) {
            Some(pending) => pending.as_ref().map(|pending| pending.mark),
            None if is_anew => None,
            None => proven.get(&app).map(|known| known.mark),
        };
        if let Some(before) = before {
            self.digest.remove(before);
            self.count -= 1;
        }
        if let Some(pending) = &pending {
            self.digest.add(pending.mark);
            self.count += 1;
        }
        self.pending.insert(app, pending);
        Taken::Nothing
    }

    /// Compares the digest of the upstream with that of the copy.
    fn prove(
        &mut self,
        bookmark: &v1::Bookmark,
        token_text: String,
        epoch: &str,
        proven: Proven<'_>,
    ) -> Taken {
        let is_equal = bookmark.digest == format!("{:016x}", self.digest.value())
            && usize::try_from(bookmark.application_count) == Ok(self.count);
        if self.snapshot == Snapshot::Begun || !is_equal {
            return Taken::Wrong(ResyncCause::Digest);
        }
        let Ok(token) = Token::decode(&token_text) else {
            return Taken::Wrong(ResyncCause::Malformed);
        };
        if token.epoch().to_string() != epoch {
            return Taken::Wrong(ResyncCause::Malformed);
        }
        let is_same_store = proven.hub.is_of(proven.upstream, &token);
        let pending = std::mem::take(&mut self.pending);
        let mut gone: Vec<AppName> = Vec::new();
        if self.snapshot == Snapshot::Complete {
            let known = proven.list(self.namespace.as_deref()).into_iter().map(|(app, _)| app);
            gone = known.filter(|app| !pending.contains_key(app)).collect();
            self.snapshot = Snapshot::Done;
        }
        let mut goes_back = false;
        let mut changes = Vec::with_capacity(pending.len() + gone.len());
        for (app, pending) in pending {
            let known = proven.get(&app);
            let Some(Unproved { head, image, .. }) = pending else {
                let removed = Copied { app, head: None, image: Bytes::new() };
                changes.extend(known.map(|_| removed));
                continue;
            };
            if let Some(known) = known {
                if known.image == image {
                    continue;
                }
                goes_back |= is_same_store && head.revision < known.revision;
            }
            changes.push(Copied { app, head: Some(head), image });
        }
        changes.extend(gone.into_iter().map(|app| Copied { app, head: None, image: Bytes::new() }));
        let as_of = convert::copied_time(bookmark.as_of_time);
        Taken::Proved(ProvedBatch { changes, token, token_text, as_of, goes_back })
    }
}
