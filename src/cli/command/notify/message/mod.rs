//! A message to a receiver: what is wrong, why, what to do, and that it is over.

pub mod own;
mod text;
mod variables;

#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::cli::command::notify::engine::Delivery;
use crate::cli::command::notify::engine::fact::{AppRef, Fact};
use crate::cli::command::notify::engine::pair::{ChangeKind, Ending, Kind};
use crate::cli::command::notify::engine::route::Route;
use crate::cli::command::notify::hash::hash;
use crate::cli::level;
use crate::cli::render::{causes, mark, one_line};
use crate::domain::time::Timestamp;
use crate::proto::v1::{ExplainApplicationResponse, StatusRef};

/// Characters of a text in a message. A body of a webhook should have less than 20 KB.
const TEXT_MAX: usize = 1_000;
/// Characters of a line of a list.
const LINE_MAX: usize = 240;
/// Lines of a list.
const LINES_MAX: usize = 8;

/// A message, as receivers get it in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The same for each repeat of the message.
    pub id: String,
    /// `problem`, `changed`, `resolved` or `test`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The route.
    pub route: String,
    /// Namespace of the application.
    pub namespace: String,
    /// The application.
    pub application: String,
    /// Its revision.
    pub revision: u64,
    /// Its level; empty if it is deleted.
    pub level: String,
    /// The level that was sent before; empty in a `problem`.
    pub level_before: String,
    /// Start of the level; of a `resolved`, start of the problem.
    pub since: String,
    /// When the problem was sent first.
    pub opened: String,
    /// The message of the winner.
    pub message: String,
    /// Its reason.
    pub reason: String,
    /// What a person can do.
    pub action: String,
    /// The rule that chose the winner.
    pub rule: String,
    /// The winner.
    pub winner: Winner,
    /// The chain to the first causes.
    pub because: Vec<String>,
    /// Number of applications that get well with this cause alone.
    pub frees_count: usize,
    /// The first of these.
    pub frees: Vec<String>,
    /// The marks of the application.
    pub marks: Vec<String>,
    /// Whether planned work covers the winner.
    pub planned: bool,
    /// Whether the winner is acknowledged.
    pub acknowledged: bool,
    /// Number of revisions since the last message that this one stands for.
    pub coalesced_count: u64,
    /// Why this is sent: `acknowledgement ended`, `planned work`, `deleted`; empty if by itself.
    pub cause: &'static str,
    /// The page of the application; empty if the file has no page.
    pub url: String,
    /// At most three lines for a person.
    pub text: String,
}

/// The winning contribution.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Winner {
    /// Its unit; empty: the application itself.
    pub unit: String,
    /// Its component.
    pub component: String,
    /// Its key.
    pub key: String,
    /// The object of a failed call.
    pub target: String,
}

impl Winner {
    fn of(winner: &StatusRef) -> Winner {
        let StatusRef { unit, component, key, target, .. } = winner;
        let [unit, component, key, target] =
            [unit, component, key, target].map(|text| one_line(text));
        Winner { unit, component, key, target }
    }
}

