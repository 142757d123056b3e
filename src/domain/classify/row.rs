//! A row of a table: its condition and its result.

use crate::domain::classify::finding::{ErrorOrigin, Evidence, Match};

/// A row, of one code or of several that mean the same. Among the rows of one code, the first whose
/// condition holds decides.
pub struct Row {
    pub codes: &'static [&'static str],
    pub when: When,
    pub found: Match<'static>,
}

/// The condition of a row beside its code.
#[derive(Clone, Copy)]
pub(super) enum When {
    Always,
    /// The owner reports, with a registered pair, that the target is gone.
    Gone,
    /// The worker made the input, or it is known not to be a person's input.
    OurInput,
    OwnRequest,
    OwnShutdown,
    Quota,
    MachineResolvable,
    DeadlinePassed,
    /// There was no answer.
    Unanswered,
    /// The caller failed to send the request, or to read the answer.
    Local,
    /// The reason ends with this text.
    ReasonEnds(&'static str),
}

/// Builds rows from lines that read like a table: codes, condition, class, name and cause, with a
/// remedy if a person must act.
macro_rules! rows {
    ($($($code:literal)|+ $when:ident $(($end:literal))? $class:ident $name:literal $why:literal
       $(remedy $remedy:literal)?;)*) => {
        &[$(Row {
            codes: &[$($code),+],
            when: $when $(($end))?,
            found: $crate::domain::classify::finding::Match {
                class: $class,
                rule: $name,
                why: $why,
                remedy: concat!("" $(, $remedy)?),
            },
        }),*]
    };
}

pub(super) use rows;

impl When {
    pub fn holds(self, evidence: &Evidence, is_gone: bool) -> bool {
        let hints = &evidence.hints;
        let yes = Some(true);
        match self {
            When::Always => true,
            When::Gone => is_gone,
            When::OurInput => hints.own_request == yes || hints.user_input == Some(false),
            When::OwnRequest => hints.own_request == yes,
            When::OwnShutdown => hints.own_shutdown == yes,
            When::Quota => hints.quota == yes,
            When::MachineResolvable => hints.machine_resolvable == yes,
            When::DeadlinePassed => hints.deadline_passed == yes,
            When::Unanswered => evidence.origin == ErrorOrigin::Transport,
            When::Local => evidence.origin == ErrorOrigin::Local,
            When::ReasonEnds(end) => evidence.reason.ends_with(end),
        }
    }
}
