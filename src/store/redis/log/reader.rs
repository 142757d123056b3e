//! Follows the logs of some buckets on a connection of its own. At each new connection it checks
//! whether Redis still has what this process has seen.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use redis::{Cmd, Pipeline, Value, cmd};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::store::redis::error::OpenError;
use crate::store::redis::link::{Connection, Dedicated, Master};
use crate::store::redis::record::key::{Key, tag};
use crate::store::redis::record::state::{MasterNote, note_master, read_master, record_loss};
use crate::store::redis::record::{Buckets, meta, reply};
use crate::store::redis::script;
use crate::store::{Bucket, Epoch, Position};
use crate::sync::{lock, panic_text};

use super::logged::{self, Logged};
use super::view::Break;
use super::{Log, repair};

/// How long Redis holds a read that waits for new entries. An answer that takes much longer never
/// arrives.
const BLOCK: Duration = Duration::from_secs(1);
const RESPONSE_MAX: Duration = Duration::from_secs(3);
/// The maximum number of entries of one bucket in one answer.
const ENTRIES_MAX: usize = 256;
/// The pauses between attempts to follow the logs again.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// The maximum number of attempts to repair a bucket while other processes write to it.
const REPAIRS_MAX: usize = 20;

/// The reader of a group of buckets.
pub(crate) struct Reader {
    log: Arc<Log>,
    /// The buckets. One master holds all of them, and one read asks for all logs.
    buckets: Vec<Bucket>,
    /// The epoch when the last connection ended.
    epoch: Epoch,
    /// The connection, once all buckets are read on it.
    connection: Option<Dedicated>,
    suspicions: watch::Receiver<()>,
}

impl Reader {
    pub(crate) fn new(log: Arc<Log>, buckets: Vec<Bucket>) -> Reader {
        let (epoch, suspicions) = (log.view.epoch(), log.suspicions.subscribe());
        Reader { log, buckets, epoch, connection: None, suspicions }
    }

    /// Connects, and brings the view of all buckets up to date.
    pub(crate) async fn catch_up(&mut self) -> Result<(), OpenError> {
        self.suspicions.mark_unchanged();
        let servers = &self.log.buckets.servers;
        let dedicated = servers.dedicated(&self.tag(), RESPONSE_MAX).await?;
        let mut session = LogSession::new(&self.log, &*dedicated.connection, self.epoch);
        reply::check(&session.ask(&script::load_all()).await?)?;
        session.check_meta().await?;
        session.note_master(&self.buckets).await?;
        session.verify(&self.buckets).await?;
        // Only after the comparison: a commit with this note is based on a compared state.
        for (bucket, note) in session.notes {
            self.log.view.take_note(bucket, note);
        }
        self.connection = Some(dedicated);
        Ok(())
    }

    /// Follows the logs for as long as the store is open. An observer that panics ends it, because
    /// the data in memory may be inconsistent.
    pub(crate) async fn run(self) {
        let (log, first) = (self.log.clone(), self.buckets[0]);
        if let Err(panic) = AssertUnwindSafe(self.follow_on()).catch_unwind().await {
            let reason = format!("reader of the logs stopped by a panic: {}", panic_text(&*panic));
            tracing::error!(reason, "store has stopped, restart the process");
            lock(&log.troubles).insert(first, reason);
        }
    }