/// Returns the message of a delivery. `explained` is what the server says of the reason, if it was
/// asked.
pub fn message(
    delivery: &Delivery,
    route: &Route,
    explained: Option<&ExplainApplicationResponse>,
    page: Option<&str>,
    now: Timestamp,
) -> Message {
    let Delivery { subject, kind, told, .. } = delivery;
    let fact = delivery.fact.as_deref();
    // A repeat is the message that was sent, with the newest texts.
    let newest = fact.filter(|_| *kind != Kind::Repeat);
    let told_level = level::word(told.face.level.into());
    // A problem that is over when it is sent again says what it said at first.
    let at_first = if *kind == Kind::Problem { told_level } else { "" };
    let level = fact.map_or(at_first, |fact| level::word(fact.level.into()));
    let before = if *kind == Kind::Problem { "" } else { told_level };
    let since = match kind {
        Kind::Resolved(_) => told.since,
        _ => fact.map_or(told.since, |fact| fact.since),
    };
    let mut message = Message {
        id: id(delivery, route),
        kind: kind.word(),
        route: route.name.clone(),
        namespace: subject.namespace.to_string(),
        application: subject.application.to_string(),
        revision: newest.map_or(told.revision, |fact| fact.revision),
        level: level.to_string(),
        level_before: before.to_string(),
        since: since.to_utc(),
        opened: told.opened.to_utc(),
        message: String::new(),
        reason: String::new(),
        action: String::new(),
        rule: String::new(),
        winner: Winner::default(),
        because: Vec::new(),
        frees_count: delivery.frees.len(),
        frees: delivery.frees.iter().take(LINES_MAX).map(AppRef::to_string).collect(),
        marks: Vec::new(),
        planned: fact.is_some_and(|fact| fact.planned),
        acknowledged: fact.is_some_and(|fact| fact.acknowledged),
        coalesced_count: 0,
        cause: kind.cause(),
        url: page.map(|page| url(page, subject)).unwrap_or_default(),
        text: String::new(),
    };
    match fact {
        Some(fact) => message.say(fact),
        None => message.message = line(&told.message, TEXT_MAX),
    }
    if *kind != Kind::Problem {
        message.coalesced_count = message.revision.saturating_sub(told.revision + 1);
    }
    if let Some(explained) = explained {
        message.explain(explained);
    }
    message.text = text::text(&message, delivery, now);
    message
}

impl Message {
    fn say(&mut self, fact: &Fact) {
        self.message = line(&fact.message, TEXT_MAX);
        self.reason = line(&fact.reason, LINE_MAX);
        self.action = line(&fact.action, TEXT_MAX);
        self.rule = line(&fact.rule, LINE_MAX);
        self.winner = Winner::of(&fact.winner);
    }

    fn explain(&mut self, explained: &ExplainApplicationResponse) {
        let now = jiff::Timestamp::now();
        let chain = causes::plain(explained, now, LINES_MAX);
        self.because = chain.iter().map(|it| line(it, LINE_MAX)).collect();
        let marks = mark::lines(&explained.marks, now).into_iter().take(LINES_MAX);
        self.marks = marks.map(|(kind, said)| line(&format!("{kind} {said}"), LINE_MAX)).collect();
    }
}

impl Kind {
    /// Returns the type of the message.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Problem | Kind::Repeat => "problem",
            Kind::Changed(_) => "changed",
            Kind::Resolved(_) => "resolved",
        }
    }

    fn cause(self) -> &'static str {
        match self {
            Kind::Changed(ChangeKind::AcknowledgementExpired) => "acknowledgement ended",
            Kind::Resolved(Ending::Planned) => "planned work",
            Kind::Resolved(Ending::Deleted) => "deleted",
            Kind::Resolved(Ending::RouteGone) => "the route is gone",
            Kind::Problem | Kind::Repeat | Kind::Changed(ChangeKind::State) => "",
            Kind::Resolved(Ending::Recovered) => "",
        }
    }
}

/// Returns the id of a message. One problem has one `problem` and one `resolved`, whatever the
/// revision at which they are sent again.
fn id(delivery: &Delivery, route: &Route) -> String {
    let Delivery { subject, kind, told, .. } = delivery;
    let revision = match kind {
        Kind::Changed(_) => delivery.fact.as_ref().map_or(0, |fact| fact.revision),
        _ => 0,
    };
    let opened = told.opened.millis();
    let number = revision.to_string();
    let names = [&route.name, &route.to, &*subject.namespace, &*subject.application];
    let parts = [names[0], names[1], names[2], names[3], kind.word(), &number];
    format!("bw-{:016x}-{opened:x}", hash(&parts))
}

/// Returns the address of the page of an application.
fn url(page: &str, subject: &AppRef) -> String {
    // Names have no character that means something in a query.
    format!("{page}/?why={}/{}", subject.namespace, subject.application)
}

/// Puts a text from outside on one line of at most so many characters.
pub fn line(text: &str, length_max: usize) -> String {
    let text = one_line(text);
    match text.char_indices().nth(length_max) {
        None => text,
        Some((end, _)) => format!("{}…", text[..end].trim_end()),
    }
}
