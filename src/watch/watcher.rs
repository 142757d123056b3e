//! One reader: a cursor over the index that it shares with all readers of its filter.
//!
//! Nothing is queued for a reader. It takes what stands after its place when it comes, at most
//! [`Limits::batch_max`](super::Limits::batch_max) things at a time, so one that comes late finds
//! the newest state of each application and costs nothing meanwhile.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::task::coop;
use tokio::time::{Instant, Sleep, sleep_until};

use super::bell::Listener;
use super::cursors::Cursors;
use super::entry::Entry;
use super::error::Expired;
use super::group::{Current, Found, Group};
use super::index::{Place, Told};
use super::missed::Missed;
use super::token::Token;
use super::{Hub, Start};
use crate::domain::name::AppName;
use crate::store::Epoch;

/// What a watcher is told next.
#[derive(Debug, Clone)]
pub struct Item {
    /// What happened.
    pub event: Event,
    /// Changes that a newer state replaced before this reader took them, since the last item.
    pub coalesced: u64,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Event {
    /// The newest state of an application. May come twice after a snapshot or a resume: its
    /// revision says so.
    Upserted(Arc<Entry>),
    /// An application is gone, or has left the filter. The reader may not have known it.
    Removed(AppName),
    /// Everything that was there has been told.
    SnapshotComplete {
        /// How many applications that were.
        application_count: usize,
        /// Where to go on.
        token: String,
    },
    /// The reader is current as of now.
    Bookmark {
        /// [`Digest`](super::Digest) of what it has been told.
        digest: u64,
        /// How many applications that are.
        application_count: usize,
        /// Where to go on.
        token: String,
    },
}

/// Follows what a filter shows. Dropping it is all it takes to end it.
#[derive(Debug)]
pub struct Watcher {
    seat: Seat,
    listener: Listener,
    stage: Stage,
    /// The place of what was last handed out.
    place: Place,
    /// What was read after it and is not handed out yet.
    ahead: VecDeque<(Place, Told)>,
    /// All changes up to here have been handed out: where the reader was last current.
    resume_at: Arc<Cursors>,
    bookmark_due: Instant,
    /// When to look again without being woken.
    look_at: Instant,
    /// Wakes at that time. Kept, because it seldom moves and to set one up costs more than a look.
    alarm: Option<Pin<Box<Sleep>>>,
    /// Nothing was found at the last look, and both the bell and the alarm will wake it.
    is_idle: bool,
}

/// What a reader who is current stands at: two with the same standing will be told the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Which group, while there is a watcher in it.
    group: usize,
    /// Which filter, of those whose watchers share the group.
    fingerprint: u64,
    place: Place,
}

impl Standing {
    /// Tells apart what is followed.
    pub fn group(self) -> (usize, u64) {
        (self.group, self.fingerprint)
    }
}

#[derive(Debug)]
enum Stage {
    /// Waits until what the reader knows from another replica is known here.
    Arriving { epoch: Epoch, until: Instant },
    /// Reads the members by name.
    Snapshot { last: Option<AppName>, sent: usize },
    /// Reads what changed while it was away.
    Resuming(Missed),
    /// Reads changes.
    Following,
}

impl Watcher {
    /// `known` are cursors up to which every change has reached the groups.
    pub(super) fn new(seat: Seat, start: Start, known: Arc<Cursors>, now: Instant) -> Watcher {
        let group = &seat.group;
        let mut listener = group.bell.listen();
        let mut place = Place::default();
        let (stage, resume_at) = match start {
            Start::Snapshot => {
                let (begin, cursors) = group.begin(known);
                place = begin;
                (Stage::Snapshot { last: None, sent: 0 }, cursors)
            }
            Start::Resume(token) => {
                listener = seat.hub.listen();
                let until = now + seat.hub.limits.catch_up_max;
                (Stage::Arriving { epoch: token.epoch, until }, token.cursors)
            }
        };
        Watcher {
            listener,
            stage,
            place,
            ahead: VecDeque::new(),
            resume_at,
            // Who goes on where it was learns at once that it is current.
            bookmark_due: now,
            look_at: now,
            alarm: None,
            is_idle: false,
            seat,
        }
    }