    /// Follows the logs, and connects again after each error.
    async fn follow_on(mut self) {
        let mut pause = RETRY_MIN;
        loop {
            let started = Instant::now();
            let ended = match self.connection.take() {
                Some(dedicated) => self.follow(dedicated).await,
                None => self.catch_up().await,
            };
            let Err(error) = ended else {
                lock(&self.log.troubles).remove(&self.buckets[0]);
                pause = RETRY_MIN;
                continue;
            };
            tracing::warn!(%error, buckets = self.buckets.len(), "cannot follow logs");
            lock(&self.log.troubles).insert(self.buckets[0], error.to_string());
            self.epoch = self.log.view.epoch();
            if RETRY_MAX < started.elapsed() {
                pause = RETRY_MIN;
            }
            // A new connection of the link ends the pause.
            let mut master = self.log.buckets.servers.master(&self.tag());
            master.mark_unchanged();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                Ok(()) = master.changed() => {}
            }
            pause = RETRY_MAX.min(pause * 2);
        }
    }

    /// Reads the logs until the connection ends, or the link connects to another master.
    async fn follow(&mut self, dedicated: Dedicated) -> Result<(), OpenError> {
        let mut master = self.log.buckets.servers.master(&self.tag());
        let Dedicated { connection, master: read } = &dedicated;
        let is_other = |now: &Option<Master>| now.as_ref().is_some_and(|now| !now.is_same(read));
        let view = &self.log.view;
        let keys = &self.log.buckets.keys;
        let logs = self.buckets.iter().map(|bucket| (keys.name(Key::Log(*bucket)), *bucket));
        let logs: Vec<(String, Bucket)> = logs.collect();
        let mut session = LogSession::new(&self.log, &**connection, view.epoch());
        session.notes = self.buckets.iter().filter_map(|&b| Some((b, view.note(b)?))).collect();
        loop {
            tokio::select! {
                moved = master.wait_for(is_other) => {
                    drop(moved);
                    return Err(unavailable("another master has taken over"));
                }
                Ok(()) = self.suspicions.changed() => {
                    return Err(unavailable("another master may have taken over"));
                }
                read = session.read_on(&logs) => read?,
            }
        }
    }

    fn tag(&self) -> String {
        tag(self.buckets[0])
    }
}

/// The work on one connection.
struct LogSession<'a> {
    log: &'a Log,
    connection: &'a dyn Connection,
    /// The epoch before this connection.
    seen: Epoch,
    /// Whether a data loss was counted on this connection.
    counted: bool,
    /// The note of each bucket on this master.
    notes: BTreeMap<Bucket, MasterNote>,
    /// When the last answer with entries came, and how many it had.
    answered: Option<(Instant, usize)>,
}

