//! Single cases of classification: names of systems and reasons, custom rules, and the tables.

use std::collections::BTreeSet;

use bellwether::domain::classify::finding::{
    Class, ErrorOrigin, ErrorOutcome, Evidence, Finding, Hints,
};
use bellwether::domain::classify::own::OwnRule;
use bellwether::domain::classify::table::list;
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
fn a_reason_begins_with_a_letter_in_upper_case() {
    let longest = "R".repeat(63);
    for good in ["A", "A_B", "A1", "STORAGE_GONE", &longest] {
        assert!(is_reason(good), "{good:?}");
    }
    for bad in ["", "a", "1A", "_A", "AbC", "A-B", "A B", &format!("{longest}R")] {
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
fn rule() -> OwnRule {
    OwnRule {
        name: "vendor-full".into(),
        system: Some("vendor".into()),
        code: Some("E1".into()),
        origin: Some(ErrorOrigin::Peer),
        outcome: Some(ErrorOutcome::Rejected),
        domain: Some("a.example".into()),
        reason: Some("FULL".into()),
        message: Some("Disk".into()),
        class: Class::Blocked,
        explanation: "the vendor's disk is full".into(),
        remedy: "add a disk".into(),
    }
}

fn find(rule: OwnRule, evidence: &Evidence) -> Finding {
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
fn an_error_of_a_file_or_connection_is_transient() {
    let found = classify(&Rules::default(), &evidence("io"));
    assert_eq!((found.class, &*found.rule), (Class::Transient, "io"));
}

#[test]
fn the_list_has_the_lines_of_one_table_or_of_all() {
    let all = list(None);
    let systems: BTreeSet<_> = all.iter().map(|line| line.system).collect();
    assert_eq!(systems, BTreeSet::from(["grpc", "helm", "http", "python", "redis"]));
    for system in systems {
        let own = list(Some(system));
        assert!(own.iter().all(|line| line.system == system), "{system}");
        let count = all.iter().filter(|line| line.system == system).count();
        assert_eq!(own.len(), count, "{system}");
    }
    assert!(list(Some("io")).is_empty());
}
