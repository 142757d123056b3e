//! A watcher's copy of the applications, reduced to the revision and level that the digest covers.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;

use fnv::FnvHasher;

use crate::proto::v1::{Application, Level};

type Name = (String, String);

/// An application that a watcher has, as [`Watch::saved`](crate::Watch::saved) keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedApplication {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Its revision; 0 if it counts as changed.
    pub revision: u64,
    /// Its level, by the number of the protos.
    pub level: i32,
}

/// The applications that a watcher has received, each with its revision and level.
#[derive(Debug, Default)]
pub(crate) struct Copy {
    known: BTreeMap<Name, (u64, i32)>,
    sum: u64,
    /// During a snapshot: applications known before it that the snapshot has not contained yet.
    unseen: BTreeSet<Name>,
    in_snapshot: bool,
    /// Applications that were received after the resume token.
    after_token: BTreeSet<Name>,
}

impl Copy {
    /// Stores the newest state. Returns false if it was known already.
    pub(crate) fn upsert(&mut self, application: &Application) -> bool {
        let name = (application.namespace.clone(), application.name.clone());
        let level = application.status.as_ref().map_or(0, |s| s.level);
        let now = (application.revision, level);
        self.unseen.remove(&name);
        if self.known.get(&name) == Some(&now) {
            return false;
        }
        self.sum = self.sum.wrapping_add(hash(&name, now));
        if let Some(before) = self.known.insert(name.clone(), now) {
            self.sum = self.sum.wrapping_sub(hash(&name, before));
        }
        self.after_token.insert(name);
        true
    }

    /// Removes an application. Returns false if it was not known.
    pub(crate) fn remove(&mut self, namespace: &str, name: &str) -> bool {
        let name = (namespace.to_string(), name.to_string());
        self.unseen.remove(&name);
        let Some(before) = self.known.remove(&name) else {
            return false;
        };
        self.sum = self.sum.wrapping_sub(hash(&name, before));
        true
    }

    /// Returns the copy as of the resume token: what came after it counts as changed.
    pub(crate) fn saved(&self) -> Vec<SavedApplication> {
        let known = self.known.iter().map(|(name, state)| {
            let (revision, level) = if self.after_token.contains(name) { (0, 0) } else { *state };
            let (namespace, name) = name.clone();
            SavedApplication { namespace, name, revision, level }
        });
        known.collect()
    }

    /// Restores a copy.
    pub(crate) fn of(saved: Vec<SavedApplication>) -> Copy {
        let mut copy = Copy::default();
        for SavedApplication { namespace, name, revision, level } in saved {
            let (name, state) = ((namespace, name), (revision, level));
            copy.sum = copy.sum.wrapping_add(hash(&name, state));
            copy.known.insert(name, state);
        }
        copy
    }

    /// Records that the resume token covers everything so far.
    pub(crate) fn cover(&mut self) {
        self.after_token.clear();
    }

    /// Prepares for a resume from the token. What was received after it may be lost, and the store
    /// may have given its revision to another state. So an equal revision counts as a change.
    pub(crate) fn resume(&mut self) {
        for name in std::mem::take(&mut self.after_token) {
            self.distrust(&name);
        }
    }

    /// Starts a snapshot. Every application in it counts as changed if `distrust`: after a data
    /// loss of the store, or when the digests differ, an equal revision proves nothing.
    pub(crate) fn begin_snapshot(&mut self, distrust: bool) {
        self.in_snapshot = true;
        self.unseen = self.known.keys().cloned().collect();
        if distrust {
            for name in self.unseen.clone() {
                self.distrust(&name);
            }
        }
    }

    /// Replaces the state of an application by one that no application has.
    fn distrust(&mut self, name: &Name) {
        if let Some(state) = self.known.get_mut(name) {
            self.sum = self.sum.wrapping_sub(hash(name, *state));
            *state = (0, 0);
            self.sum = self.sum.wrapping_add(hash(name, *state));
        }
    }

