//! Marks that operators set and remove, and that begin and end by time.

use std::sync::Arc;
use std::time::Duration;

use crate::domain::draft::Draft;
use crate::domain::level::Level;
use crate::domain::model::history::Cause;
use crate::domain::model::limits::{MARK_AHEAD_MAX, MARK_LENGTH_MAX, MARKS_MAX};
use crate::domain::model::mark::refused::{
    MarkDiffers, MarkError, MarkNotFound, MarkTimeInvalid, UnmarkError,
};
use crate::domain::model::mark::{Mark, MarkEnd, MarkId, MarkKind, NewMark, Until};
use crate::domain::model::name::ApplicationNotFound;
use crate::domain::model::request::Outcome;
use crate::domain::model::time::Timestamp;
use crate::domain::model::unit::refused::UnitNotFound;
use crate::domain::rules::quota::{Total, check_total, has_bytes, within};

/// Sets a mark, or changes the reason and the end of a known one.
pub fn set_mark(draft: &mut Draft<'_>, new: &NewMark) -> Result<Outcome, MarkError> {
    if draft.head.deleted && !draft.head.is_visible() {
        return Err(ApplicationNotFound.into());
    }
    if !new.cover.is_all() && draft.unit(&new.cover.unit).is_none() {
        return Err(UnitNotFound { unit: new.cover.unit.clone() }.into());
    }
    let old = draft.marks.get(&new.id).cloned();
    if old.as_ref().is_some_and(|old| old.kind != new.kind || old.cover != new.cover) {
        return Err(MarkDiffers { id: new.id.clone() }.into());
    }
    let start = match &old {
        Some(old) if old.begun => old.start,
        _ => start_of(draft, new)?,
    };
    let end = end_of(draft, new, start)?;
    // The time of the store may have returned to a clock that is before the start.
    let begun = old.as_ref().is_some_and(|old| old.begun) || start <= draft.now;
    let mark = match &old {
        Some(old) => Mark {
            start,
            end,
            begun,
            reason: new.reason.clone(),
            author: new.author.clone(),
            ..(**old).clone()
        },
        None => Mark {
            kind: new.kind,
            cover: new.cover.clone(),
            start,
            end,
            reason: new.reason.clone(),
            author: new.author.clone(),
            acknowledged_level: match new.kind {
                MarkKind::Acknowledged => draft.worst_covered(&new.cover),
                MarkKind::Planned => Level::Unknown,
            },
            ends_when_well: new.ends_when_well || new.kind == MarkKind::Acknowledged,
            create_time: draft.now,
            begun,
            well_since: None,
        },
    };
    if old.as_ref().is_some_and(|old| is_same(old, &mark, new)) {
        return Ok(Outcome::default());
    }
    if old.is_none() {
        let count = draft.marks.iter().count() + 1;
        within("marks_max", MARKS_MAX, count, "marks of the application")?;
        check_total(draft, Total::Marks, count as u64)?;
    }
    has_bytes(draft, mark.size(), || old.as_ref().map_or(0, |old| old.size()))?;
    let from = old.as_deref().map_or("", Mark::state);
    draft.log_mark(&new.id, &mark, Cause::MarkSet, from, mark.state());
    draft.put_mark(new.id.clone(), Some(Arc::new(mark)));
    Ok(Outcome { changed: true, ..Outcome::default() })
}

/// Returns whether a request says nothing new of a known mark. A length is compared with the one
/// that the mark has.
fn is_same(old: &Mark, new: &Mark, request: &NewMark) -> bool {
    let same_end = match request.until {
        Until::Time(_) => old.end == new.end,
        Until::After(length) => old.end == old.start.after(length),
    };
    same_end && old.reason == new.reason && old.author == new.author && old.begun == new.begun
}

fn start_of(draft: &Draft<'_>, new: &NewMark) -> Result<Timestamp, MarkTimeInvalid> {
    let start = new.start.unwrap_or(draft.now).max(draft.now);
    let refused = |problem: String| Err(MarkTimeInvalid { field: "mark.start_time", problem });
    if draft.now < start && new.kind == MarkKind::Acknowledged {
        return refused("is in the future: an acknowledgement begins now".to_string());
    }
    if draft.now.after(MARK_AHEAD_MAX) < start {
        return refused(format!("is more than {} days ahead", days(MARK_AHEAD_MAX)));
    }
    Ok(start)
}

fn end_of(
    draft: &Draft<'_>,
    new: &NewMark,
    start: Timestamp,
) -> Result<Timestamp, MarkTimeInvalid> {
    let (field, end) = match new.until {
        Until::Time(end) => ("mark.end_time", end),
        Until::After(length) => ("during", start.after(length)),
    };
    let refused = |problem: String| Err(MarkTimeInvalid { field, problem });
    if end <= start.max(draft.now) {
        return refused("must be later than the start and than now".to_string());
    }
    // A mark that began earlier may be extended: the limit is on the time that is left.
    if start.max(draft.now).after(MARK_LENGTH_MAX) < end {
        return refused(format!(
            "is more than {} days after the start; set the mark again before it ends",
            days(MARK_LENGTH_MAX)
        ));
    }
    Ok(end)
}

fn days(length: Duration) -> u64 {
    length.as_secs() / (24 * 3600)
}

/// Removes a mark before its end.
pub fn remove_mark(draft: &mut Draft<'_>, id: &MarkId) -> Result<Outcome, UnmarkError> {
    if draft.head.deleted && !draft.head.is_visible() {
        return Err(ApplicationNotFound.into());
    }
    if draft.marks.get(id).is_none() {
        return Err(MarkNotFound { id: id.clone() }.into());
    }
    draft.end_mark(id, MarkEnd::Removed);
    Ok(Outcome { changed: true, ..Outcome::default() })
}

/// Begins or ends a mark whose time has come.
pub fn move_mark(draft: &mut Draft<'_>, id: &MarkId) {
    let Some(mark) = draft.marks.get(id).cloned() else { return };
    let (now, judged, deadlines) = (draft.now, draft.judged, draft.deadlines());
    if mark.end <= now {
        draft.end_mark(id, MarkEnd::Expired);
    } else if !mark.begun && mark.start <= now {
        let begun = Mark { begun: true, ..(*mark).clone() };
        draft.log_mark(id, &begun, Cause::MarkBegan, mark.state(), begun.state());
        draft.put_mark(id.clone(), Some(Arc::new(begun)));
    } else if deadlines.of_well(&mark).is_some_and(|at| at <= judged) {
        draft.end_mark(id, MarkEnd::Well);
    }
}
