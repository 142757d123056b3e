//! Examines a data directory without creating or changing anything in it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::store::Space;
use crate::store::embedded::OpenError;
use crate::store::embedded::disk::{SPACE_LOW, space_of};
use crate::store::embedded::examine::{Condition, Contents, Incomplete, Readable, look};

use super::finding::{Finding, in_order};

/// Free space below this is an error: it holds a database of a few applications.
const SPACE_MIN: u64 = 64 << 20;

/// What is found of a backup from which no store was started.
const BACKUP: &str = "is a backup that can be read; the first start from it makes each unit \
                      uncertain until it reports again";

/// Examines a data directory; the worst finding comes first.
pub fn examine(dir: &Path) -> Vec<Finding> {
    let (directory, there) = directory(dir);
    let mut findings = vec![directory];
    findings.extend(there.and_then(|there| space(&there)));
    let Contents { log_alone, database: found, open_to_others } = look(dir);
    findings.extend(log_alone.iter().map(refused));
    findings.extend(found.iter().map(database));
    findings.extend(open_to_others.into_iter().map(|found| {
        let why = "its statuses and data can be read, or replaced";
        Finding::warning("permissions", found, why)
    }));
    in_order(findings)
}

/// Checks whether the directory can be written. Also returns the nearest existing directory.
fn directory(dir: &Path) -> (Finding, Option<PathBuf>) {
    let shown = dir.display();
    let whole = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
    let Some(there) = whole.ancestors().find(|ancestor| ancestor.exists()) else {
        return (cannot(format!("{shown} has no existing parent")), None);
    };
    let (there, is_new) = (there.to_path_buf(), there != whole);
    let finding = match access(&there, Access::WRITE_OK | Access::EXEC_OK) {
        _ if !there.is_dir() => cannot(format!("{} is not a directory", there.display())),
        Err(error) => {
            cannot(format!("{} cannot be written: {}", there.display(), io::Error::from(error)))
        }
        Ok(()) if is_new => {
            Finding::ok("data-directory", format!("{shown} will be created at the first start"))
        }
        Ok(()) => Finding::ok("data-directory", format!("{shown} can be written")),
    };
    (finding, Some(there))
}

fn cannot(found: String) -> Finding {
    let why = "a server of Bellwether would not start";
    Finding::error("data-directory", found, why)
        .advise("give it to the user of the server, or name another one with --data-dir")
}

fn space(there: &Path) -> Option<Finding> {
    let Space { free, .. } = space_of(there)?;
    let found = format!("{} MiB free", free >> 20);
    let why = "on a full disk every report is answered with STORE_UNAVAILABLE";
    Some(match free {
        0..SPACE_MIN => Finding::error("free-space", found, why),
        SPACE_MIN..SPACE_LOW => Finding::warning("free-space", found, why),
        _ => Finding::ok("free-space", found),
    })
}

fn database(opened: &Result<Readable, OpenError>) -> Finding {
    match opened {
        Ok(readable) => self::readable(readable),
        // A running server has the file locked.
        Err(OpenError::InUse { .. }) => {
            let found = "another process uses it, so its content was not checked";
            Finding::ok("database", found)
        }
        Err(error) => refused(error),
    }
}

fn refused(error: &OpenError) -> Finding {
    Finding::error("database", error.in_full(), "a server of Bellwether would not start")
}

fn readable(readable: &Readable) -> Finding {
    let Readable { file, condition, groups, last, incomplete } = readable;
    let condition = match condition {
        Condition::Closed => "can be read",
        Condition::NotClosed => "was not closed, and can be repaired",
        Condition::Backup => BACKUP,
    };
    let mut found = format!("{} {condition}", file.display());
    if 0 < *groups {
        found += &format!("; the next start adds {groups} groups from the log, up to group {last}");
    }
    let Some(Incomplete { segment, place }) = incomplete else {
        return Finding::ok("database", found);
    };
    let segment = segment.display();
    found += &format!("; the log ends in an incomplete group, at byte {place} of {segment}");
    let why = "a loss of power leaves this of a group that was not acknowledged, but so can \
               damage: then acknowledged commits after the last group are lost";
    Finding::warning("database", found, why)
        .advise("restore the data directory from a backup if there was no loss of power")
}