    /// Completes the snapshot: removes and returns the applications that it did not contain.
    pub(crate) fn end_snapshot(&mut self) -> Vec<Name> {
        if !std::mem::take(&mut self.in_snapshot) {
            return Vec::new();
        }
        let gone = std::mem::take(&mut self.unseen);
        for (namespace, name) in &gone {
            self.remove(namespace, name);
        }
        gone.into_iter().collect()
    }

    /// Returns the digest in the format of `Bookmark.digest`.
    pub(crate) fn digest(&self) -> String {
        format!("{:016x}", self.sum)
    }
}

fn hash((namespace, name): &Name, (revision, level): (u64, i32)) -> u64 {
    let level = Level::try_from(level)
        .unwrap_or_default()
        .as_str_name()
        .trim_start_matches("LEVEL_")
        .to_lowercase();
    fnv1a(format!("{namespace}/{name}@{revision}={level}").as_bytes())
}

fn fnv1a(bytes: &[u8]) -> u64 {
    let mut hash = FnvHasher::default();
    hash.write(bytes);
    hash.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::v1::AggregatedStatus;

    fn mk_application(name: &str, revision: u64, level: Level) -> Application {
        Application {
            namespace: "default".into(),
            name: name.into(),
            revision,
            status: Some(AggregatedStatus { level: level.into(), ..AggregatedStatus::default() }),
            ..Application::default()
        }
    }

    #[test]
    fn is_the_published_hash() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn the_digest_depends_on_the_content_and_not_on_its_history() {
        let mut copy = Copy::default();
        assert_eq!(copy.digest(), "0000000000000000");
        assert!(copy.upsert(&mk_application("web", 11, Level::Active)));
        assert!(copy.upsert(&mk_application("db", 3, Level::Active)));
        assert!(copy.upsert(&mk_application("web", 12, Level::Blocked)));
        assert!(!copy.upsert(&mk_application("web", 12, Level::Blocked)));
        assert!(copy.remove("default", "db"));
        assert!(!copy.remove("default", "db"));
        let expected = fnv1a(b"default/web@12=blocked");
        assert_eq!(copy.digest(), format!("{expected:016x}"));
    }

    #[test]
    fn a_snapshot_removes_what_is_gone() {
        let mut copy = Copy::default();
        copy.upsert(&mk_application("db", 1, Level::Active));
        copy.upsert(&mk_application("web", 1, Level::Active));
        copy.begin_snapshot(false);
        assert!(!copy.upsert(&mk_application("web", 1, Level::Active)));
        assert_eq!(copy.end_snapshot(), [("default".into(), "db".into())]);
        assert_eq!(copy.end_snapshot(), []);
    }

    #[test]
    fn a_change_after_the_token_counts_again_after_a_resume() {
        let mut copy = Copy::default();
        let [db, web] = ["db", "web"].map(|name| mk_application(name, 1, Level::Active));
        copy.upsert(&db);
        copy.cover();
        copy.upsert(&web);
        let before = copy.digest();
        copy.resume();
        assert_ne!(copy.digest(), before);
        assert!(!copy.upsert(&db));
        assert!(copy.upsert(&web));
        assert_eq!(copy.digest(), before);
        copy.remove("default", "web");
        copy.resume();
        assert_eq!(copy.digest(), format!("{:016x}", fnv1a(b"default/db@1=active")));
    }

    #[test]
    fn a_restored_copy_is_that_of_its_token() {
        let mut copy = Copy::default();
        let [db, web] = ["db", "web"].map(|name| mk_application(name, 1, Level::Active));
        copy.upsert(&db);
        copy.upsert(&web);
        copy.cover();
        copy.upsert(&mk_application("web", 2, Level::Error));
        let mut restored = Copy::of(copy.saved());
        assert!(!restored.upsert(&db));
        assert!(restored.upsert(&mk_application("web", 2, Level::Error)));
        assert_eq!(restored.digest(), copy.digest());
    }

    #[test]
    fn a_distrusted_copy_gets_everything_again() {
        let mut copy = Copy::default();
        let web = mk_application("web", 1, Level::Active);
        copy.upsert(&web);
        let before = copy.digest();
        copy.begin_snapshot(true);
        assert!(copy.upsert(&web));
        assert_eq!(copy.end_snapshot(), []);
        assert_eq!(copy.digest(), before);
    }
}
