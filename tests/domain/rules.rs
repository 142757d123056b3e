//! Single cases of classification: names of systems and reasons, custom rules, and the tables.

use std::collections::BTreeSet;

use bellwether::domain::classify::finding::{
    Class, ErrorOrigin, ErrorOutcome, Evidence, Finding, Hints,
};
use bellwether::domain::classify::rule::Rule;
use bellwether::domain::classify::{Rules, classify, is_reason, is_system};

use crate::case::rule_for_all;

#[test]
fn a_system_has_lower_case_letters_digits_and_three_marks() {
    let longest = "s".repeat(63);
    for good in ["grpc", "7", "a.b", "a_b", "a-b", &longest] {
        assert!(is_system(good), "{good:?}");
    }
    for bad in ["", "Grpc", "a b", "a/b", "é", &format!("{longest}s")] {
        assert!(!is_system(bad), "{bad:?}");
    }
}

#[test]
fn a_reason_has_visible_ascii_without_spaces() {
    let longest = "R".repeat(253);
    let codes = [
        "A",
        "23505",
        "NoSuchKey",
        "InvalidInstanceID.NotFound",
        "urn:ietf:params:acme:error:badNonce",
    ];
    for good in codes.into_iter().chain(["STORAGE_GONE", "https://a.example/full#1", &longest]) {
        assert!(is_reason(good), "{good:?}");
    }
    for bad in ["", "A B", "A\tB", "é", "A\n", &format!("{longest}R")] {
        assert!(!is_reason(bad), "{bad:?}");
    }
}

fn evidence(system: &str) -> Evidence {
    Evidence {
        system: system.into(),
        code: "E1".into(),
        origin: ErrorOrigin::Peer,
        outcome: Some(ErrorOutcome::Rejected),
        domain: "a.example".into(),
        reason: "FULL".into(),
        message: "the disk is full".into(),
        retry_after: None,
        hints: Hints::default(),
    }
}

/// Returns a rule with all conditions, which the evidence of `vendor` meets.
fn rule() -> Rule {
    Rule {
        name: "vendor-full".into(),
        system: Some("vendor".into()),
        codes: vec!["E1".into()],
        origin: Some(ErrorOrigin::Peer),
        outcome: Some(ErrorOutcome::Rejected),
        domain: Some("a.example".into()),
        reasons: vec!["FULL".into()],
        messages: vec!["disk".into()],
        class: Class::Blocked,
        explanation: "the vendor's disk is full".into(),
        remedy: "add a disk".into(),
        ..Rule::default()
    }
}

fn find(rule: Rule, evidence: &Evidence) -> Finding {
    classify(&Rules { own: vec![rule], gone: BTreeSet::new() }, evidence)
}

#[test]
fn a_custom_rule_matches_if_each_of_its_conditions_holds() {
    let met = evidence("vendor");
    assert_eq!(&*find(rule(), &met).rule, "vendor-full");
    let unmet = [
        Evidence { system: "other".into(), ..met.clone() },
        Evidence { code: "E2".into(), ..met.clone() },
        Evidence { origin: ErrorOrigin::Local, ..met.clone() },
        Evidence { outcome: Some(ErrorOutcome::Unknown), ..met.clone() },
        Evidence { outcome: None, ..met.clone() },
        Evidence { domain: "b.example".into(), ..met.clone() },
        Evidence { reason: "GONE".into(), ..met.clone() },
        Evidence { message: "the network is slow".into(), ..met.clone() },
    ];
    for evidence in unmet {
        assert_eq!(&*find(rule(), &evidence).rule, "default", "{evidence:?}");
    }
    // A condition that a rule lacks holds for all.
    let any = rule_for_all("any", Class::Blocked);
    let other = Evidence { origin: ErrorOrigin::Local, outcome: None, ..evidence("other") };
    assert_eq!(&*find(any, &other).rule, "any");
}

#[test]
fn an_error_of_a_connection_is_transient_and_one_of_a_file_goes_by_its_errno() {
    let found = |code: &str, origin| {
        let evidence = Evidence { code: code.into(), origin, ..evidence("io") };
        classify(&Rules::default(), &evidence).class
    };
    for (code, class) in [
        ("EACCES", Class::Blocked),
        ("ENOENT", Class::Dependency),
        ("ECONNREFUSED", Class::Transient),
        ("111", Class::Transient),
        ("E1", Class::Unclassified),
    ] {
        assert_eq!(found(code, ErrorOrigin::Peer), class, "{code}");
        assert_eq!(found(code, ErrorOrigin::Local), class, "{code}");
        assert_eq!(found(code, ErrorOrigin::Transport), Class::Transient, "{code}");
    }
}
