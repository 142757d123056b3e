//! Classification of errors: the origin, system, code and message of an error give one class and
//! one action.
//!
//! ```text
//!  Evidence --> custom rules  --> else the table of its system --> origin check --> Finding
//!               (first match)     (first match)                    (without an answer: class <= 4)
//! ```
//!
//! Only the owner of a target can report that it is gone: a broken path is evidence about the path.

pub mod finding;
pub mod own;
mod program;
mod python;
mod row;
pub mod table;
mod web;

use std::collections::BTreeSet;

use crate::domain::classify::finding::{Action, Class, ErrorOrigin, Evidence, Finding, Match};
use crate::domain::classify::own::{GonePair, OwnRule};

/// Custom rules, tried before the tables, and the registered pairs that prove a target gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// The rules, in the order in which they are tried.
    pub own: Vec<OwnRule>,
    /// The pairs of domain and reason that prove a target gone.
    pub gone: BTreeSet<GonePair>,
}

/// Returns whether a text can name a system. A system without a table is valid: custom rules may
/// match it.
pub fn is_system(text: &str) -> bool {
    let belongs = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
    };
    (1..=63).contains(&text.len()) && text.bytes().all(belongs)
}

/// Returns whether a text is a reason as in google.rpc.ErrorInfo: UPPER_SNAKE, at most 63 bytes.
pub fn is_reason(text: &str) -> bool {
    let belongs = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    text.len() <= 63
        && text.as_bytes().first().is_some_and(u8::is_ascii_uppercase)
        && text.bytes().all(belongs)
}

/// Name of the rule for errors without an answer.
const TRANSPORT: &str = "transport";

/// Name of the rule for a target reported as gone without a registered pair from its owner.
const GONE_UNPROVEN: &str = "gone-unproven";

/// Classifies an error. Total: every evidence has a finding.
pub fn classify(rules: &Rules, evidence: &Evidence) -> Finding {
    let is_gone = rules.is_gone(evidence);
    let own = rules.own.iter().find(|rule| rule.matches(evidence)).map(OwnRule::found);
    let found = own.or_else(|| table::find(evidence, is_gone)).unwrap_or(table::IN_NO_TABLE);
    let is_unanswered = evidence.origin == ErrorOrigin::Transport;
    if is_unanswered && !found.class.needs_no_answer() {
        let why = format!(
            "there was no answer, so the error is about the path and not the target; \
             from its owner it would be {} by rule {}",
            found.class.word(),
            found.rule
        );
        return finding(evidence, Match::without_remedy(Class::Transient, TRANSPORT, &why));
    }
    if found.class == Class::Gone && !is_gone {
        let why = "only the owner of a target can say that it is gone, by a domain and reason \
                   that are registered";
        return finding(evidence, Match::without_remedy(Class::Dependency, GONE_UNPROVEN, why));
    }
    finding(evidence, found)
}

fn finding(evidence: &Evidence, found: Match<'_>) -> Finding {
    let Match { class, rule, why, remedy } = found;
    Finding {
        class,
        action: action(class, evidence.retry_after.is_some()),
        rule: rule.into(),
        explanation: why.into(),
        remedy: if class == Class::Blocked { remedy.into() } else { "".into() },
    }
}

/// Returns the action for a class, with or without a delay requested by the peer.
fn action(class: Class, pushed_back: bool) -> Action {
    match class {
        Class::Transient | Class::Unclassified if pushed_back => Action::RetryAfter,
        Class::Transient | Class::Unclassified => Action::Retry,
        Class::Throttled => Action::RetryAfter,
        Class::Conflict => Action::Reread,
        Class::Interrupted => Action::Resume,
        Class::Dependency => Action::Defer,
        Class::Blocked => Action::Block,
        Class::Gone => Action::Recover,
        Class::Fatal => Action::Halt,
    }
}

