//! The content of a report, and advice for its author.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::domain::level::Level;
use crate::domain::model::need::{Need, Needs};

/// The content of a report. Two reports are equal if every field is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "Stored")]
pub struct Report {
    /// The level.
    pub level: Level,
    /// One line for a person.
    pub message: Box<str>,
    /// How long the report is valid without a repeat.
    pub ttl: Option<Duration>,
    /// The details, if one of them is set: see [`Report::with`].
    pub details: Option<Box<Details>>,
}

/// What few reports say. A server keeps each status in memory, so these fields take a pointer
/// there, and not their own 96 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Details {
    /// The message for narrow places.
    pub short_message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// The check that was made.
    pub check: Box<str>,
    /// The action that a person must take.
    pub action: Box<str>,
    /// Higher wins among equal levels.
    pub priority: i32,
    /// Higher wins over any level.
    pub precedence: i32,
    /// Labels that the reporter gave.
    pub labels: BTreeMap<Box<str>, Box<str>>,
    /// How long the status lasts without a repeat.
    pub end_after: Option<Duration>,
    /// What must be so before the status can get better.
    pub needs: Needs,
    /// Whether the level may have begun earlier than the server knows.
    pub since_unknown: bool,
}

static NO_DETAILS: LazyLock<Details> = LazyLock::new(Details::default);

impl Report {
    /// Returns the report with these details, and without those that it had.
    #[must_use]
    pub fn with(self, details: Details) -> Report {
        let details = (!details.is_empty()).then(|| Box::new(details));
        Report { details, ..self }
    }

    /// Returns the details; they are empty if none were given.
    pub fn details(&self) -> &Details {
        self.details.as_deref().unwrap_or(&NO_DETAILS)
    }

    /// Returns the machine-readable cause, if one was given.
    pub(in crate::domain) fn reason(&self) -> Option<&str> {
        let reason = &self.details.as_ref()?.reason;
        (!reason.is_empty()).then_some(reason)
    }

    /// Returns how long the status lasts without a repeat, if it ends.
    pub(in crate::domain) fn end_after(&self) -> Option<Duration> {
        self.details.as_ref()?.end_after
    }

    /// Returns what must be so before the status can get better.
    pub fn needs(&self) -> &Needs {
        &self.details().needs
    }

    /// Returns the bytes of the texts.
    pub(in crate::domain) fn size(&self) -> u64 {
        let Some(details) = &self.details else { return self.message.len() as u64 };
        let Details { short_message, reason, check, action, labels, needs, .. } = &**details;
        let texts = [&self.message, short_message, reason, check, action];
        let labels = labels.iter().map(|(key, value)| key.len() + value.len());
        let labels = labels.chain([needs.size()]);
        texts.into_iter().map(|text| text.len()).chain(labels).sum::<usize>() as u64
    }
}

impl Details {
    /// Returns whether nothing is set. It compares no texts: a comparison of two empty ones takes
    /// over 100 ns with AVX-512. glibc then loads nothing from their address, which is no memory,
    /// and the processor handles the fault that it suppresses.
    fn is_empty(&self) -> bool {
        let Details { short_message, reason, check, action, priority, precedence, .. } = self;
        let Details { labels, end_after, needs, since_unknown, .. } = self;
        let texts = [short_message, reason, check, action];
        texts.iter().all(|text| text.is_empty())
            && (*priority, *precedence) == (0, 0)
            && labels.is_empty()
            && end_after.is_none()
            && needs.is_empty()
            && !since_unknown
    }
}

/// The stored form: all fields in one record.
#[derive(Deserialize)]
#[serde(rename = "Report")]
struct Stored {
    level: Level,
    message: Box<str>,
    short_message: Box<str>,
    reason: Box<str>,
    check: Box<str>,
    action: Box<str>,
    priority: i32,
    precedence: i32,
    labels: BTreeMap<Box<str>, Box<str>>,
    ttl: Option<Duration>,
    #[serde(default)]
    end_after: Option<Duration>,
    #[serde(default)]
    needs: Needs,
    #[serde(default)]
    since_unknown: bool,
}

