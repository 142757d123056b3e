//! The content of a report, and advice for its author.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::level::Level;

/// The content of a report. Two reports are equal if every field is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// The level.
    pub level: Level,
    /// One line for a person.
    pub message: Box<str>,
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
    /// How long the report is valid without a repeat.
    pub ttl: Option<Duration>,
}

/// Returns possible improvements of a report, for the author of the worker.
pub fn advice(report: &Report) -> Vec<String> {
    let mut advice = Vec::new();
    let blocked = report.level == Level::Blocked;
    if blocked && report.action.is_empty() {
        advice.push(
            "blocked means that a person must act: say what they must do in `action`".to_string(),
        );
    }
    if matches!(report.level, Level::Blocked | Level::Error) && report.message.is_empty() {
        advice.push(format!(
            "a status of level {} without a message does not show what is wrong: set `message`",
            report.level.word()
        ));
    }
    let mut letters = report.reason.chars();
    let is_camel = letters.next().is_none_or(|c| c.is_ascii_uppercase())
        && letters.all(|c| c.is_ascii_alphanumeric());
    if !is_camel {
        advice.push(format!("`reason` is for programs: write {:?} in CamelCase", report.reason));
    }
    advice
}

impl Report {
    /// Returns the bytes of the texts.
    pub(in crate::domain) fn size(&self) -> u64 {
        let texts = [&self.message, &self.short_message, &self.reason, &self.check, &self.action];
        let labels = self.labels.iter().map(|(key, value)| key.len() + value.len());
        texts.into_iter().map(|text| text.len()).chain(labels).sum::<usize>() as u64
    }
}
