//! The timelines that this process has read, so that an application without new events is not read
//! again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::app::Head;
use crate::domain::name::AppName;
use crate::domain::time::Timestamp;
use crate::domain::uptime::Timeline;
use crate::domain::uptime::timeline::Now;

/// Changes and intervals that are kept for all applications together: some 12 MB.
const ENTRIES_MAX: usize = 300_000;

/// What a timeline was read for: the head then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    revision: u64,
    next_event: u64,
    create_time: Timestamp,
}

impl Seen {
    pub(super) fn of(head: &Head) -> Seen {
        let Head { revision, next_event, create_time, .. } = *head;
        Seen { revision: revision.0, next_event, create_time }
    }
}

/// A timeline, and what was known beside its events.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) timeline: Arc<Timeline>,
    pub(super) now: Now,
}

/// The timelines of this process.
#[derive(Default)]
pub(super) struct Timelines(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    read: BTreeMap<AppName, (Seen, Read)>,
    entries: usize,
}

impl Timelines {
    /// Returns the timeline of an application, if nothing has changed since it was read.
    pub(super) fn get(&self, app: &AppName, seen: Seen) -> Option<Read> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.read.get(app).filter(|(then, _)| *then == seen).map(|(_, read)| read.clone())
    }

    /// Keeps a timeline. At the limit, all others go.
    pub(super) fn put(&self, app: &AppName, seen: Seen, read: Read) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = read.timeline.entry_count();
        if ENTRIES_MAX < kept.entries + count {
            *kept = Kept::default();
        }
        if let Some((_, old)) = kept.read.insert(app.clone(), (seen, read)) {
            kept.entries -= old.timeline.entry_count();
        }
        kept.entries += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::level::Level;
    use crate::domain::revision::Revision;
    use crate::domain::uptime::LevelChange;

    fn read(changes: usize) -> Read {
        let change = LevelChange { at: Timestamp::new(1), from: None, to: Some(Level::Active) };
        let timeline = Timeline { changes: vec![change; changes], ..Timeline::default() };
        Read { timeline: timeline.into(), now: Now::of_head(&Head::default(), Timestamp::new(2)) }
    }

    fn seen(revision: u64) -> Seen {
        Seen::of(&Head::empty(Revision(revision)))
    }

    #[test]
    fn a_timeline_is_kept_until_its_application_changes_and_all_together_are_bounded() {
        let (kept, web) = (Timelines::default(), AppName::new("", "web").unwrap());
        kept.put(&web, seen(1), read(10));
        assert!(kept.get(&web, seen(1)).is_some());
        assert!(kept.get(&web, seen(2)).is_none());
        kept.put(&web, seen(2), read(5));
        assert_eq!(kept.0.lock().unwrap().entries, 5 + 1);
        let api = AppName::new("", "api").unwrap();
        kept.put(&api, seen(1), read(ENTRIES_MAX - 5));
        assert!(kept.get(&web, seen(2)).is_none());
        assert!(kept.get(&api, seen(1)).is_some());
    }
}
