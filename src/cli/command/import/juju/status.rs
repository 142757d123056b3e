//! One status of a document: a word of Juju, a message, and a time.

use jiff::Timestamp;
use jiff::fmt::strtime;

use crate::cli::command::import::juju::node::{DocumentError, Node};

/// A value, or the reason why Juju could not read it.
pub type Reading<T> = Result<T, String>;

/// One status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Juju's word for the status.
    pub current: String,
    /// The text for a person.
    pub message: String,
    /// The time of the last change.
    pub since: Option<Timestamp>,
}

impl Status {
    /// Returns the number of facts in it.
    pub fn fact_count(&self) -> usize {
        1 + usize::from(!self.message.is_empty()) + usize::from(self.since.is_some())
    }
}

/// Reads a status; `None` if there is none.
pub fn read_status(node: &Node<'_>, key: &str) -> Result<Option<Reading<Status>>, DocumentError> {
    let Some(status) = node.get(key)? else { return Ok(None) };
    if let Some(text) = status_error(&status)? {
        return Ok(Some(Err(text)));
    }
    let current = status.text("current")?;
    // The leader of the application never set a status.
    if current.is_empty() || current == "unset" {
        return Ok(None);
    }
    Ok(Some(Ok(Status {
        current: current.to_string(),
        message: status.text("message")?.to_string(),
        since: read_time(&status, "since")?,
    })))
}

/// Reads the meter of a unit, whose color is a word of its own.
pub fn read_meter(node: &Node<'_>) -> Result<Option<Reading<Status>>, DocumentError> {
    let Some(meter) = node.get("meter-status")? else { return Ok(None) };
    reading(&meter, || {
        let current = meter.text("color")?.to_string();
        Ok(Status { current, message: meter.text("message")?.to_string(), since: None })
    })
    .map(Some)
}

/// Reads whether something is being removed: in its own field, or beside the status of its agent.
pub fn read_life(node: &Node<'_>) -> Result<Option<String>, DocumentError> {
    let beside = match node.get("juju-status")? {
        Some(agent) => agent.unusual_text("life", "alive")?,
        None => None,
    };
    let own = node.unusual_text("life", "alive")?;
    Ok(own.or(beside).map(str::to_string))
}

/// Reads an entry, unless Juju could not.
pub fn reading<T>(
    node: &Node<'_>,
    read: impl FnOnce() -> Result<T, DocumentError>,
) -> Result<Reading<T>, DocumentError> {
    match status_error(node)? {
        Some(text) => Ok(Err(text)),
        None => read().map(Ok),
    }
}

fn status_error(node: &Node<'_>) -> Result<Option<String>, DocumentError> {
    let text = node.text("status-error")?;
    Ok((!text.is_empty()).then(|| text.to_string()))
}

fn read_time(node: &Node<'_>, key: &str) -> Result<Option<Timestamp>, DocumentError> {
    let text = node.text(key)?;
    if text.is_empty() {
        return Ok(None);
    }
    parse_time(text)
        .map(Some)
        .ok_or_else(|| DocumentError::BadTime { place: node.place_of(key), text: text.to_string() })
}

/// Parses `24 Feb 2025 12:02:57+13:00`, the same with `Z` (`juju status --utc`), or RFC 3339.
pub fn parse_time(text: &str) -> Option<Timestamp> {
    let with_zone = |local| format!("{local}+00:00");
    let of_juju = text.strip_suffix('Z').map_or_else(|| text.to_string(), with_zone);
    let parts = || strtime::parse("%d %b %Y %H:%M:%S%:z", of_juju).ok();
    text.parse().ok().or_else(|| parts()?.to_timestamp().ok())
}
