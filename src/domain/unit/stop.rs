//! The stop that a worker announces: what its unit reports afterwards ends with the incarnation.

use crate::domain::draft::Draft;
use crate::domain::history::Cause;
use crate::domain::rejected::Rejected;
use crate::domain::request::Outcome;
use crate::domain::unit::contact::{check_known_reporter, note_contact};
use crate::domain::unit::departure::Departure;
use crate::domain::unit::{Reporter, Unit};

/// Records that the worker of a unit is about to stop. A unit that has left stays so.
pub fn announce_stop(draft: &mut Draft<'_>, reporter: &Reporter) -> Result<Outcome, Rejected> {
    check_known_reporter(draft, reporter)?;
    if draft.unit(&reporter.unit).is_some_and(Unit::has_departed) {
        return Ok(Outcome::default());
    }
    let changed = note_contact(draft, reporter);
    let unit = draft.unit(&reporter.unit).cloned().unwrap_or_default();
    if unit.is_stopping() {
        return Ok(Outcome { changed, ..Outcome::default() });
    }
    let unit = Unit { departure: Departure::Stopping(draft.now), ..unit };
    draft.put_unit(reporter.unit.clone(), Some(unit));
    draft.log(draft.event(Cause::UnitStopping).of_unit(&reporter.unit));
    Ok(Outcome { changed: true, ..Outcome::default() })
}
