//! The text of a message: at most three lines that a person can read on a phone.

use super::{Message, line};
use crate::cli::command::notify::engine::Delivery;
use crate::cli::command::notify::engine::pair::{ChangeKind, Ending, Kind};
use crate::cli::{level, span};
use crate::domain::time::Timestamp;

/// Characters of a line.
const LINE_MAX: usize = 300;
/// Applications that the third line names.
const NAMED_MAX: usize = 3;

/// Returns the text: what is wrong, what to do, what it frees.
pub fn text(message: &Message, delivery: &Delivery, now: Timestamp) -> String {
    let mut lines = vec![line(&first(message, delivery, now), LINE_MAX)];
    if !matches!(delivery.kind, Kind::Resolved(_)) {
        lines.extend(next_step(message));
        lines.extend(frees(message, delivery));
    }
    lines.join("\n")
}

/// Formats `prod/db is blocked (3h): db/0: no backup target`.
fn first(message: &Message, delivery: &Delivery, now: Timestamp) -> String {
    let Delivery { subject, told, .. } = delivery;
    let age = |since: Timestamp| span::short(now.since(since));
    let said = match (what(message).as_str(), message.message.as_str()) {
        ("", "") => String::new(),
        ("", said) => format!(": {said}"),
        (what, "") => format!(": {what}"),
        (what, said) => format!(": {what}: {said}"),
    };
    let was = level::word(told.face.level.into());
    let before = format!("it was {was} for {}", age(told.since));
    let level = if message.level.is_empty() { was } else { &message.level };
    match delivery.kind {
        Kind::Problem | Kind::Repeat => {
            let since = delivery.fact.as_ref().map_or(told.since, |fact| fact.since);
            format!("{subject} is {level} ({}){said}", age(since))
        }
        Kind::Changed(ChangeKind::AcknowledgementExpired) => {
            format!("{subject} is still {level}, and its acknowledgement has ended{said}")
        }
        Kind::Changed(ChangeKind::State) if level == was => format!("{subject} is {level}{said}"),
        Kind::Changed(ChangeKind::State) => format!("{subject} is {level}, was {was}{said}"),
        // It is back already.
        Kind::Resolved(Ending::Recovered) if level == was => {
            format!("{subject} had recovered; {before}")
        }
        Kind::Resolved(Ending::Recovered) => format!("{subject} is {level}; {before}"),
        Kind::Resolved(Ending::Planned) => {
            format!("{subject} is covered by planned work; {before}")
        }
        Kind::Resolved(Ending::Deleted) => format!("{subject} is deleted; {before}"),
        Kind::Resolved(Ending::RouteGone) => {
            format!("{subject} is no longer followed by the route {}; {before}", message.route)
        }
    }
}

/// Names the winner: `db/0 disk`.
fn what(message: &Message) -> String {
    let winner = &message.winner;
    let parts = [&winner.unit, &winner.component, &winner.key, &winner.target];
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.map(String::as_str).collect::<Vec<_>>().join(" ")
}

/// The action, or else the first cause.
fn next_step(message: &Message) -> Option<String> {
    if !message.action.is_empty() {
        return Some(line(&format!("-> {}", message.action), LINE_MAX));
    }
    message.because.first().map(|cause| line(&format!("because {cause}"), LINE_MAX))
}

/// Formats `frees 9: web, shop, cart, +6`.
fn frees(message: &Message, delivery: &Delivery) -> Option<String> {
    let names = delivery.frees.iter().take(NAMED_MAX).map(|freed| {
        match freed.namespace == delivery.subject.namespace {
            true => freed.application.to_string(),
            false => freed.to_string(),
        }
    });
    let names = names.collect::<Vec<_>>().join(", ");
    let count = message.frees_count;
    match count.checked_sub(NAMED_MAX).filter(|rest| 0 < *rest) {
        _ if count == 0 => None,
        Some(rest) => Some(line(&format!("frees {count}: {names}, +{rest}"), LINE_MAX)),
        None => Some(line(&format!("frees {count}: {names}"), LINE_MAX)),
    }
}
