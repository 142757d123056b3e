//! Classification of errors: the origin, system, code and message of an error give one class and
//! one action.
//!
//! ```text
//!  Evidence --> custom rules --> else the tables -------------> origin check --> Finding
//!               (first match)    (reason, then text, then code)  (without an answer: class <= 4)
//! ```
//!
//! The tables are data, one file for each system in `tables/`; [`mod@format`] is what they and the
//! rules of an operator look like.
//!
//! Only the owner of a target can report that it is gone: a broken path is evidence about the path.

mod check;
pub mod finding;
pub mod format;
pub mod grams;
pub mod index;
pub mod own;
pub mod rule;
pub mod spelling;
pub mod table;
pub mod word;
pub mod written;

use crate::domain::classify::finding::{Action, Class, ErrorOrigin, Evidence, Finding, Match};
use crate::domain::classify::rule::{Examined, Rule};

pub use self::own::Rules;
pub use self::word::{is_reason, is_system};

/// Name of the rule for errors without an answer.
const TRANSPORT: &str = "transport";

/// Name of the rule for a target reported as gone without a registered pair from its owner.
const GONE_UNPROVEN: &str = "gone-unproven";

/// Classifies an error. Total: every evidence has a finding.
pub fn classify(rules: &Rules, evidence: &Evidence) -> Finding {
    let Match { class, rule, why, remedy, unheld, .. } = explain(rules, evidence);
    Finding {
        class,
        action: action(class, evidence.retry_after.is_some()),
        rule: rule.into(),
        explanation: why.into(),
        remedy: if class == Class::Blocked { remedy.into() } else { "".into() },
        unheld,
    }
}

/// Returns the rule that decides an error, with its source.
pub fn explain<'r>(rules: &'r Rules, evidence: &Evidence) -> Match<'r> {
    let asked = Examined::new(evidence, rules.is_gone(evidence));
    let own = rules.own.iter().find(|rule| rule.matches(&asked)).map(Rule::found);
    let found = own.or_else(|| table::find(&asked));
    let found = found.unwrap_or_else(|| table::in_no_table(&asked));
    let is_unanswered = evidence.origin == ErrorOrigin::Transport;
    if is_unanswered && !found.class.needs_no_answer() {
        let why = format!(
            "there was no answer, so the error is about the path and not the target; \
             from its owner it would be {} by rule {}",
            found.class.word(),
            found.rule
        );
        return Match::own(Class::Transient, TRANSPORT, why.into());
    }
    if found.class == Class::Gone && !asked.is_gone {
        let why = "only the owner of a target can say that it is gone, by a domain and reason \
                   that are registered";
        return Match::own(Class::Dependency, GONE_UNPROVEN, why.into());
    }
    found
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::time::Duration;

    use super::*;
    use std::collections::BTreeSet;

    use crate::domain::classify::finding::{ErrorOutcome, Hints};
    use crate::domain::classify::own::GonePair;

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

    fn mk_own() -> impl Strategy<Value = Rule> {
        let part = || any::<Option<String>>().prop_map(|text| text.map(String::into_boxed_str));
        (part(), proptest::sample::select(&Class::ALL)).prop_map(|(message, class)| Rule {
            name: "own".into(),
            messages: message.into_iter().collect(),
            class,
            ..Rule::default()
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
    fn every_row_of_the_tables_is_right() {
        assert_eq!(table::mistakes(), Vec::<String>::new());
    }

    #[test]
    fn rules_of_ones_own_come_first_and_are_bounded_like_any() {
        let own = Rule {
            name: "vendor-busy".into(),
            system: Some("http".into()),
            codes: vec!["409".into()],
            messages: vec!["busy now".into()],
            class: Class::Blocked,
            explanation: "the vendor says so".into(),
            remedy: "call the vendor".into(),
            ..Rule::default()
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
