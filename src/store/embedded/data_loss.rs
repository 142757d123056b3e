//! Records that acknowledged commits may be lost, when an operator accepts that.
//!
//! The commits that are lost had revisions and positions after those that are left. The store does
//! not know them, so it leaves out more of both than a log can hold, and raises the store epoch.
//! Every application is shown as waiting until the aggregator has made its units uncertain, as
//! after a data loss of Redis.

use redb::{Database, ReadableDatabase};

use crate::domain::app::Head;
use crate::domain::data_loss::uncertain_head;
use crate::domain::revision::Revision;
use crate::store::clock::Clock;
use crate::store::codec::{HeadRecord, Meta};
use crate::store::heads::Watermarks;
use crate::store::key::prefix_of;
use crate::store::{Epoch, Position, random_store_id};

use super::read::{ReadFailure, read_heads, read_meta};
use super::tables;

/// The revisions and positions that are left out. A commit takes at least 100 bytes of a log. A log
/// has 64 MiB, and more only while the disk is full.
const LEFT_OUT: u64 = 1 << 24;

/// Raises the store epoch, all revisions and all positions in one transaction. The database has the
/// groups up to `last`, and no log any more.
pub(super) fn record(database: &Database, last: u64) -> Result<Epoch, ReadFailure> {
    let known = read_meta(&database.begin_read()?)?.epoch;
    begin(database, last, Epoch { losses: known.losses + 1, ..known })
}

/// Does the same in a backup, at its first start. The store gets another id: two stores that begin
/// with the same backup have different histories.
pub(super) fn record_restore(database: &Database, last: u64) -> Result<Epoch, ReadFailure> {
    let known = read_meta(&database.begin_read()?)?.epoch;
    begin(database, last, Epoch { store_id: random_store_id(), losses: known.losses + 1 })
}

fn begin(database: &Database, last: u64, epoch: Epoch) -> Result<Epoch, ReadFailure> {
    let txn = database.begin_read()?;
    let (meta, mut heads) = (read_meta(&txn)?, read_heads(&txn)?);
    drop(txn);
    let time = Clock::starting_from(meta.clock).now();
    heads.sort_by_key(|(_, position, _)| *position);
    let mut end = heads.last().map_or(meta.marks.last, |(_, at, _)| meta.marks.last.max(*at));
    end.0 += LEFT_OUT;
    let mut records = Vec::with_capacity(heads.len());
    for (app, _, head) in heads {
        end = Position(end.0 + 1);
        let head = Head { revision: left_out(head.revision), ..head };
        let head = uncertain_head(head, epoch.losses, 0, time);
        records.push((prefix_of(&app), HeadRecord::encode(&head).at(end)));
    }
    let revision_floor = left_out(meta.marks.revision_floor);
    let marks = Watermarks { last: end, revision_floor, ..meta.marks };
    tables::write_data_loss(database, &Meta { epoch, clock: time, marks }, &records, last)?;
    Ok(epoch)
}

fn left_out(revision: Revision) -> Revision {
    Revision(revision.0 + LEFT_OUT)
}
