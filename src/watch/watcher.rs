//! One watcher: an offset in the index that it shares with all watchers of its filter.
//!
//! Nothing is queued for a watcher. When it is polled it reads what follows its offset, at most
//! [`Limits::batch_max`](super::Limits::batch_max) updates at a time. So a slow watcher finds the
//! newest state of each application and costs nothing meanwhile.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep_until};

use super::backlog::Backlog;
use super::cursors::Cursors;
use super::entry::Entry;
use super::error::ResumeError;
use super::filter::Scope;
use super::group::{Current, Found, Group};
use super::hub::Hub;
use super::index::{Offset, SentState};
use super::notifier::Listener;
use super::resume::Verdict;
use super::token::Token;
use crate::domain::name::AppName;

/// The start of a watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    /// With a snapshot of all members.
    Snapshot,
    /// With the changes after a resume token.
    Resume(Token),
}

/// One message to a reader.
#[derive(Debug, Clone)]
pub struct Item {
    /// The event.
    pub event: Event,
    /// Number of changes since the last item that a newer state replaced before this reader read
    /// them.
    pub coalesced: u64,
}

/// The kind of a message.
#[derive(Debug, Clone)]
pub enum Event {
    /// The newest state of an application. The same revision may come twice after a snapshot or a
    /// resume.
    Upserted(Arc<Entry>),
    /// An application was deleted or left the filter. The reader may not have known it.
    Removed(AppName),
    /// Every member was sent.
    SnapshotComplete {
        /// Number of members that were sent.
        application_count: usize,
        /// Token from which the reader can resume.
        token: String,
    },
    /// The reader is current as of now.
    Bookmark {
        /// [`Digest`](super::Digest) of all members.
        digest: u64,
        /// Number of members.
        application_count: usize,
        /// Token from which the reader can resume.
        token: String,
    },
}

/// When a reader looks again that was current amid a batch of a relay: most take less.
const BATCH_TIME: Duration = Duration::from_millis(1);

/// A watch with one filter. Ends when dropped.
#[derive(Debug)]
pub struct Watcher {
    seat: Seat,
    listener: Listener,
    stage: Stage,
    /// Offset of the last item that was returned.
    offset: Offset,
    /// Updates that were read after it and not returned yet.
    ahead: VecDeque<(Offset, SentState)>,
    /// All changes up to here were returned: the point at which the reader was last current.
    resume_at: Arc<Cursors>,
    bookmark_due: Instant,
    /// How soon a bookmark follows a change; `None`: bookmarks have their period alone.
    bookmark_after: Option<Duration>,
    /// The time of the last bookmark.
    bookmarked: Option<Instant>,
    /// The time of the next read without a notification.
    look_at: Instant,
    /// Wakes at that time. Kept, because it seldom changes and its setup costs more than a read.
    alarm: Option<Pin<Box<Sleep>>>,
    /// The last read found nothing, and both the notifier and the alarm will wake the task.
    is_idle: bool,
}

/// The offset of a current reader: readers with equal offsets receive the same items from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Address of the group, unique while the group has a watcher.
    group: usize,
    /// Fingerprint of the group's filter.
    fingerprint: u64,
    bookmark_after: Option<Duration>,
    offset: Offset,
}

/// A key of a filter, and of how often its reader gets a bookmark.
pub type StandingGroup = (usize, u64, Option<Duration>);

impl Standing {
    /// Returns a key of what the reader watches.
    pub fn group(self) -> StandingGroup {
        (self.group, self.fingerprint, self.bookmark_after)
    }
}

#[derive(Debug)]
enum Stage {
    /// Waits until this replica has all changes up to a token of another replica.
    WaitingForReplica { token: Token, until: Instant },
    /// Reads the members by name.
    Snapshot { last: Option<AppName>, sent: usize },
    /// Reads the changes during the disconnect.
    Resuming(Backlog),
    /// Reads new changes.
    Following,
}