impl From<Stored> for Report {
    fn from(stored: Stored) -> Report {
        let Stored { level, message, ttl, short_message, reason, check, action, .. } = stored;
        let Stored { priority, precedence, labels, end_after, needs, since_unknown, .. } = stored;
        let details = Details {
            short_message,
            reason,
            check,
            action,
            priority,
            precedence,
            labels,
            end_after,
            needs,
            since_unknown,
        };
        Report { level, message, ttl, details: None }.with(details)
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let details = self.details();
        // Few statuses end, have needs or an unknown start, and the stored form of the others is
        // that of earlier versions. Fields are stored by their place, so needs come after an end
        // that may be none, and the flag of the start after needs that may be empty.
        let has_flag = details.since_unknown;
        let has_needs = !details.needs.is_empty() || has_flag;
        let has_end = details.end_after.is_some() || has_needs;
        let fields = 10 + [has_end, has_needs, has_flag].map(usize::from).iter().sum::<usize>();
        let mut record = serializer.serialize_struct("Report", fields)?;
        record.serialize_field("level", &self.level)?;
        record.serialize_field("message", &self.message)?;
        record.serialize_field("short_message", &details.short_message)?;
        record.serialize_field("reason", &details.reason)?;
        record.serialize_field("check", &details.check)?;
        record.serialize_field("action", &details.action)?;
        record.serialize_field("priority", &details.priority)?;
        record.serialize_field("precedence", &details.precedence)?;
        record.serialize_field("labels", &details.labels)?;
        record.serialize_field("ttl", &self.ttl)?;
        if has_end {
            record.serialize_field("end_after", &details.end_after)?;
        }
        if has_needs {
            record.serialize_field("needs", &details.needs)?;
        }
        if has_flag {
            record.serialize_field("since_unknown", &details.since_unknown)?;
        }
        record.end()
    }
}

/// Returns possible improvements of a report, for the author of the worker.
pub fn advice(report: &Report) -> Vec<String> {
    let mut advice = Vec::new();
    let blocked = report.level == Level::Blocked;
    let asks = !report.details().action.is_empty();
    let (needs, mut apps) = (report.needs(), report.needs().iter().map(Need::app));
    if blocked && !asks && !needs.is_empty() && apps.all(|app| app.is_some()) {
        advice.push(
            "a status that needs other applications only is `waiting`: another application must \
             act, and no person"
                .to_string(),
        );
    } else if blocked && !asks {
        advice.push(
            "blocked means that a person must act: say what they must do in `action`".to_string(),
        );
    }
    if report.level == Level::Waiting && asks && needs.is_empty() {
        advice.push(
            "a status whose `action` a person must take is `blocked`; `waiting` ends by itself"
                .to_string(),
        );
    }
    if matches!(report.level, Level::Blocked | Level::Error) && report.message.is_empty() {
        advice.push(format!(
            "a status of level {} without a message does not show what is wrong: set `message`",
            report.level.word()
        ));
    }
    let reason = &report.details().reason;
    let mut letters = reason.chars();
    let is_camel = letters.next().is_none_or(|c| c.is_ascii_uppercase())
        && letters.all(|c| c.is_ascii_alphanumeric());
    if !is_camel {
        advice.push(format!("`reason` is for programs: write {reason:?} in CamelCase"));
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_kept_if_one_of_them_is_set() {
        let text = || Box::<str>::from("x");
        let some = [
            Details { short_message: text(), ..Details::default() },
            Details { reason: text(), ..Details::default() },
            Details { check: text(), ..Details::default() },
            Details { action: text(), ..Details::default() },
            Details { priority: -1, ..Details::default() },
            Details { precedence: 1, ..Details::default() },
            Details { labels: BTreeMap::from([(text(), Box::default())]), ..Details::default() },
            Details { end_after: Some(Duration::from_secs(1)), ..Details::default() },
            Details { needs: Needs::from_iter([Need::Outside(text())]), ..Details::default() },
            Details { since_unknown: true, ..Details::default() },
        ];
        for details in some {
            let report = Report::default().with(details.clone());
            assert_eq!(report.details(), &details);
            assert!(report.details.is_some(), "{details:?}");
        }
        assert_eq!(Report::default().with(Details::default()), Report::default());
    }

    #[test]
    fn an_empty_reason_is_none() {
        let with = |reason: &str| {
            let details = Details { reason: reason.into(), priority: 1, ..Details::default() };
            Report::default().with(details)
        };
        assert_eq!(Report::default().reason(), None);
        assert_eq!(with("").reason(), None);
        assert_eq!(with("DiskFull").reason(), Some("DiskFull"));
    }
}
