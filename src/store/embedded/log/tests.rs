//! Tests of the log on a disk in memory: power losses, damage, full segments.

use std::sync::Arc;

use crate::store::Epoch;
use crate::store::embedded::read::ReadFailure;
use crate::store::embedded::stepwise::{Disk, ENOSPC};

use super::group::ALIGNMENT;
use super::*;

const EPOCH: Epoch = Epoch { store_id: 77, losses: 0 };
const SEGMENT_BYTES: u64 = 16 << 20;

/// A log on a disk in memory.
struct Rig {
    disk: Disk,
    log: Log,
}

impl Rig {
    fn new() -> Rig {
        let disk = Disk::default();
        let log = begin(&disk, 0).unwrap().1;
        Rig { disk, log }
    }

    fn append(&mut self, text: &str) -> u64 {
        let mut group = LogGroup::new(text.len(), |bytes| bytes.extend_from_slice(text.as_bytes()));
        self.log.append(&mut group).unwrap().0
    }
}

/// Reads the groups after `applied`, and returns them with the log that continues.
fn begin(disk: &Disk, applied: u64) -> Result<(Vec<(u64, String)>, Log), ReadFailure> {
    let files: Arc<dyn LogFiles> = Arc::new(disk.clone());
    let mut scan = Scan::new(files, EPOCH, applied)?;
    let mut all = Vec::new();
    while let Some(found) = scan.next_groups()? {
        let texts: Vec<_> = found.ops().map(|ops| String::from_utf8(ops.to_vec())).collect();
        let first = found.last + 1 - texts.len() as u64;
        all.extend((first..).zip(texts.into_iter().map(Result::unwrap)));
    }
    Ok((all, scan.begin(SEGMENT_BYTES)?))
}

fn expected(range: std::ops::RangeInclusive<u64>) -> Vec<(u64, String)> {
    range.map(|n| (n, format!("group {n}"))).collect()
}

fn reason(result: Result<(Vec<(u64, String)>, Log), ReadFailure>) -> String {
    match result {
        Err(ReadFailure::Segment { reason, .. }) => reason,
        Err(other) => panic!("{other:?}"),
        Ok((groups, _)) => panic!("read as {groups:?}"),
    }
}

#[test]
fn groups_that_the_database_lacks_are_read_in_order() {
    let mut rig = Rig::new();
    for n in 1..=5 {
        assert_eq!(rig.append(&format!("group {n}")), n);
    }
    for applied in 0..=5 {
        let image = Disk::of(&rig.disk.after_power_loss(|| true));
        let (groups, mut log) = begin(&image, applied).unwrap();
        assert_eq!(groups, expected(applied + 1..=5));
        assert!(image.list().unwrap().is_empty());
        let mut next = LogGroup::new(0, |bytes| bytes.extend_from_slice(b"group 6"));
        assert_eq!(log.append(&mut next).unwrap().0, 6);
        assert_eq!(begin(&image, 5).unwrap().0, expected(6..=6));
    }
}

/// A power loss at each step of an append, with each sector of the append lost or kept.
#[test]
fn a_power_loss_damages_the_group_that_was_not_synced() {
    let long = "x".repeat(2000);
    for kept in 0..64_u32 {
        let mut rig = Rig::new();
        rig.append("group 1");
        rig.append("group 2");
        let segment = rig.disk.list().unwrap()[0];
        let before = rig.disk.read(segment).unwrap();
        let mut group = LogGroup::new(0, |bytes| bytes.extend_from_slice(long.as_bytes()));
        rig.disk.refuse_syncs(true);
        rig.log.append(&mut group).unwrap_err();
        let mut sector = 0;
        let image = rig.disk.after_power_loss(|| {
            sector += 1;
            kept >> (sector - 1) & 1 == 1
        });
        assert!(4 <= sector, "{sector} sectors were written");
        let image = Disk::of(&image);
        let (groups, _) = begin(&image, 0).unwrap();
        assert_eq!(groups[..2], expected(1..=2));
        match &groups[2..] {
            [] => {}
            [(3, text)] => assert_eq!(*text, long),
            other => panic!("{other:?}"),
        }
        assert!(before.len() >= 64);
    }
}

/// All groups of the test are in one sector, of which a loss of power leaves no part.
#[test]
fn a_damaged_group_is_refused() {
    let mut rig = Rig::new();
    for n in 1..=3 {
        rig.append(&format!("group {n}"));
    }
    let segment = rig.disk.list().unwrap()[0];
    let bytes = rig.disk.read(segment).unwrap();
    let size = LogGroup::new(0, |bytes| bytes.extend_from_slice(b"group 1")).bytes().len();
    let opening = LogGroup::opening(segment, 0, 0).bytes().len();
    let groups_at = super::segment::HEADER_BYTES + opening;
    for place in super::segment::HEADER_BYTES..groups_at + 3 * size {
        let disk = Disk::of(&rig.disk.after_power_loss(|| true));
        assert!(disk.damage(segment, place));
        let last = groups_at + 2 * size <= place;
        match begin(&disk, 0) {
            // By its length, the last group goes on in other sectors.
            Ok((groups, _)) if groups == expected(1..=2) => {
                let length = groups_at + 2 * size + 8;
                assert!((length..length + 4).contains(&place), "byte {place}");
            }
            // A byte of the padding.
            Ok((groups, _)) => assert_eq!(groups, expected(1..=3), "byte {place}"),
            Err(ReadFailure::Segment { reason, .. }) => {
                let expected = if last { "is damaged" } else { "is intact" };
                assert!(reason.contains(expected), "byte {place}: {reason}");
                assert_eq!(disk.list().unwrap(), [segment]);
            }
            Err(other) => panic!("{other:?}"),
        }
        // Groups that the database has are not needed.
        assert!(last || begin(&disk, 3).is_ok(), "byte {place}");
    }
    assert!(bytes.len().is_multiple_of(ALIGNMENT));
}

