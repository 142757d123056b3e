//! The status that an operation gives its application, and its next step.

use serde::{Deserialize, Serialize};

use crate::domain::level::Level;
use crate::domain::model::name::{OperationId, UnitName};
use crate::domain::model::operation::{Kind, Operation, Reason, State};
use crate::domain::model::time::Timestamp;

/// The status that the last operation gives its application. Part of the head.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationStatus {
    /// The operation.
    pub id: OperationId,
    /// The level of the application.
    pub level: Level,
    /// One line for a person.
    pub message: Box<str>,
    /// Machine-readable cause.
    pub reason: Box<str>,
    /// The action that a person must take.
    pub action: Box<str>,
    /// When the level began.
    pub since: Timestamp,
}

/// Precedence of a success: it contributes only if nothing else does.
pub(in crate::domain) const SUCCESS_PRECEDENCE: i32 = i32::MIN;

impl Kind {
    /// Returns the words before the target: of the title, of the work in progress, and of the work
    /// that is done.
    fn words(self) -> [&'static str; 3] {
        match self {
            Kind::Upgrade => ["upgrade to", "upgrading to", "upgraded to"],
            Kind::Rollback => ["rollback to", "rolling back to", "rolled back to"],
            Kind::Install => ["installation of", "installing", "installed"],
            Kind::Configure => ["configuration", "configuring", "configured"],
            Kind::Other => ["work towards", "working towards", "done:"],
        }
    }
}

impl Operation {
    /// Returns the level that the operation gives its application; `None` if it contributes
    /// nothing.
    pub fn level(&self) -> Option<Level> {
        Some(match self.state {
            State::Blocked => Level::Blocked,
            State::Failed => Level::Error,
            State::Abandoned if self.reason == Reason::Unrecoverable => Level::Error,
            State::Succeeded => Level::Active,
            State::Superseded | State::Abandoned => return None,
            _ if self.deadline_exceeded => Level::Error,
            State::Cancelling => Level::Waiting,
            _ if self.neglected => Level::Waiting,
            State::RetryWait => match self.reason {
                Reason::Failed(class) => class.level_at_once().unwrap_or(Level::Maintenance),
                _ => Level::Maintenance,
            },
            _ => Level::Maintenance,
        })
    }

    /// Returns the status that the operation gives its application.
    pub fn status(&self, id: &OperationId, now: Timestamp) -> Option<OperationStatus> {
        let reason = match self.deadline_exceeded && self.is_open() {
            true => "OperationDeadlineExceeded".to_string(),
            // The name of the state in CamelCase.
            false => format!("Operation{:?}", self.state),
        };
        Some(OperationStatus {
            id: id.clone(),
            level: self.level()?,
            message: self.message().into(),
            reason: reason.into(),
            action: self.action(id).into(),
            since: now,
        })
    }

    /// Returns the title, such as `upgrade to v2`.
    pub fn title(&self) -> String {
        let [title, ..] = self.kind.words();
        format!("{title} {}", self.target_version)
    }

    /// Returns the message, one line for a person.
    pub(in crate::domain) fn message(&self) -> String {
        let (title, at) = (self.title(), self.came_to(" at ", ""));
        let ([_, doing, has_done], target) = (self.kind.words(), &self.target_version);
        let late = if self.deadline_exceeded { ", past its deadline" } else { "" };
        let claimed = match self.neglected {
            true => "no worker has acquired it",
            false if self.state == State::Ready => "begins when a worker acquires it",
            false => "resumes when a worker returns",
        };
        match self.state {
            State::Ready => format!("{title} is recorded, {claimed}{late}"),
            State::Running => format!("{doing} {target}{}{late}", self.came_to(" (", ")")),
            State::Verifying => format!("{title}: checking its progress{late}"),
            State::Interrupted => format!("{title} interrupted{at}, {claimed}{late}"),
            State::RetryWait if self.neglected => format!("{title}: {claimed}{late}"),
            State::RetryWait if self.attempts_failed == 0 => {
                format!("{title} is tried again: {}{late}", self.failed_with())
            }
            State::RetryWait => {
                let failures = times(self.attempts_failed, "failure");
                let (max, error) = (self.attempts_max, self.failed_with());
                format!("{title} is tried again after {failures} of {max}: {error}{late}")
            }
            State::Blocked => format!("{title} is blocked: {}", self.failed_with()),
            State::Cancelling => format!("{title} is cancelled, its holder has to stop{late}"),
            State::Succeeded => format!("{has_done} {target}"),
            State::Failed => format!("{title} failed{at}: {}", self.failed_with()),
            State::Superseded => format!("{title} is superseded: {}", self.note),
            State::Abandoned => format!("{title} is given up: {}", self.failed_with()),
        }
    }

