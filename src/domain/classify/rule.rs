//! A rule: its conditions, and its result. The rows of the tables are rules, and so are those of an
//! operator.

use std::borrow::Cow;

use crate::domain::classify::finding::{Class, ErrorOrigin, ErrorOutcome, Evidence, Hints, Match};
use crate::domain::classify::grams::{Grams, Needle};
use crate::domain::classify::spelling::{is_plain, plain};
use crate::domain::word::worded;

/// Stands in a part of a message for any characters.
const GAP: char = '…';

/// A rule: it matches if all its conditions hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The name that findings quote.
    pub name: Box<str>,
    /// The system; of a row, that of its table.
    pub system: Option<Box<str>>,
    /// The codes: one of them, in any spelling. Empty: any code.
    pub codes: Vec<Box<str>>,
    /// The origin of the error.
    pub origin: Option<ErrorOrigin>,
    /// Whether the requested action happened.
    pub outcome: Option<ErrorOutcome>,
    /// The domain.
    pub domain: Option<Box<str>>,
    /// The reasons: one of them; `*END` stands for all that end so. Empty: any reason.
    pub reasons: Vec<Box<str>>,
    /// Parts of the message in lower case: one of them; `…` stands for any characters. Empty: any
    /// message.
    pub messages: Vec<Box<str>>,
    /// Filters of the messages; not needed.
    pub needles: Vec<Option<Needle>>,
    /// A fact that the reporter gives, or that is registered.
    pub when: Option<When>,
    /// The resulting class.
    pub class: Class,
    /// Whether the component is not held although the class holds.
    pub unheld: bool,
    /// The cause, in words.
    pub explanation: Box<str>,
    /// The action that a person must take, if the class is `BLOCKED`.
    pub remedy: Box<str>,
    /// The program, its version and the file, or the standard, that defines the error.
    pub source: Box<str>,
}

worded! {
    /// A condition of a rule beside code and texts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum When {
        /// The owner reports, with a registered pair, that the target is gone.
        Gone = "GONE",
        /// The refused value is a person's input.
        UserInput = "USER_INPUT",
        /// The worker made the input, or it is known not to be a person's input.
        OurInput = "OUR_INPUT",
        /// The worker made the request.
        OwnRequest = "OWN_REQUEST",
        /// The worker cancelled the call to shut down.
        OwnShutdown = "OWN_SHUTDOWN",
        /// A quota is used up.
        Quota = "QUOTA",
        /// What is missing comes without a person.
        MachineResolvable = "MACHINE_RESOLVABLE",
        /// What is missing comes by a person only.
        PersonResolvable = "PERSON_RESOLVABLE",
        /// The deadline of the work has passed.
        DeadlinePassed = "DEADLINE_PASSED",
    }
}

impl When {
    fn holds(self, hints: &Hints, is_gone: bool) -> bool {
        let yes = Some(true);
        match self {
            When::Gone => is_gone,
            When::UserInput => hints.user_input == yes,
            When::OurInput => hints.own_request == yes || hints.user_input == Some(false),
            When::OwnRequest => hints.own_request == yes,
            When::OwnShutdown => hints.own_shutdown == yes,
            When::Quota => hints.quota == yes,
            When::MachineResolvable => hints.machine_resolvable == yes,
            When::PersonResolvable => hints.machine_resolvable == Some(false),
            When::DeadlinePassed => hints.deadline_passed == yes,
        }
    }
}

/// An error as rules examine it.
pub(in crate::domain) struct Examined<'e> {
    /// The error.
    pub(in crate::domain) evidence: &'e Evidence,
    /// The message in lower case, with the code if that is a text.
    pub(in crate::domain) text: String,
    /// The groups of bytes of the text.
    grams: Grams,
    /// The code in lower case without marks.
    plain: Cow<'e, str>,
    /// Whether the owner proves the target gone.
    pub(in crate::domain) is_gone: bool,
}

impl<'e> Examined<'e> {
    pub(in crate::domain) fn new(evidence: &'e Evidence, is_gone: bool) -> Examined<'e> {
        let is_text = |code: &str| code.contains(char::is_whitespace);
        let text = match (&*evidence.code, &*evidence.message) {
            (code, message) if is_text(code) => format!("{code}\n{message}").to_lowercase(),
            (_, message) => message.to_lowercase(),
        };
        let grams = Grams::of(&text);
        Examined { evidence, text, grams, plain: plain(&evidence.code), is_gone }
    }
}

impl Rule {
    /// Returns whether all conditions of a custom rule hold.
    pub(in crate::domain) fn matches(&self, asked: &Examined<'_>) -> bool {
        let evidence = asked.evidence;
        let given = &*evidence.code;
        let has_code = self.codes.is_empty()
            || self.codes.iter().any(|code| **code == *given || is_plain(code, &asked.plain));
        let is_of_system = self.system.as_ref().is_none_or(|system| *system == evidence.system);
        is_of_system && has_code && self.applies(asked)
    }

    /// Returns whether the conditions beside system and code hold.
    pub(in crate::domain) fn applies(&self, asked: &Examined<'_>) -> bool {
        let evidence = asked.evidence;
        self.origin.is_none_or(|origin| origin == evidence.origin)
            && self.outcome.is_none_or(|outcome| Some(outcome) == evidence.outcome)
            && self.domain.as_ref().is_none_or(|domain| *domain == evidence.domain)
            && self.when.is_none_or(|when| when.holds(&evidence.hints, asked.is_gone))
            && any(&self.reasons, |reason| match reason.strip_prefix('*') {
                Some(end) => evidence.reason.ends_with(end),
                None => *reason == *evidence.reason,
            })
            && self.has_text(asked)
    }

    fn has_text(&self, asked: &Examined<'_>) -> bool {
        let has = |n: usize, part: &str| {
            let needle = self.needles.get(n).copied().flatten();
            needle.is_none_or(|needle| asked.grams.may_have(&needle)) && has_part(&asked.text, part)
        };
        let parts = self.messages.iter().enumerate();
        self.messages.is_empty() || parts.into_iter().any(|(n, part)| has(n, part))
    }

    /// Returns the rule with the filters of its texts.
    pub(in crate::domain) fn with_needles(self) -> Rule {
        let needles = self.messages.iter().map(|part| Needle::of(part, GAP)).collect();
        Rule { needles, ..self }
    }

    pub(in crate::domain) fn found(&self) -> Match<'_> {
        Match {
            class: self.class,
            rule: &self.name,
            why: (&*self.explanation).into(),
            remedy: &self.remedy,
            unheld: self.unheld,
            source: &self.source,
        }
    }
}

/// Returns whether one of the alternatives holds, or there is none.
fn any(alternatives: &[Box<str>], holds: impl Fn(&str) -> bool) -> bool {
    alternatives.is_empty() || alternatives.iter().any(|one| holds(one))
}

/// Returns whether a text has a part, in which `…` stands for any characters.
fn has_part(text: &str, part: &str) -> bool {
    let mut rest = Some(text);
    for piece in part.split(GAP) {
        rest = rest.and_then(|rest| rest.find(piece).map(|at| &rest[at + piece.len()..]));
    }
    rest.is_some()
}
