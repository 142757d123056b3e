//! Conversion of marks.

use std::sync::Arc;

use super::fields::{Fields, Within};
use super::identity::request_id;
use super::value::level;
use crate::domain::command::{Command, Request};
use crate::domain::limits::{
    MARK_ID_BYTES_MAX, MARK_LENGTH_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX,
};
use crate::domain::mark::{Cover, Mark, MarkId, MarkKind, NewMark, Until};
use crate::domain::name::AppName;
use crate::domain::request::RequestId;
use crate::proto::v1;
use crate::service::call::Access;
use crate::service::code::{ApiError, Reason};
use crate::service::protobuf::timestamp;

/// The shortest length of a mark.
const LENGTH_MIN: std::time::Duration = std::time::Duration::from_secs(1);

/// Reads a `SetMark`. `author` is the principal of the caller, if it is known.
pub fn set_mark(
    fields: &mut Fields,
    wire: v1::SetMarkRequest,
    author: Option<&str>,
) -> Option<Request> {
    let id = request_id(fields, &wire);
    let during = fields.duration("during", wire.during, LENGTH_MIN, MARK_LENGTH_MAX);
    let Some(mark) = wire.mark else { return fields.missing("mark", "is required") };
    let given = (mark.end_time.is_some(), wire.during.is_some());
    let mark = fields.inside(Within::Message("mark"), |fields| {
        let until = match (fields.moment("end_time", mark.end_time), during, given) {
            (_, _, (true, true)) => {
                fields.wrong("end_time", "is given beside during; give one of them", "both")
            }
            (_, _, (false, false)) => {
                fields.missing("end_time", "is required: every mark has an end; or give during")
            }
            (Some(end), ..) => Some(Until::Time(end)),
            (_, Some(length), _) => Some(Until::After(length)),
            (None, None, _) => None,
        };
        let id = new_mark_id(fields, &mark.mark_id, id.as_ref());
        new_mark(fields, id, mark, until, author)
    })?;
    Some(Request { id, command: Command::SetMark(Box::new(mark)) })
}

fn new_mark(
    fields: &mut Fields,
    id: MarkId,
    wire: v1::Mark,
    until: Option<Until>,
    author: Option<&str>,
) -> Option<NewMark> {
    let cover = Cover {
        unit: fields.unit_or_application("unit", &wire.unit),
        component: wire.component.map(|component| fields.part("component", &component)),
        key: wire.key.map(|key| fields.part("key", &key)),
    };
    if cover.is_all() && cover.component.is_some() {
        fields.missing::<()>("unit", "is required with a component: it is one of a unit");
    }
    if cover.component.is_none() && cover.key.is_some() {
        fields.missing::<()>("component", "is required with a key: it is one of a component");
    }
    if wire.reason.is_empty() {
        fields.missing::<()>("reason", "is required: others read it instead of the problem");
    }
    let reason = fields.text("reason", &wire.reason, MESSAGE_BYTES_MAX);
    let author = author.map(str::to_string).unwrap_or(wire.author);
    let author = fields.owned_text("author", author, NAME_BYTES_MAX);
    let start = fields.moment("start_time", wire.start_time);
    let kind = match fields.choice("kind", wire.kind, "; give acknowledged or planned")? {
        v1::MarkKind::Acknowledged => MarkKind::Acknowledged,
        v1::MarkKind::Planned => MarkKind::Planned,
        v1::MarkKind::Unspecified => {
            return fields.missing("kind", "is required: acknowledged or planned");
        }
    };
    let ends_when_well = wire.ends_when_well;
    Some(NewMark { id, kind, cover, start, until: until?, reason, author, ends_when_well })
}

/// Reads the id of a new mark. One without an id gets one that is short enough to be typed; a
/// repeat of the request gets the same.
fn new_mark_id(fields: &mut Fields, id: &str, request: Option<&RequestId>) -> MarkId {
    if !id.is_empty() {
        return mark_id(fields, id);
    }
    let digest = request.and_then(|request| request.fingerprint.as_ref()).map(|f| f.digest[0]);
    // Without randomness the id is a fixed one, which a second mark of it refuses.
    let number = digest.map_or_else(|| getrandom::u32().unwrap_or_default(), |d| d as u32);
    Arc::from(format!("{number:08x}"))
}

fn mark_id(fields: &mut Fields, id: &str) -> MarkId {
    let (bytes, max) = (id.len(), MARK_ID_BYTES_MAX);
    if max < bytes {
        let text = format!("is {bytes} bytes long; at most {max}");
        fields.note("mark_id", Reason::InvalidValue, text).with("bytes", bytes).with("max", max);
    } else if id.chars().any(char::is_control) {
        let text = "has control characters; give letters, digits and signs";
        fields.wrong::<()>("mark_id", text, id.escape_debug());
    }
    Arc::from(id)
}

/// Reads a `RemoveMark`.
pub fn remove_mark(fields: &mut Fields, wire: v1::RemoveMarkRequest) -> Option<Request> {
    let id = request_id(fields, &wire);
    if wire.mark_id.is_empty() {
        return fields.missing("mark_id", "is required; ListMarks has the ids");
    }
    let mark = mark_id(fields, &wire.mark_id);
    Some(Request { id, command: Command::RemoveMark(mark) })
}

/// The marks that a `ListMarks` asks for.
pub enum MarksOf {
    /// Those of one application.
    Application(AppName),
    /// Those of a namespace, or of all.
    Namespace(Option<Arc<str>>),
}

/// Reads a `ListMarks`.
pub fn list_marks(access: &Access, wire: &v1::ListMarksRequest) -> Result<MarksOf, ApiError> {
    let mut fields = Fields::default();
    if wire.application.is_empty() {
        let namespace = fields.namespace(&wire.namespace);
        if let Some(namespace) = &namespace {
            access.check_list(namespace.as_deref())?;
        }
        return fields.finish(namespace.map(MarksOf::Namespace));
    }
    let app = fields.app(&wire.namespace, &wire.application);
    if let Some(app) = &app {
        access.check(app, "", false)?;
    }
    fields.finish(app.map(MarksOf::Application))
}

/// Converts a mark.
pub fn mark(app: &AppName, id: &MarkId, mark: &Mark) -> v1::Mark {
    let part = |part: &crate::domain::name::PartName| part.as_str().to_string();
    v1::Mark {
        mark_id: id.to_string(),
        kind: match mark.kind {
            MarkKind::Acknowledged => v1::MarkKind::Acknowledged,
            MarkKind::Planned => v1::MarkKind::Planned,
        } as i32,
        unit: mark.cover.unit.to_string(),
        component: mark.cover.component.as_ref().map(part),
        key: mark.cover.key.as_ref().map(part),
        start_time: Some(timestamp(mark.start)),
        end_time: Some(timestamp(mark.end)),
        reason: mark.reason.to_string(),
        author: mark.author.to_string(),
        acknowledged_level: match mark.kind {
            MarkKind::Acknowledged => level(mark.acknowledged_level),
            MarkKind::Planned => v1::Level::Unspecified,
        } as i32,
        ends_when_well: mark.ends_when_well,
        create_time: Some(timestamp(mark.create_time)),
        in_force: mark.begun,
        namespace: app.namespace().to_string(),
        application: app.application().to_string(),
    }
}