    /// Returns the progress between two texts; empty if none was reported.
    fn came_to(&self, before: &str, after: &str) -> String {
        match &*self.progress {
            "" => String::new(),
            progress => format!("{before}{progress}{after}"),
        }
    }

    /// Returns why the operation stopped, with the message of the last error if that is the cause.
    fn failed_with(&self) -> String {
        let error = self.last_error.as_ref();
        let error = error.map_or("", |e| if e.message.is_empty() { &e.code } else { &e.message });
        let why = match self.reason {
            Reason::Failed(_) => "",
            Reason::RetriesExhausted => &times(self.attempts_failed, "failure"),
            Reason::InterruptionsExhausted => &times(self.interruptions, "interruption"),
            Reason::DeadlineExceeded => "not done before its deadline",
            Reason::UnknownOutcome => return "it is unknown whether it was applied".to_string(),
            Reason::UndoFailed => "it was cancelled, and could not be undone",
            Reason::PayloadChanged => {
                return "its payload is not the one that was recorded".to_string();
            }
            Reason::Unrecoverable => {
                return "its payload is missing or cannot be read".to_string();
            }
            other => return other.word().to_lowercase().replace('_', " "),
        };
        match (why, error) {
            ("", "") => self.reason.word().to_string(),
            ("", error) => error.to_string(),
            (why, "") => why.to_string(),
            (why, error) => format!("{why}, the last: {error}"),
        }
    }

    /// Returns the action that a person must take.
    fn action(&self, id: &OperationId) -> String {
        let or = "or begin another with supersede and a reason";
        match (self.state, self.reason) {
            (State::Blocked, Reason::UnknownOutcome) => {
                format!("check whether it was applied; then retry or cancel operation {id}, {or}")
            }
            (State::RetryWait, _) => match self.blocking_error() {
                Some(action) => format!("{action}; or retry or cancel operation {id}"),
                None => String::new(),
            },
            (State::Blocked, _) => {
                format!("remove the cause; then retry or cancel operation {id}, {or}")
            }
            (State::Failed, Reason::UndoFailed) => {
                format!("undo operation {id} by hand, then cancel it, {or}")
            }
            (State::Failed, _) => format!("retry or cancel operation {id}, {or}"),
            (State::Abandoned, Reason::Unrecoverable) => {
                format!("begin another operation, or cancel {id}")
            }
            _ => String::new(),
        }
    }

    /// Returns the next step as text, and its time if known.
    pub fn next_step(&self) -> (String, Option<Timestamp>) {
        let deadline = self.deadline.filter(|_| !self.deadline_exceeded);
        let lease = self.lease.as_ref().map(|lease| lease.expire_time);
        let attempt = self.attempts_failed + 1;
        let holder = self.holder().filter(|holder| !holder.is_application());
        let holder = holder.map_or("its holder", UnitName::as_str);
        match self.state {
            State::Ready | State::Interrupted if !self.deterministic && self.cut_off => {
                let words = "a worker that acquires it checks its progress, then continues";
                (words.into(), deadline)
            }
            State::Ready => ("begins when a worker acquires it".into(), deadline),
            State::Interrupted => {
                ("continues from its checkpoint when a worker acquires it".into(), deadline)
            }
            State::Running => {
                (format!("{holder} continues; interrupted if silent until then"), lease)
            }
            State::Verifying => {
                (format!("{holder} reports what it found; interrupted if silent until then"), lease)
            }
            State::RetryWait => {
                let max = self.attempts_max;
                (format!("a worker may acquire it for attempt {attempt} of {max}"), self.retry_time)
            }
            State::Cancelling => (format!("{holder} stops; given up if silent until then"), lease),
            State::Failed if self.reason == Reason::UndoFailed => {
                ("nothing, until a person cancels or supersedes it".into(), None)
            }
            State::Blocked | State::Failed => {
                ("nothing, until a person retries, cancels or supersedes it".into(), None)
            }
            State::Succeeded if !self.next_target.is_empty() => {
                let next = &self.next_target;
                (format!("{next} was requested meanwhile: a worker may begin it"), None)
            }
            State::Succeeded | State::Superseded | State::Abandoned => Default::default(),
        }
    }
}

/// Returns a count with its noun: `1 failure`, `2 failures`.
fn times(count: u32, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
