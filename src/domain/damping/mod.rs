//! Latches and damping: a bad pull result that stays shown, and a level of a status that flaps.
//!
//! `flapping` measures, `decide` chooses the status to show, `write` puts it into a draft.

pub mod decide;
pub mod flapping;
pub mod write;
