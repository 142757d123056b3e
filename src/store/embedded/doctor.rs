//! Examines a data directory without creating or changing anything in it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use redb::{Builder, DatabaseError};
use rustix::fs::{Access, access};

use crate::store::doctor::{Finding, in_order};
use crate::store::{OpenError, Space};
use crate::sync::panic_text;

use super::disk::{SPACE_LOW, space_of};
use super::file::{Files, Location};
use super::log::LogEnd;
use super::overlay::Overlay;
use super::recover::Examined;

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
    let location = Location::new(dir, Files::of(dir));
    findings.extend(location.log_alone().map(|error| refused(&error)));
    if location.is_there() {
        findings.push(database(&location));
        findings.extend(location.open_to_others().into_iter().map(|found| {
            let why = "its statuses and data can be read, or replaced";
            Finding::warning("permissions", found, why)
        }));
    }
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

/// Reads the database and its log as a server would, but repairs only a copy in memory.
fn database(location: &Location) -> Finding {
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let database = Builder::new().open_read_only(&location.file);
        Ok(match database {
            Err(DatabaseError::RepairAborted) => {
                let repaired = Overlay::open(&location.file).map_err(DatabaseError::from);
                let repaired = repaired.and_then(|file| Builder::new().create_with_backend(file));
                let repaired = repaired.map_err(|error| location.database_error(error))?;
                let found = match location.check_format(&repaired)? {
                    true => BACKUP,
                    false => "was not closed, and can be repaired",
                };
                (found, location.examine(&repaired)?)
            }
            opened => {
                let opened = opened.map_err(|error| location.database_error(error))?;
                let found = if location.check_format(&opened)? { BACKUP } else { "can be read" };
                (found, location.examine(&opened)?)
            }
        })
    }));
    let opened = opened.unwrap_or_else(|panic| Err(location.damaged(panic_text(&*panic))));
    match opened {
        Ok((found, examined)) => readable(location, found, &examined),
        // A running server has the file locked.
        Err(OpenError::InUse { .. }) => {
            let found = "another process uses it, so its content was not checked";
            Finding::ok("database", found)
        }
        Err(error) => refused(&error),
    }
}

fn refused(error: &OpenError) -> Finding {
    Finding::error("database", error.in_full(), "a server of Bellwether would not start")
}

fn readable(
    location: &Location,
    found: &str,
    Examined { groups, last, end }: &Examined,
) -> Finding {
    let mut found = format!("{} {found}", location.file.display());
    if 0 < *groups {
        found += &format!("; the next start adds {groups} groups from the log, up to group {last}");
    }
    let Some(LogEnd { segment, place, is_incomplete: true, .. }) = end else {
        return Finding::ok("database", found);
    };
    let segment = segment.display();
    found += &format!("; the log ends in an incomplete group, at byte {place} of {segment}");
    let why = "a loss of power leaves this of a group that was not acknowledged, but so can \
               damage: then acknowledged commits after the last group are lost";
    Finding::warning("database", found, why)
        .advise("restore the data directory from a backup if there was no loss of power")
}
