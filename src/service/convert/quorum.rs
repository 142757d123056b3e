//! Conversion of a quorum, in both directions.

use super::fields::Fields;
use super::value::count;
use crate::domain::limits::QUORUM_UNITS_MAX;
use crate::domain::quorum::{Quorum, Turnout};
use crate::proto::v1;
use crate::proto::v1::quorum::Enough;
use crate::service::code::Reason;

/// Reads a quorum, which has exactly one of its fields.
pub(super) fn quorum(fields: &mut Fields, given: &v1::Quorum) -> Option<Quorum> {
    let (field, value, max) = match given.enough {
        None => return fields.wrong("quorum", "is empty; give min_units or min_percent", ""),
        Some(Enough::MinUnits(units)) => ("quorum.min_units", units, QUORUM_UNITS_MAX),
        Some(Enough::MinPercent(percent)) => ("quorum.min_percent", percent, 100),
    };
    let number = u32::try_from(value).unwrap_or_default();
    if !(1..=max).contains(&number) {
        let text = format!("is {value}; give 1 to {max}");
        fields.note(field, Reason::InvalidValue, text).with("value", value).with("max", max);
        return None;
    }
    Some(match given.enough {
        Some(Enough::MinPercent(_)) => Quorum::Percent(number),
        _ => Quorum::Units(number),
    })
}

/// Returns a configured quorum.
pub(super) fn from_quorum(quorum: Quorum) -> v1::Quorum {
    let enough = match quorum {
        Quorum::Units(units) => Enough::MinUnits(count(units)),
        Quorum::Percent(percent) => Enough::MinPercent(count(percent)),
    };
    v1::Quorum { enough: Some(enough) }
}

/// Returns where a quorum stands.
pub(super) fn from_turnout(turnout: Turnout) -> v1::QuorumTurnout {
    v1::QuorumTurnout {
        active_count: count(turnout.active),
        known_count: count(turnout.known),
        needed_count: count(turnout.needed),
        met: turnout.is_met(),
    }
}
