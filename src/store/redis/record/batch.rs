//! A transition as arguments of the commit script, encoded by the committing task; and the entry
//! that the log has of it.

use std::sync::Arc;

use redis::Cmd;
use serde::{Deserialize, Serialize};

use crate::domain::app::Head;
use crate::domain::history::StatusEvent;
use crate::domain::name::AppName;
use crate::domain::revision::Revision;
use crate::domain::time::Timestamp;
use crate::domain::transition::{EventPlace, MemoryOnly, Transition, Write};
use crate::store::codec;
use crate::store::key::field_of;
use crate::store::redis::script;
use crate::store::redis::script::arguments::{ARGUMENTS, Arguments};
use crate::store::{Bucket, Budget};

use super::key::Key;
use super::state::MasterNote;
use super::{Buckets, LOG_ENTRIES, block};

/// The number of words beside records and events: the command, names of keys, the arguments.
const WORDS: usize = 10 + ARGUMENTS.len();
const HEAD_BYTES: usize = 1024;

/// An encoded transition.
pub(crate) struct Batch {
    pub(crate) app: AppName,
    pub(crate) bucket: Bucket,
    base: Revision,
    /// The base count of quiet commits; `None` if it is not compared.
    base_quiet: Option<u64>,
    /// The epoch floor of the transition, and the history that this process has compared.
    note: MasterNote,
    head: Arc<Head>,
    clears: bool,
    /// Whether it repairs an application after data loss.
    repairs: bool,
    /// The transition for the log; empty if it cannot or need not be replayed.
    body: Vec<u8>,
    /// The processes that may follow the application; `None` if they are not known.
    others_alive: Option<Arc<str>>,
    time: Timestamp,
    /// New answers to requests: as far as the writer knows, these requests have no answer yet.
    answers: Vec<(Vec<u8>, Vec<u8>)>,
    others: Fields,
    /// The statuses, if they are few.
    statuses: Fields,
    /// The statuses as a block, if they are many.
    block: Vec<u8>,
    block_entries: usize,
    events: Vec<(EventPlace, Timestamp, Vec<u8>)>,
}

/// Records to write and to remove.
#[derive(Default)]
struct Fields {
    set: Vec<(Vec<u8>, Vec<u8>)>,
    removed: Vec<Vec<u8>>,
}

/// The maximum number of tombstones for `commit.lua`, if none may be pruned for a while.
const KEEP_TOMBSTONES: i64 = -1;

/// The parts of a transition that the log entry does not contain in other fields.
#[derive(Serialize)]
struct BodyRef<'a>(Revision, &'a [Write], &'a [StatusEvent], &'a MemoryOnly, Timestamp);

#[derive(Deserialize)]
struct Body(Revision, Vec<Write>, Vec<StatusEvent>, MemoryOnly, Timestamp);

impl Batch {
    /// Encodes a transition for the store, and for those of the other processes that follow the
    /// application by its log; with `None` the log has the transition in any case. Without others
    /// the log has only the head, and a process that follows it must load the application.
    ///
    /// In an application that has blocks, few statuses become a block too.
    pub(crate) fn encode(
        transition: &Transition,
        bucket: Bucket,
        history: Arc<str>,
        has_blocks: bool,
        others: Option<Arc<str>>,
    ) -> Batch {
        let Transition { app, base, base_quiet, head, writes, events, memory_only, time, .. } =
            transition;
        let note = MasterNote { epoch_floor: transition.epoch_floor, history };
        let mut batch = Batch::of_head(app, bucket, (*base, &note), head.clone());
        batch.base_quiet = Some(*base_quiet);
        batch.repairs = false;
        batch.clears = transition.is_deletion();
        batch.time = *time;
        let is_status = |write: &&Write| matches!(write, Write::Status(..));
        let packs = has_blocks || block::ENTRIES_MIN <= writes.iter().filter(is_status).count();
        for write in writes {
            let (field, value) = (field_of(write), codec::encode_write(write));
            match (write, value) {
                // A deletion rewrites the answers that it knows, so they are not new.
                (Write::Request(..), Some(answer))
                    if !batch.clears && !batch.others.removed.contains(&field) =>
                {
                    batch.answers.push((field, answer));
                }
                (Write::Status(..), value) if packs => {
                    block::push(&mut batch.block, &field, value.as_deref());
                    batch.block_entries += 1;
                }
                (Write::Status(..), value) => batch.statuses.write(field, value),
                (_, value) => batch.others.write(field, value),
            }
        }
        let placed = transition.placed_events();
        batch.events = placed.map(|(place, e)| (place, e.time, codec::encode(e))).collect();
        if others.as_deref() != Some("") && transition.moves_revision() {
            let size = codec::RECORD_BYTES * (1 + writes.len() + events.len());
            let body = BodyRef(*base, writes, events, memory_only, *time);
            batch.body = codec::encode_sized(&body, size);
        }
        batch.others_alive = others.filter(|others| !others.is_empty());
        batch
    }

    /// Encodes a head without a transition to replay. It corrects an application after data loss.
    /// No tombstone of its bucket is pruned for a minute: a process that has seen more applications
    /// than tombstones are kept would write those again that others prune, and never end.
    pub(crate) fn of_head(
        app: &AppName,
        bucket: Bucket,
        (base, note): (Revision, &MasterNote),
        head: impl Into<Arc<Head>>,
    ) -> Batch {
        Batch {
            app: app.clone(),
            bucket,
            base,
            base_quiet: None,
            note: note.clone(),
            head: head.into(),
            clears: false,
            repairs: true,
            body: Vec::new(),
            others_alive: None,
            time: Timestamp::default(),
            answers: Vec::new(),
            others: Fields::default(),
            statuses: Fields::default(),
            block: Vec::new(),
            block_entries: 0,
            events: Vec::new(),
        }
    }

