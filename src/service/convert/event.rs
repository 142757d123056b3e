//! Conversion of the history to the wire: the event, the changed values, and the actor.

use super::value::{freshness, kind, level};
use crate::domain::history::{Cause, Change, StatusEvent, Subject};
use crate::domain::level::Level;
use crate::domain::name::PartName;
use crate::proto::v1;
use crate::service::protobuf::timestamp;

/// Converts an event of the history.
pub fn event(event: &StatusEvent) -> v1::StatusEvent {
    let word = |l: Option<Level>| l.map_or(v1::Level::Unspecified, level) as i32;
    v1::StatusEvent {
        time: Some(timestamp(event.time)),
        revision: event.revision.0,
        status: event.subject.as_ref().map(subject),
        from_level: word(event.from),
        level: word(event.to),
        message: event.message.to_string(),
        reason: event.reason.to_string(),
        freshness: freshness(event.freshness) as i32,
        // The variants have the names of the wire.
        cause: format!("{:?}", event.cause),
        kind: kind_of(event) as i32,
        changes: event.changes.iter().map(change).collect(),
        actor: actor(event) as i32,
    }
}

fn subject(subject: &Subject) -> v1::StatusRef {
    v1::StatusRef {
        unit: subject.unit.to_string(),
        component: subject.component.as_str().to_string(),
        key: subject.key.as_str().to_string(),
        kind: subject.kind.map_or(v1::StatusKind::Unspecified, kind) as i32,
        target: subject.target.to_string(),
    }
}

fn change(change: &Change) -> v1::EventChange {
    v1::EventChange {
        field: change.field.to_string(),
        from: change.from.to_string(),
        to: change.to.to_string(),
    }
}

fn kind_of(event: &StatusEvent) -> v1::EventKind {
    let subject = event.subject.as_ref();
    let is_status = subject.is_some_and(|s| s.kind.is_some() || s.unit.is_application());
    match event.cause {
        Cause::Operation => v1::EventKind::Operation,
        Cause::ErrorReported | Cause::FaultPersists | Cause::ErrorResolved => v1::EventKind::Error,
        Cause::HoldRetried | Cause::HoldSkipped => v1::EventKind::Hold,
        Cause::MarkSet | Cause::MarkBegan | Cause::MarkEnded => v1::EventKind::Mark,
        Cause::LeaderClaimed
        | Cause::LeaderTransferred
        | Cause::LeaderReleased
        | Cause::LeaderExpired => v1::EventKind::Leader,
        Cause::Doubted if event.is_about_leader() => v1::EventKind::Leader,
        Cause::Configured if subject.is_none() => v1::EventKind::Configuration,
        _ if subject.is_none() => v1::EventKind::Application,
        // The level of a fault that ends together with its unit is a status event.
        _ if is_status || subject.is_some_and(|s| s.component != PartName::default()) => {
            v1::EventKind::Status
        }
        _ => v1::EventKind::Unit,
    }
}

fn actor(event: &StatusEvent) -> v1::EventActor {
    match event.cause {
        // Without units for long: a deletion by a request has no message.
        Cause::Deleted if !event.message.is_empty() => v1::EventActor::Server,
        Cause::MarkEnded if !event.changes.iter().any(|change| &*change.to == "removed") => {
            v1::EventActor::Server
        }
        Cause::Operation | Cause::UnitRemoved => v1::EventActor::Unspecified,
        Cause::Reported
        | Cause::Replaced
        | Cause::Cleared
        | Cause::UnitReturned
        | Cause::UnitReplaced
        | Cause::UnitStopping
        | Cause::ErrorReported
        | Cause::ErrorResolved
        | Cause::LeaderClaimed
        | Cause::LeaderReleased => v1::EventActor::Unit,
        Cause::LeaderSet | Cause::LeaderCleared => v1::EventActor::Leader,
        Cause::Configured
        | Cause::Deleted
        | Cause::HoldRetried
        | Cause::HoldSkipped
        | Cause::MarkSet
        | Cause::MarkEnded
        | Cause::LeaderTransferred => v1::EventActor::Operator,
        Cause::Expired
        | Cause::Ended
        | Cause::UnitLost
        | Cause::Derived
        | Cause::Doubted
        | Cause::HandedOver
        | Cause::FlappingBegan
        | Cause::FlappingEnded
        | Cause::FaultPersists
        | Cause::LeaderExpired
        | Cause::MarkBegan
        | Cause::LeaderEnded => v1::EventActor::Server,
    }
}