impl Watcher {
    /// Creates a watcher. `known` are cursors up to which every change has reached the groups.
    pub(super) fn new(seat: Seat, start: Start, known: Arc<Cursors>, now: Instant) -> Watcher {
        let group = &seat.group;
        let mut listener = group.notifier.listen();
        let mut offset = Offset::default();
        let (stage, resume_at) = match start {
            Start::Snapshot => {
                let (begin, cursors) = group.begin(known);
                offset = begin;
                (Stage::Snapshot { last: None, sent: 0 }, cursors)
            }
            Start::Resume(token) => {
                listener = seat.hub.listen();
                let until = now + seat.hub.limits.catch_up_max;
                (Stage::WaitingForReplica { token, until }, known)
            }
        };
        Watcher {
            listener,
            stage,
            offset,
            ahead: VecDeque::new(),
            resume_at,
            // The first bookmark follows as soon as the reader is current.
            bookmark_due: now,
            bookmark_after: None,
            bookmarked: None,
            look_at: now,
            alarm: None,
            is_idle: false,
            seat,
        }
    }

    /// Lets a bookmark follow a change as soon as the reader is current, at most one in this time.
    #[must_use]
    pub fn with_bookmarks_after(self, bookmark_after: Option<Duration>) -> Watcher {
        Watcher { bookmark_after, ..self }
    }