impl Rules {
    /// Returns whether the owner of the target reports, with a registered pair, that it is gone.
    fn is_gone(&self, evidence: &Evidence) -> bool {
        let is_given =
            |pair: &GonePair| pair.domain == evidence.domain && pair.reason == evidence.reason;
        evidence.origin == ErrorOrigin::Peer && self.gone.iter().any(is_given)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::time::Duration;

    use super::*;
    use crate::domain::classify::finding::{ErrorOutcome, Hints};

    fn mk_evidence() -> impl Strategy<Value = Evidence> {
        let systems = proptest::sample::select(&["grpc", "http", "python", "helm", "redis", "io"]);
        let known = proptest::sample::select(&[
            "NOT_FOUND",
            "CANCELLED",
            "DATA_LOSS",
            "404",
            "410",
            "507",
            "pebble.APIError/404",
            "lightkube.ObjectDeleted",
            "httpx.HTTPStatusError/410",
            "context canceled",
            "WRONGTYPE",
        ]);
        let origins = proptest::sample::select(&[
            ErrorOrigin::Peer,
            ErrorOrigin::Transport,
            ErrorOrigin::Local,
        ]);
        let hint = any::<Option<bool>>;
        let hints = (hint(), hint(), hint(), hint(), hint(), hint()).prop_map(|h| Hints {
            user_input: h.0,
            own_request: h.1,
            quota: h.2,
            machine_resolvable: h.3,
            deadline_passed: h.4,
            own_shutdown: h.5,
        });
        let system = prop_oneof![9 => systems.prop_map(String::from), 1 => any::<String>()];
        let code = prop_oneof![3 => known.prop_map(String::from), 1 => any::<String>()];
        let said = (proptest::sample::select(&["", "a.example"]), "[AB]", any::<String>());
        let parts = (system, code, origins, said, any::<Option<u16>>(), hints);
        parts.prop_map(|(system, code, origin, (domain, reason, message), after, hints)| Evidence {
            system: system.into(),
            code: code.into(),
            origin,
            outcome: None,
            domain: domain.into(),
            reason: reason.into(),
            message: message.into(),
            retry_after: after.map(|ms| Duration::from_millis(ms.into())),
            hints,
        })
    }

    fn mk_own() -> impl Strategy<Value = OwnRule> {
        let part = || any::<Option<String>>().prop_map(|text| text.map(String::into_boxed_str));
        (part(), proptest::sample::select(&Class::ALL)).prop_map(|(message, class)| OwnRule {
            name: "own".into(),
            system: None,
            code: None,
            origin: None,
            outcome: None,
            domain: None,
            reason: None,
            message,
            class,
            explanation: "".into(),
            remedy: "".into(),
        })
    }

    proptest! {
        #[test]
        fn only_an_answer_of_the_target_is_final(
            evidence in mk_evidence(),
            own in proptest::option::of(mk_own()),
            registered: bool,
        ) {
            let pair = GonePair { domain: "a.example".into(), reason: "A".into() };
            let gone: BTreeSet<_> = registered.then_some(pair).into_iter().collect();
            let rules = Rules { own: own.into_iter().collect(), gone };
            let found = classify(&rules, &evidence);
            if evidence.origin == ErrorOrigin::Transport {
                prop_assert!(found.class < Class::Dependency, "{:?}", found);
            }
            if found.class == Class::Gone {
                prop_assert_eq!(evidence.origin, ErrorOrigin::Peer);
                let said = (&*evidence.domain, &*evidence.reason);
                prop_assert!(registered && said == ("a.example", "A"));
            }
            prop_assert!(!found.rule.is_empty());
            let outcome = Some(ErrorOutcome::Unknown);
            prop_assert_eq!(classify(&rules, &Evidence { outcome, ..evidence }), found);
        }
    }

    #[test]
    fn rows_are_named_once_a_meaning_and_every_one_is_reached() {
        let tables = [web::GRPC, web::HTTP, python::PYTHON, program::REDIS, program::HELM];
        for table in tables {
            for (n, row) in table.iter().enumerate() {
                let found = &row.found;
                let asks = found.class == Class::Blocked;
                assert_eq!(asks, !found.remedy.is_empty(), "{}: a remedy", found.rule);
                let before = &table[..n];
                let codes: BTreeSet<_> = row.codes.iter().collect();
                assert_eq!(codes.len(), row.codes.len(), "{} has a code twice", found.rule);
                let hidden = before.iter().find(|other| {
                    let same = other.codes.iter().any(|code| codes.contains(code));
                    same && matches!(other.when, row::When::Always)
                });
                assert!(hidden.is_none(), "{} is never reached", found.rule);
                let same = before.iter().find(|other| other.found.rule == found.rule);
                let means = |row: &row::Row| (row.found.class, row.found.why, row.found.remedy);
                assert!(same.is_none_or(|same| means(same) == means(row)), "{}", found.rule);
            }
        }
    }

    #[test]
    fn rules_of_ones_own_come_first_and_are_bounded_like_any() {
        let own = OwnRule {
            name: "vendor-busy".into(),
            system: Some("http".into()),
            code: Some("409".into()),
            origin: None,
            outcome: None,
            domain: None,
            reason: None,
            message: Some("BUSY now".into()),
            class: Class::Blocked,
            explanation: "the vendor says so".into(),
            remedy: "call the vendor".into(),
        };
        let rules = Rules { own: vec![own], gone: BTreeSet::new() };
        let evidence = |origin, message: &str| Evidence {
            system: "http".into(),
            code: "409".into(),
            origin,
            outcome: None,
            domain: "".into(),
            reason: "".into(),
            message: message.into(),
            retry_after: None,
            hints: Hints::default(),
        };
        for (origin, message, rule, class) in [
            (ErrorOrigin::Peer, "it is busy NOW", "vendor-busy", Class::Blocked),
            (ErrorOrigin::Peer, "it is taken", "http.409", Class::Conflict),
            (ErrorOrigin::Transport, "it is busy now", "transport", Class::Transient),
        ] {
            let found = classify(&rules, &evidence(origin, message));
            assert_eq!((&*found.rule, found.class), (rule, class), "{message}");
            assert_eq!(
                &*found.remedy,
                if class == Class::Blocked { "call the vendor" } else { "" }
            );
        }
    }
}