impl<'a> LogSession<'a> {
    fn new(log: &'a Log, connection: &'a dyn Connection, seen: Epoch) -> LogSession<'a> {
        let notes = BTreeMap::new();
        LogSession { log, connection, seen, counted: false, notes, answered: None }
    }

    async fn ask(&self, pipeline: &Pipeline) -> Result<Vec<Value>, OpenError> {
        Ok(self.connection.run(pipeline).await?)
    }

    async fn ask_one(&self, command: Cmd) -> Result<Value, OpenError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.add_command(command);
        match self.ask(&pipeline).await?.pop() {
            Some(Value::ServerError(error)) => Err(unavailable(error)),
            value => Ok(value.unwrap_or(Value::Nil)),
        }
    }

    /// Compares the record of the store as a whole: takes over a newer epoch, and counts a data
    /// loss if the record is older or gone.
    async fn check_meta(&mut self) -> Result<(), OpenError> {
        let Buckets { keys, servers, .. } = &*self.log.buckets;
        let key = keys.name(Key::Meta);
        let values = servers.run(&key, &meta::ask(keys)).await?;
        let Epoch { store_id, losses } = self.seen;
        match meta::read(&values, &key, Some(keys.buckets))?.map(|meta| meta.epoch) {
            Some(epoch) if epoch.store_id == store_id && losses <= epoch.losses => {
                self.log.view.move_epoch(epoch);
                Ok(())
            }
            // The record is older or gone, or a process that did not know the store created it
            // again.
            _ => self.count_loss().await,
        }
    }

    async fn count_loss(&mut self) -> Result<(), OpenError> {
        if self.counted {
            return Ok(());
        }
        let Log { buckets, view, .. } = self.log;
        let key = buckets.keys.name(Key::Meta);
        let answer = buckets.call(&key, &meta::count_loss(&buckets.keys, self.seen)).await?;
        let counted = meta::read(&[answer], &key, Some(buckets.keys.buckets))?;
        let counted = counted.ok_or_else(|| unavailable("the record is missing after a write"))?;
        view.move_epoch(counted.epoch);
        self.counted = true;
        Ok(())
    }

    /// Notes the master of each bucket. Another master may lack commits that were seen, so it gets
    /// a higher epoch floor.
    async fn note_master(&mut self, buckets: &[Bucket]) -> Result<(), OpenError> {
        let (keys, view) = (&self.log.buckets.keys, &self.log.view);
        let mut pipeline = redis::pipe();
        for &bucket in buckets {
            let (known, now) = (view.note(bucket), self.log.time.now());
            pipeline.add_command(note_master(keys, bucket, known.as_ref(), now));
        }
        let values = self.ask(&pipeline).await?;
        for (&bucket, value) in buckets.iter().zip(&values) {
            let met = read_master(reply::items(value));
            let (note, takeovers) = met.ok_or_else(|| unavailable(format!("{value:?}")))?;
            view.meet_master(bucket, note.epoch_floor, takeovers);
            self.notes.insert(bucket, note);
        }
        Ok(())
    }

    fn floor(&self, bucket: Bucket) -> u64 {
        self.notes.get(&bucket).map_or(0, |note| note.epoch_floor)
    }

    /// Checks whether Redis has what this process has seen, and reads the buckets that differ.
    async fn verify(&mut self, buckets: &[Bucket]) -> Result<(), OpenError> {
        let (keys, view) = (&self.log.buckets.keys, &self.log.view);
        let mut pipeline = redis::pipe();
        for &bucket in buckets {
            let (cursor, ..) = view.cursor(bucket);
            let log = pipeline.cmd("XRANGE").arg(keys.name(Key::Log(bucket)));
            log.arg(cursor.to_string()).arg("+").arg("COUNT").arg(1);
            let state = keys.name(Key::State(bucket));
            pipeline.cmd("HMGET").arg(state).arg("last").arg("losses");
            let unread = view.last_unread_entry(bucket, self.floor(bucket)).unwrap_or(cursor);
            let range = pipeline.cmd("XRANGE").arg(keys.name(Key::Log(bucket)));
            range.arg(unread.to_string()).arg(unread.to_string());
        }
        let values = self.ask(&pipeline).await?;
        let (triples, _) = values.as_chunks::<3>();
        for (&bucket, [log, state, unread]) in buckets.iter().zip(triples) {
            let (cursor, last, losses) = view.cursor(bucket);
            let floor = self.floor(bucket);
            if !reply::items(unread).is_empty() {
                view.confirm_unread(bucket, floor);
            }
            let mut state =
                reply::items(state).iter().map(|value| reply::number(value).unwrap_or(0));
            let goes_on = state.next().is_some_and(|found| last.0 <= found)
                && state.next() == Some(u64::from(losses));
            // The id of an entry contains a time, so another history usually has other ids. An
            // entry after the last known one must have a later position.
            let next = reply::items(log).first().and_then(logged::read_place);
            // A message has no position.
            let is_same = next.is_some_and(|(id, position)| {
                id == cursor && position.is_none_or(|position| position == last)
            });
            let is_ahead = view.is_ahead(bucket);
            let is_there = is_same && !is_ahead;
            let is_before = |(_, position): (_, Option<Position>)| {
                position.is_some_and(|position| position <= last)
            };
            let is_other = is_ahead || !is_same && next.is_some_and(is_before);
            if !(is_there && goes_on) || view.last_unread_entry(bucket, floor).is_some() {
                let is_lost = Position(0) < last && (is_other || self.counted);
                self.replace(bucket, is_lost).await?;
            }
        }
        Ok(())
    }

    /// Reads all heads of a bucket, repairs what was lost, and notifies the observers of the
    /// changes.
    async fn replace(&mut self, bucket: Bucket, is_lost: bool) -> Result<(), OpenError> {
        let Log { buckets, view, .. } = self.log;
        let (keys, seen) = (&buckets.keys, view.bucket(bucket));
        for _ in 0..REPAIRS_MAX {
            let values = self.ask(&logged::ask_bucket(keys, bucket)).await?;
            let found = logged::read_bucket(bucket, &values)?;
            let time = self.log.time.now();
            let note = self.notes.get(&bucket).cloned().unwrap_or_default();
            let repairs = repair::compare(bucket, &seen, &found, &note, time);
            let is_uncounted = (repairs.lost || is_lost) && found.losses <= seen.losses;
            if is_uncounted {
                self.count_loss().await?;
            }
            let (was, is) = (seen.heads.marks(), found.heads.marks());
            if is_uncounted || is.last < was.last || is.revision_floor < repairs.floor {
                let (last, epoch) = (was.last.0, view.epoch());
                tracing::warn!(bucket = bucket.0, seen = last, %epoch, "bucket has lost writes");
                let record = record_loss(keys, bucket, last, repairs.floor, epoch.losses);
                self.ask_one(record).await?;
                continue;
            }
            if repairs.batches.is_empty() {
                // Takes over an epoch that another process has counted.
                if view.epoch().losses < found.losses {
                    self.check_meta().await?;
                    // On a Cluster the master that counts may have lost the count itself.
                    view.move_epoch(Epoch { losses: found.losses, ..view.epoch() });
                }
                view.replace(bucket, found);
                return Ok(());
            }
            for batch in repairs.batches {
                // If another process committed first, the next comparison uses its result.
                self.ask_one(batch.call(buckets, &self.log.own.next_mark())).await?;
            }
        }
        Err(unavailable("too many writes during the repair of a bucket"))
    }

    /// Waits for new entries of the logs of some buckets, and applies them.
    async fn read_on(&mut self, logs: &[(String, Bucket)]) -> Result<(), OpenError> {
        self.log.pace.until_next(self.answered).await;
        let mut ask = cmd("XREAD");
        ask.arg("COUNT").arg(ENTRIES_MAX).arg("BLOCK").arg(BLOCK.as_millis() as u64);
        ask.arg("STREAMS");
        for (name, _) in logs {
            ask.arg(name);
        }
        for (_, bucket) in logs {
            ask.arg(self.log.view.cursor(*bucket).0.to_string());
        }
        let answer = self.ask_one(ask).await?;
        let mut count = 0;
        for (log, entries) in reply::streams(&answer) {
            count += entries.len();
            let found = logs.iter().find(|(name, _)| Some(&**name) == reply::text(log));
            if let Some((_, bucket)) = found {
                self.take_all(*bucket, entries).await?;
            }
        }
        self.answered = (0 < count).then(|| (Instant::now(), count));
        Ok(())
    }

    async fn take_all(&mut self, bucket: Bucket, entries: &[Value]) -> Result<(), OpenError> {
        let Log { view, own, membership, .. } = self.log;
        for entry in entries {
            match logged::read_logged(bucket, entry, own)? {
                Logged::Change(mut entry) => match view.take(&mut entry) {
                    Ok(()) => continue,
                    Err(Break::Gap) => {
                        tracing::info!(bucket = bucket.0, "log was trimmed, reading heads");
                    }
                    Err(Break::OtherHistory) => {
                        return Err(unavailable("the log differs from what was read before"));
                    }
                },
                Logged::Broadcast(id, notice) => {
                    view.take_broadcast(bucket, id, notice.as_deref());
                    continue;
                }
                Logged::Joined(id, who) => {
                    lock(membership).note_joined(who);
                    view.take_broadcast(bucket, id, None);
                    continue;
                }
                Logged::DataLoss => self.check_meta().await?,
            }
            // The heads already contain the remaining entries.
            return self.replace(bucket, false).await;
        }
        Ok(())
    }
}

fn unavailable(reason: impl ToString) -> OpenError {
    OpenError::Unavailable { reason: reason.to_string() }
}