    /// Returns the maximum number of arguments of the call and about how many bytes they have, so
    /// that the buffer is allocated once.
    fn size(&self) -> (usize, usize) {
        let removed = self.removed().map(Vec::len);
        let pairs = self.pairs().map(|(field, value)| field.len() + value.len());
        let events = self.events.iter().map(|(_, _, event)| event.len() + 32);
        let counts = 2 * pairs.clone().count() + removed.clone().count() + 4 * events.len();
        let bytes = pairs.sum::<usize>() + removed.sum::<usize>() + events.sum::<usize>();
        (counts + WORDS, bytes + self.body.len() + self.block.len() + HEAD_BYTES)
    }

    /// Returns the fields to write: answers first, statuses last.
    fn pairs(&self) -> impl Iterator<Item = &(Vec<u8>, Vec<u8>)> + Clone {
        self.answers.iter().chain(&self.others.set).chain(&self.statuses.set)
    }

    /// Returns the fields to remove: statuses last.
    fn removed(&self) -> impl Iterator<Item = &Vec<u8>> + Clone {
        self.others.removed.iter().chain(&self.statuses.removed)
    }

    /// Returns the call of the script.
    pub(crate) fn call(&self, buckets: &Buckets, mark: &Mark) -> Cmd {
        let (Buckets { keys, retention, .. }, bucket) = (buckets, self.bucket);
        let names = [
            Key::Heads(bucket),
            Key::App(bucket, &self.app),
            Key::Log(bucket),
            Key::Events(bucket, &self.app),
            Key::State(bucket),
            Key::Tombs(bucket),
            Key::OwnEvents(bucket, &self.app),
        ];
        let head = &self.head;
        let [others, own] = [false, true].map(|is_own| retention.budget(is_own));
        let cutoff = |budget: Budget| self.time.before(budget.age_max).millis();
        let tombs_max = retention.tombstones_max.div_ceil(usize::from(keys.buckets));
        let tombs_max = i64::try_from(tombs_max).unwrap_or(i64::MAX);
        let names = names.map(|key| keys.name(key));
        let mut call = script::call_sized(&script::COMMIT, &names, self.size());
        let arguments = Arguments {
            name: self.app.to_string(),
            base: self.base.0,
            writer: &mark.writer,
            seq: mark.sequence,
            revision: head.revision.0,
            head: codec::encode(&**head),
            clears: self.clears,
            deleted: head.deleted,
            body: &self.body,
            log_max: LOG_ENTRIES,
            events_max: others.count_max,
            events_cutoff: cutoff(others),
            tombs_max: if self.repairs { KEEP_TOMBSTONES } else { tombs_max },
            app_prefix: keys.app_prefix(bucket),
            events_prefix: keys.events_prefix(bucket),
            base_quiet: self.base_quiet.map(|quiet| quiet.to_string()).unwrap_or_default(),
            quiet: head.quiet_commits,
            counts_above: self.note.epoch_floor,
            history: &self.note.history,
            own_max: own.count_max,
            own_cutoff: cutoff(own),
            own_prefix: keys.own_events_prefix(bucket),
            answer_count: self.answers.len(),
            set_count: self.pairs().count(),
            removed_count: self.removed().count(),
            event_count: self.events.len(),
            block: &self.block,
            status_count: self.block_entries.max(self.statuses.len()),
            removed_statuses: self.statuses.removed.len(),
            others: self.others_alive.as_deref().unwrap_or("*"),
        };
        arguments.add_to(&mut call);
        for (field, value) in self.pairs() {
            call.arg(field).arg(value);
        }
        for field in self.removed() {
            call.arg(field);
        }
        for (place, time, event) in &self.events {
            call.arg(event_id(place.number)).arg(time.millis()).arg(event);
            call.arg(u8::from(place.is_own));
        }
        call
    }
}

impl Fields {
    /// Adds a write. The last of several writes of one record wins, because the script sets fields
    /// before it removes fields.
    fn write(&mut self, field: Vec<u8>, value: Option<Vec<u8>>) {
        match value {
            Some(value) => {
                self.removed.retain(|removed| *removed != field);
                self.set.push((field, value));
            }
            None => self.removed.push(field),
        }
    }

    fn len(&self) -> usize {
        self.set.len() + self.removed.len()
    }
}

/// Returns the first half of the id of an event. Redis has no id 0.
pub(crate) fn event_id(number: u64) -> u64 {
    number.saturating_add(1)
}

/// The writer and number of a commit, which make it safe to send the commit again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The id of the store instance: hexadecimal, because the script searches for that pattern.
    pub(crate) writer: Arc<str>,
    /// The number of the commit among those of the writer.
    pub(crate) sequence: u64,
}

/// Decodes the transition of a log entry.
pub(crate) fn decode_body(
    app: &AppName,
    head: &Arc<Head>,
    body: &[u8],
) -> Result<Transition, String> {
    let Body(base, writes, events, memory_only, time) = codec::decode(body)?;
    Ok(Transition {
        app: app.clone(),
        base,
        base_quiet: head.quiet_commits,
        epoch_floor: 0,
        head: head.clone(),
        writes,
        events,
        memory_only,
        time,
    })
}