    /// The next item, when there is one. Nothing is lost if this is dropped while it waits.
    pub async fn next(&mut self) -> Result<Item, Expired> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// The next item, or the task is woken when there may be one.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Item, Expired>> {
        // Asked again without having been woken: there is nothing new.
        if self.is_idle && self.listener.is_waiting(context) && Instant::now() < self.look_at {
            return Poll::Pending;
        }
        // A long snapshot must not keep the thread from everybody else.
        ready!(coop::poll_proceed(context)).made_progress();
        self.is_idle = false;
        loop {
            // Before looking, so that what comes after the look is not missed.
            self.listener.wait(context);
            let was_arriving = self.is_arriving();
            if let Some(item) = self.try_next()? {
                return Poll::Ready(Ok(item));
            }
            if was_arriving == self.is_arriving() {
                // Woken or not, the next look decides.
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
        matches!(self.stage, Stage::Arriving { .. })
    }

    /// Where it stands if it was current at its last look.
    pub fn standing(&self) -> Option<Standing> {
        let is_current = matches!(self.stage, Stage::Following) && self.ahead.is_empty();
        let group = Arc::as_ptr(&self.seat.group).addr();
        let fingerprint = self.seat.fingerprint;
        is_current.then_some(Standing { group, fingerprint, place: self.place })
    }

    /// The next item if there is one now: fills a message without waiting.
    pub fn try_next(&mut self) -> Result<Option<Item>, Expired> {
        if self.ahead.is_empty()
            && let Some(event) = self.look()?
        {
            let coalesced = 0; // what was replaced is counted at what replaced it
            return Ok(Some(Item { event, coalesced }));
        }
        let next = self.ahead.pop_front();
        Ok(next.map(|(place, told)| self.hand_out(place, told)))
    }

    /// Where to go on with what has been handed out so far: perhaps some of it comes again. Nothing
    /// before the snapshot is complete.
    pub fn token(&self) -> Option<String> {
        let complete = !matches!(self.stage, Stage::Snapshot { .. });
        complete.then(|| self.token_at(&self.resume_at))
    }

    /// Reads ahead. An event if there is nothing to read and that is worth telling.
    fn look(&mut self) -> Result<Option<Event>, Expired> {
        let count = self.seat.hub.limits.batch_max;
        loop {
            match &mut self.stage {
                Stage::Arriving { epoch, until } => {
                    let (epoch, until) = (*epoch, *until);
                    if !self.arrive(epoch, until)? {
                        return Ok(None);
                    }
                }
                Stage::Snapshot { last, sent } => {
                    let group = &self.seat.group;
                    self.ahead = group.members_after(self.place, last.as_ref(), count)?;
                    *sent += self.ahead.len();
                    let Some((_, Told::Upserted(entry))) = self.ahead.back() else {
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
                    self.ahead = group.missed(self.place, &self.resume_at, &entries);
                    if !self.ahead.is_empty() {
                        return Ok(None);
                    }
                }
                Stage::Following => return self.follow(count),
            }
        }
    }

    /// Begins to read what was missed if all that the reader knows is known here; whether it is.
    fn arrive(&mut self, epoch: Epoch, until: Instant) -> Result<bool, Expired> {
        let Seat { hub, group, .. } = &self.seat;
        let now = Instant::now();
        match hub.knows(epoch, &self.resume_at)? {
            true => {
                self.listener = group.bell.listen();
                self.place = group.resume(&self.resume_at, now);
                self.stage = Stage::Resuming(Missed::after(&self.resume_at));
                Ok(true)
            }
            false if until <= now => Err(Expired),
            false => {
                self.look_at = until;
                Ok(false)
            }
        }
    }

    fn follow(&mut self, count: usize) -> Result<Option<Event>, Expired> {
        let now = Instant::now();
        let Seat { hub, group, .. } = &self.seat;
        // Before the group is locked: all changes up to here have reached it by then.
        let cursors = hub.cursors();
        match group.read(self.place, cursors, count, now)? {
            Found::Told(told) => {
                self.ahead = told;
                Ok(None)
            }
            Found::Current(current) => Ok(self.current(current, now)),
        }
    }

    fn complete(&mut self, application_count: usize) -> Event {
        self.stage = Stage::Following;
        self.bookmark_due = Instant::now() + self.seat.hub.limits.bookmark_period;
        Event::SnapshotComplete { application_count, token: self.token_at(&self.resume_at) }
    }

    /// A bookmark if it is time for one.
    fn current(&mut self, current: Current, now: Instant) -> Option<Event> {
        self.resume_at = current.resume_at;
        let due = self.bookmark_due <= now;
        if due {
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

    fn hand_out(&mut self, place: Place, told: Told) -> Item {
        let passed = place.0.saturating_sub(self.place.0);
        self.place = place;
        Item {
            event: match told {
                Told::Upserted(entry) => Event::Upserted(entry),
                Told::Removed(app) => Event::Removed(app),
            },
            coalesced: passed.saturating_sub(1),
        }
    }

    /// In the history as of now: what a loss changed comes after these cursors like any change.
    fn token_at(&self, cursors: &Arc<Cursors>) -> String {
        let Seat { hub, fingerprint, .. } = &self.seat;
        let token = Token { epoch: hub.epoch(), cursors: cursors.clone(), filter: *fingerprint };
        token.encode()
    }
}

/// A watcher's place in its group, given up by dropping.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) hub: Arc<Hub>,
    pub(super) group: Arc<Group>,
    /// Of the filter as it was asked for: it stands in tokens.
    pub(super) fingerprint: u64,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.hub.leave(&self.group);
    }
}