    /// Waits for the next item. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Item, ResumeError> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// Returns the next item, or registers the task to be woken when there may be one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Item, ResumeError>> {
        // Polled again without a notification: there is nothing new.
        if self.is_idle && self.listener.is_waiting(context) && Instant::now() < self.look_at {
            return Poll::Pending;
        }
        // A long snapshot must not block the thread for other tasks.
        ready!(coop::poll_proceed(context)).made_progress();
        self.is_idle = false;
        loop {
            // Before the read, so that a change after the read wakes the task.
            self.listener.wait(context);
            let was_arriving = self.is_arriving();
            if let Some(item) = self.try_next()? {
                return Poll::Ready(Ok(item));
            }
            if was_arriving == self.is_arriving() {
                // A pending alarm ends the poll; an expired one causes another read.
                self.is_idle = self.poll_alarm(context).is_pending();
                if self.is_idle {
                    return Poll::Pending;
                }
            }
        }
    }

    fn poll_alarm(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let look_at = self.look_at;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep_until(look_at)));
        if alarm.deadline() != look_at {
            alarm.as_mut().reset(look_at);
        }
        alarm.as_mut().poll(context)
    }

    fn is_arriving(&self) -> bool {
        matches!(self.stage, Stage::WaitingForReplica { .. })
    }

    /// Returns the offset if the reader was current at its last read.
    pub fn standing(&self) -> Option<Standing> {
        let is_current = matches!(self.stage, Stage::Following) && self.ahead.is_empty();
        let group = Arc::as_ptr(&self.seat.group).addr();
        let fingerprint = self.seat.fingerprint;
        let (bookmark_after, offset) = (self.bookmark_after, self.offset);
        is_current.then_some(Standing { group, fingerprint, bookmark_after, offset })
    }

    /// Returns the next item if there is one now: fills a message without waiting.
    pub fn try_next(&mut self) -> Result<Option<Item>, ResumeError> {
        if self.ahead.is_empty()
            && let Some(event) = self.look()?
        {
            let coalesced = 0; // replaced changes are counted at the one that replaced them
            return Ok(Some(Item { event, coalesced }));
        }
        let next = self.ahead.pop_front();
        Ok(next.map(|(offset, sent)| self.hand_out(offset, sent)))
    }

    /// Returns the token for all items that were returned. A resume from it may repeat some of
    /// them. `None` before the snapshot is complete, and if a relay does not know the position any
    /// more.
    pub fn token(&self) -> Option<String> {
        match &self.stage {
            Stage::Snapshot { .. } => None,
            Stage::WaitingForReplica { token, .. } => Some(token.encode()),
            Stage::Resuming(_) | Stage::Following => {
                Some(self.token_at(&self.resume_at)).filter(|token| !token.is_empty())
            }
        }
    }

    /// Returns the applications that it watches.
    pub fn scope(&self) -> &Scope {
        &self.seat.group.filter.scope
    }

    /// Reads ahead. Returns an event if there is nothing to read and an event is due.
    fn look(&mut self) -> Result<Option<Event>, ResumeError> {
        let count = self.seat.hub.limits.batch_max;
        loop {
            match &mut self.stage {
                Stage::WaitingForReplica { token, until } => {
                    let (verdict, until) = (self.seat.hub.judge(token), *until);
                    let start = self.seat.hub.start_of(token);
                    if !self.arrive(verdict, start, until)? {
                        return Ok(None);
                    }
                }
                Stage::Snapshot { last, sent } => {
                    let group = &self.seat.group;
                    self.ahead = group.members_after(self.offset, last.as_ref(), count)?;
                    *sent += self.ahead.len();
                    let Some((_, SentState::Upserted(entry))) = self.ahead.back() else {
                        let sent = *sent;
                        return Ok(Some(self.complete(sent)));
                    };
                    *last = Some(entry.app.clone());
                    return Ok(None);
                }
                Stage::Resuming(missed) => {
                    let Seat { hub, group, .. } = &self.seat;
                    let Some(entries) = hub.missed(&group.filter.scope, missed, count)? else {
                        self.stage = Stage::Following;
                        continue;
                    };
                    self.ahead = group.missed(self.offset, &self.resume_at, &entries);
                    if !self.ahead.is_empty() {
                        return Ok(None);
                    }
                }
                Stage::Following => return self.follow(count),
            }
        }
    }

    /// Starts to read the backlog if this replica has reached the token. Returns whether it has.
    fn arrive(
        &mut self,
        verdict: Verdict,
        start: Option<Arc<Cursors>>,
        until: Instant,
    ) -> Result<bool, ResumeError> {
        let now = Instant::now();
        match verdict {
            Verdict::Continue => {
                self.resume_at = start.ok_or(ResumeError::Pruned)?;
                let group = &self.seat.group;
                self.listener = group.notifier.listen();
                self.offset = group.resume(&self.resume_at, now);
                self.stage = Stage::Resuming(Backlog::after(&self.resume_at));
                Ok(true)
            }
            Verdict::Wait if until <= now => Err(ResumeError::Behind),
            Verdict::Wait => {
                self.look_at = until;
                Ok(false)
            }
            Verdict::Refuse(why) => Err(why),
        }
    }

    fn follow(&mut self, count: usize) -> Result<Option<Event>, ResumeError> {
        let now = Instant::now();
        let Seat { hub, group, .. } = &self.seat;
        let batch = hub.batch();
        // Before the group is locked: all changes up to these cursors have reached it by then.
        let cursors = hub.cursors();
        match group.read(self.offset, cursors, count, now)? {
            Found::SentState(sent) => {
                self.ahead = sent;
                Ok(None)
            }
            Found::Current(current) if hub.is_whole_since(batch) => Ok(self.current(current, now)),
            Found::Current(_) => {
                self.look_at = now + BATCH_TIME;
                Ok(None)
            }
        }
    }

    fn complete(&mut self, application_count: usize) -> Event {
        self.stage = Stage::Following;
        let period = self.seat.hub.limits.bookmark_period;
        self.bookmark_due = Instant::now() + self.bookmark_after.map_or(period, |_| Duration::ZERO);
        Event::SnapshotComplete { application_count, token: self.token_at(&self.resume_at) }
    }

    /// Returns a bookmark if one is due.
    fn current(&mut self, current: Current, now: Instant) -> Option<Event> {
        self.resume_at = current.resume_at;
        let due = self.bookmark_due <= now;
        if due {
            self.bookmarked = Some(now);
            self.bookmark_due = now + self.seat.hub.limits.bookmark_period;
        }
        let settles = current.due.unwrap_or(self.bookmark_due);
        self.look_at = settles.min(self.bookmark_due);
        due.then(|| Event::Bookmark {
            digest: current.digest,
            application_count: current.member_count,
            token: self.token_at(&self.resume_at),
        })
    }

    fn hand_out(&mut self, offset: Offset, sent: SentState) -> Item {
        let passed = offset.0.saturating_sub(self.offset.0);
        self.offset = offset;
        if let Some(after) = self.bookmark_after {
            // The last one may be so old that this is due at once.
            let due = self.bookmarked.map_or(self.bookmark_due, |last| last + after);
            self.bookmark_due = self.bookmark_due.min(due);
        }
        Item {
            event: match sent {
                SentState::Upserted(entry) => Event::Upserted(entry),
                SentState::Removed(app) => Event::Removed(app),
            },
            coalesced: passed.saturating_sub(1),
        }
    }

    fn token_at(&self, cursors: &Arc<Cursors>) -> String {
        let Seat { hub, fingerprint, .. } = &self.seat;
        hub.token_of(cursors, *fingerprint).map_or_else(String::new, |token| token.encode())
    }
}

/// The membership of a watcher in its group, ended when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) hub: Arc<Hub>,
    pub(super) group: Arc<Group>,
    /// Fingerprint of the group's filter, for tokens.
    pub(super) fingerprint: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.hub.leave(&self.group);
    }
}