/// A segment that is missing, whichever it is, and one that was renamed.
#[test]
fn a_missing_segment_is_refused() {
    let mut rig = Rig::new();
    let long = "y".repeat(5 << 20);
    for n in 1..=9 {
        rig.append(&format!("{n} {long}"));
        rig.log.segments.prepare().unwrap();
    }
    let segments = rig.disk.list().unwrap();
    let [first, second, third, spare] = segments[..] else { panic!("{segments:?}") };
    let image = rig.disk.after_power_loss(|| true);
    assert_eq!(begin(&Disk::of(&image), 0).unwrap().0.len(), 9);
    for (missing, expected) in [
        (first, Some("it goes on with group 4, and group 1 is missing")),
        (second, Some("it goes on with group 7, and group 4 is missing")),
        (third, Some("the segment that continues it is missing")),
        (spare, None),
    ] {
        let disk = Disk::of(&image);
        disk.remove(missing).unwrap();
        match expected {
            Some(expected) => assert_eq!(reason(begin(&disk, 0)), expected),
            None => assert_eq!(begin(&disk, 0).unwrap().0.len(), 9),
        }
    }
    let disk = Disk::of(&image);
    disk.rename(third, 99).unwrap();
    assert_eq!(reason(begin(&disk, 0)), "the segment that continues it is missing");
    let disk = Disk::of(&image);
    disk.rename(first, 99).unwrap();
    assert_eq!(reason(begin(&disk, 0)), "it goes on with group 4, and group 1 is missing");
}

#[test]
fn a_log_that_does_not_continue_the_database_is_refused() {
    let mut rig = Rig::new();
    for n in 1..=2 {
        rig.append(&format!("group {n}"));
    }
    let (_, log) = begin(&rig.disk, 0).unwrap();
    rig.log = log;
    rig.append("group 3");
    let said = reason(begin(&rig.disk, 0));
    assert_eq!(said, "it goes on with group 3, and group 1 is missing");
    let files: Arc<dyn LogFiles> = Arc::new(rig.disk.clone());
    let mut other = Scan::new(files, Epoch { store_id: 78, ..EPOCH }, 2).unwrap();
    let Err(ReadFailure::Segment { reason, .. }) = other.next_groups() else { panic!("read") };
    assert_eq!(reason, "it belongs to another database");
    assert_eq!(begin(&rig.disk, 2).unwrap().0, expected(3..=3));
}

/// Segments are used again; what they had before is not read.
#[test]
fn full_segments_are_used_again() {
    let mut rig = Rig::new();
    let long = "y".repeat(1 << 20);
    let mut generations = std::collections::BTreeSet::new();
    let text = |rig: &mut Rig, n: u64| rig.append(&format!("{n} {long}"));
    for n in 1..=100 {
        assert_eq!(text(&mut rig, n), n);
        rig.log.segments.prepare().unwrap();
        // Durable with a delay of some groups.
        rig.log.segments.free_up_to(n.saturating_sub(10)).unwrap();
        let list = rig.disk.list().unwrap();
        assert!(list.len() <= 4, "{} segments", list.len());
        generations.extend(list);
    }
    assert!(6 < generations.len(), "{generations:?}");
    for file in rig.disk.list().unwrap() {
        assert!(rig.disk.read(file).unwrap().len() as u64 <= SEGMENT_BYTES + (2 << 20));
    }
    let image = Disk::of(&rig.disk.after_power_loss(|| true));
    let (groups, _) = begin(&image, 90).unwrap();
    assert_eq!(groups.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (91..=100).collect::<Vec<_>>());
}

/// A loss of power at each step of the begin of a log, with each sector lost or kept.
#[test]
fn a_log_that_only_begins_is_empty() {
    for steps in 0..6 {
        for kept in 0..8_u32 {
            let mut rig = Rig::new();
            rig.disk.freeze_after(steps);
            rig.log.create().unwrap();
            let mut group = LogGroup::new(0, |bytes| bytes.extend_from_slice(b"group 1"));
            rig.log.append(&mut group).unwrap();
            let mut sector = 0_u32;
            let image = rig.disk.frozen(|| {
                sector += 1;
                kept >> (sector.min(3) - 1) & 1 == 1
            });
            let (killed, without_power) = image.expect("the disk is frozen before the end");
            for image in [killed, without_power] {
                let groups = begin(&Disk::of(&image), 0).unwrap().0;
                assert!(groups.len() <= 1, "{groups:?}");
            }
        }
    }
}

/// Without a prepared segment the current one grows.
#[test]
fn a_full_disk_delays_the_next_segment() {
    let mut rig = Rig::new();
    let long = "z".repeat(1 << 20);
    for _ in 0..12 {
        rig.append(&long);
    }
    rig.disk.fail(Some(ENOSPC));
    rig.log.segments.prepare().unwrap_err();
    rig.disk.fail(None);
    for _ in 12..20 {
        rig.append(&long);
    }
    assert_eq!(rig.disk.list().unwrap().len(), 1);
    rig.log.segments.prepare().unwrap();
    rig.append("the next segment");
    assert_eq!(rig.disk.list().unwrap().len(), 2);
    assert_eq!(begin(&rig.disk, 0).unwrap().0.len(), 21);
}
