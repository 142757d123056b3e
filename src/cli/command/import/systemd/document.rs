//! The output of `systemctl show`: blocks of `KEY=VALUE` lines, one for each unit, with an empty
//! line between two.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// A unit of systemd. A property that was not printed is empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SystemdUnit {
    /// `web@3.service`.
    pub id: String,
    /// `loaded`, `not-found`, `bad-setting`, `error`, `masked`.
    pub load_state: String,
    /// Why it is not loaded.
    pub load_error: String,
    /// `active`, `reloading`, `inactive`, `failed`, `activating`, `deactivating`.
    pub active_state: String,
    /// The state of its type: `running`, `auto-restart`.
    pub sub_state: String,
    /// Why it failed: `exit-code`, `signal`.
    pub result: String,
    /// `simple`, `oneshot`.
    pub kind: String,
    /// What the service says of itself.
    pub status_text: String,
    /// Exit code or signal of the main process.
    pub exit_status: String,
    /// Restarts by systemd since the last start by a person or a timer.
    pub restarts: u32,
    /// Whether it is enabled: `enabled`, `disabled`, `static`.
    pub file_state: String,
    /// When its state began.
    pub since: Option<Timestamp>,
}

/// Reads the units of a document.
///
/// # Errors
/// The line of a mistake, and what is expected there.
pub fn read(text: &str) -> anyhow::Result<Vec<SystemdUnit>> {
    let mut units = Vec::new();
    let mut block = Block::default();
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim_end())) {
        if line.is_empty() {
            units.extend(block.take()?);
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            bail!("line {number} is not KEY=VALUE; print the units with `systemctl show`");
        };
        if block.values.is_empty() {
            block.line = number;
        }
        if block.values.insert(key, value).is_some() {
            bail!("line {number} gives {key} of a unit once more; is an empty line missing?");
        }
    }
    units.extend(block.take()?);
    Ok(units)
}

/// The lines of one unit.
#[derive(Default)]
struct Block<'a> {
    /// Number of its first line.
    line: usize,
    values: BTreeMap<&'a str, &'a str>,
}

impl Block<'_> {
    /// Returns the unit of the lines so far, and begins another block.
    fn take(&mut self) -> anyhow::Result<Option<SystemdUnit>> {
        if self.values.is_empty() {
            return Ok(None);
        }
        let block = std::mem::take(self);
        let text = |key: &str| block.values.get(key).map_or("", |value| value.trim()).to_string();
        let (id, line) = (text("Id"), block.line);
        for (key, value) in [("Id", &id), ("ActiveState", &text("ActiveState"))] {
            if value.is_empty() {
                bail!("the unit at line {line} has no {key}; add `-p {key}` to `systemctl show`");
            }
        }
        let restarts = text("NRestarts");
        let restarts = match restarts.as_str() {
            "" => 0,
            count => {
                count.parse().with_context(|| format!("NRestarts of {id} is no number: {count}"))?
            }
        };
        Ok(Some(SystemdUnit {
            load_state: text("LoadState"),
            load_error: sentence(&text("LoadError")),
            active_state: text("ActiveState"),
            sub_state: text("SubState"),
            result: text("Result"),
            kind: text("Type"),
            status_text: text("StatusText"),
            exit_status: text("ExecMainStatus"),
            restarts,
            file_state: text("UnitFileState"),
            since: time(&text("StateChangeTimestamp")),
            id,
        }))
    }
}

/// Returns the sentence of a `LoadError`, which follows the name of the error.
fn sentence(error: &str) -> String {
    let sentence = error.split_once(' ').map_or(error, |(_, sentence)| sentence);
    sentence.trim_matches('"').to_string()
}

/// Reads `@1764245000` or `Thu 2025-11-27 12:03:20 UTC`. A time of another zone is not known: the
/// abbreviation of a zone does not say which one it is.
fn time(text: &str) -> Option<Timestamp> {
    let at = match text.strip_prefix('@') {
        Some(seconds) => Timestamp::from_second(seconds.parse().ok()?).ok()?,
        None => {
            let (_, moment) = text.strip_suffix(" UTC")?.split_once(' ')?;
            let moment = DateTime::strptime("%Y-%m-%d %H:%M:%S", moment).ok()?;
            TimeZone::UTC.to_timestamp(moment).ok()?
        }
    };
    (0 < at.as_second()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_names_its_line_and_what_to_do() {
        for (text, expected) in [
            ("Id=a.service\nwhat\n", "line 2 is not KEY=VALUE"),
            ("Id=a.service\nActiveState=active\nId=b.service", "line 3 gives Id"),
            ("\n\nActiveState=active\n", "the unit at line 3 has no Id; add `-p Id`"),
            ("Id=a.service\n", "has no ActiveState"),
            ("Id=a\nActiveState=active\nNRestarts=many\n", "NRestarts of a is no number: many"),
        ] {
            let error = read(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(read("").expect("no units"), []);
        assert_eq!(read("\n \n").expect("no units"), []);
    }

    #[test]
    fn a_time_is_read_in_two_forms_and_no_zone_is_guessed() {
        let of = |text| time(text).map(Timestamp::as_second);
        assert_eq!(of("@1764245000"), Some(1_764_245_000));
        assert_eq!(of("Thu 2025-11-27 12:03:20 UTC"), Some(1_764_245_000));
        for unknown in ["", "n/a", "0", "@0", "@-5", "Thu 2025-11-27 12:03:20 CET", "@x"] {
            assert_eq!(of(unknown), None, "{unknown}");
        }
    }
}
