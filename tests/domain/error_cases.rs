//! Real texts of errors with the classes that a careful engineer gives them, and the spellings of
//! their codes.

use std::collections::BTreeMap;
use std::time::Duration;

use bellwether::domain::classify::finding::{Class, ErrorOrigin, Evidence, Finding, Hints};
use bellwether::domain::classify::{Rules, classify};
use serde::Deserialize;

use crate::case::{evidence, find};

#[derive(Deserialize)]
struct Cases {
    texts: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    system: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    origin: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    retry_after: Option<String>,
    class: Vec<String>,
}

/// A case that accepts UNCLASSIFIED beside a class and ends there.
#[derive(Deserialize)]
struct LeftOpen {
    id: String,
    why: String,
}

/// Returns the cases that are left open, each with its reason: those of exceptions are for the
/// tests of the Python package.
fn left_open() -> Vec<LeftOpen> {
    let listed: Vec<LeftOpen> =
        yaml_serde::from_str(include_str!("../data/error-cases-left-open.yaml")).unwrap();
    assert!(listed.len() <= 3, "at most three cases are left open");
    assert!(listed.iter().all(|case| !case.why.is_empty()), "a case is left open for a reason");
    listed
}

impl Case {
    fn find(&self) -> Finding {
        let origin = match self.origin.as_str() {
            "transport" => ErrorOrigin::Transport,
            _ => ErrorOrigin::Peer,
        };
        let evidence = Evidence {
            origin,
            reason: self.reason.as_str().into(),
            retry_after: self.retry_after.as_ref().map(|_| Duration::from_secs(1)),
            ..evidence(&self.system, &self.code, &self.message)
        };
        classify(&Rules::default(), &evidence)
    }
}

#[test]
fn real_errors_have_the_class_that_a_careful_engineer_gives_them() {
    let text = include_str!("../data/error-cases.yaml");
    let cases: Cases = yaml_serde::from_str(text).unwrap();
    assert_eq!(cases.texts.len(), 54);
    let mut wrong = Vec::new();
    let mut open = BTreeMap::new();
    for case in &cases.texts {
        let Case { id, class, .. } = case;
        let found = case.find();
        let word = found.class.word();
        if !class.iter().any(|accepted| accepted == word) {
            wrong.push(format!("{id}: {word} by {}, not {class:?}", found.rule));
        }
        if found.class == Class::Unclassified && 1 < class.len() {
            open.insert(id.clone(), found.rule.to_string());
        }
        // What a careful engineer also takes for an error that passes is not held.
        let passes = ["TRANSIENT", "THROTTLED", "CONFLICT", "DEPENDENCY", "UNCLASSIFIED"];
        let may_pass = class.first().is_some_and(|best| passes.contains(&best.as_str()));
        if found.holds() && may_pass {
            wrong.push(format!("{id}: held by {}", found.rule));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.texts.len(), wrong.join("\n"));
    let of_texts = |id: &str| cases.texts.iter().any(|case| case.id == id);
    let mut listed: Vec<String> = left_open().into_iter().map(|case| case.id).collect();
    listed.retain(|id| of_texts(id));
    listed.sort();
    assert!(open.keys().eq(&listed), "{open:?} are left open, and {listed:?} are listed");
}

#[test]
fn a_code_is_the_same_in_every_spelling() {
    for (system, row, spellings) in [
        (
            "grpc",
            "grpc.unavailable",
            &[
                "UNAVAILABLE",
                "Unavailable",
                "unavailable",
                "14",
                "StatusCode.UNAVAILABLE",
                "rpc error: code = Unavailable desc = x",
            ][..],
        ),
        ("grpc", "grpc.cancelled", &["CANCELLED", "Canceled", "1"]),
        ("http", "http.503", &["503", "HTTP 503", "503 Service Unavailable", "HTTP/1.1 503 x"]),
        (
            "redis",
            "redis.readonly",
            &[
                "READONLY",
                "-READONLY",
                "readonly",
                "READONLY You can't write against a read only replica.",
            ],
        ),
        ("io", "io.permission", &["EACCES", "eacces", "13", "[Errno 13]", "os error 13"]),
        ("postgresql", "postgresql.unique", &["23505", "unique_violation", "UniqueViolation"]),
        ("mysql", "mysql.locked", &["1205", "ER_LOCK_WAIT_TIMEOUT", "ERROR 1205 (HY000)"]),
        ("systemd", "systemd.exec", &["203/EXEC", "203", "EXEC", "status=203/EXEC"]),
        ("aws", "aws.throttled", &["ThrottlingException", "throttling_exception"]),
    ] {
        for code in spellings {
            assert_eq!(&*find(system, code, "").rule, row, "{system} {code}");
        }
    }
}

#[test]
fn a_text_that_cannot_be_a_code_is_named() {
    for (system, code) in [("grpc", "BUSY"), ("http", "busy"), ("redis", "42"), ("mysql", "x")] {
        let found = find(system, code, "");
        assert_eq!(&*found.rule, "default", "{system} {code}");
        let named = format!("{code:?} is no code of {system}: give ");
        assert!(found.explanation.starts_with(&named), "{}", found.explanation);
    }
    // A status that is not registered is one.
    let found = find("http", "599", "");
    assert!(!found.explanation.contains("no code"), "{}", found.explanation);
    assert!(!find("http", "477", "").explanation.contains("no code"));
}

#[test]
fn the_code_of_a_service_says_more_than_that_of_the_protocol() {
    let found = |system: &str, code: &str, domain: &str, reason: &str| {
        let evidence = evidence(system, code, "");
        let said = Evidence { domain: domain.into(), reason: reason.into(), ..evidence };
        classify(&Rules::default(), &said)
    };
    for (domain, reason, class) in [
        ("aws", "ThrottlingException", Class::Throttled),
        ("aws", "Throttling", Class::Throttled),
        ("aws", "ProvisionedThroughputExceededException", Class::Throttled),
        ("", "RequestTimeout", Class::Transient),
        ("aws", "ConditionalCheckFailedException", Class::Conflict),
        ("aws", "TransactionConflictException", Class::Conflict),
        ("aws", "ResourceNotFoundException", Class::Dependency),
        ("aws", "InvalidInstanceID.NotFound", Class::Dependency),
        ("acme", "urn:ietf:params:acme:error:badNonce", Class::Conflict),
        ("", "urn:ietf:params:acme:error:badNonce", Class::Conflict),
        ("kubernetes", "AlreadyExists", Class::Conflict),
        ("postgresql", "40001", Class::Conflict),
    ] {
        let found = found("http", "400", domain, reason);
        assert_eq!(found.class, class, "{domain} {reason}, by {}", found.rule);
    }
    assert_eq!(find("http", "400", "urn:ietf:params:acme:error:badNonce").class, Class::Conflict);
    let leader = find("grpc", "FAILED_PRECONDITION", "etcdserver: not leader");
    assert_eq!(leader.class, Class::Transient);
    // Without its domain, a reason that only resembles one of another service decides nothing.
    assert_eq!(found("http", "503", "", "INSTANCE_CHANNEL_FULL").class, Class::Throttled);
    assert_eq!(found("grpc", "NOT_FOUND", "compute.example", "NotFound").class, Class::Dependency);
    // An unknown reason leaves the code bare.
    let bare = found("grpc", "FAILED_PRECONDITION", "shop.example", "CART_IS_CLOSED");
    assert_eq!((bare.class, bare.holds()), (Class::Blocked, false));
}

#[test]
fn a_bare_code_with_two_meanings_is_shown_and_not_held() {
    let hints = |hints: Hints, system: &str, code: &str| {
        classify(&Rules::default(), &Evidence { hints, ..evidence(system, code, "") })
    };
    for (system, code) in [
        ("grpc", "INVALID_ARGUMENT"),
        ("grpc", "FAILED_PRECONDITION"),
        ("grpc", "UNIMPLEMENTED"),
        ("http", "400"),
        ("http", "405"),
        ("http", "422"),
    ] {
        let found = find(system, code, "");
        assert_eq!((found.class, found.holds()), (Class::Blocked, false), "{system} {code}");
        assert!(!found.remedy.is_empty(), "{system} {code}");
    }
    let by_user = Hints { user_input: Some(true), ..Hints::default() };
    let by_person = Hints { machine_resolvable: Some(false), ..Hints::default() };
    for (given, system, code) in [
        (by_user, "grpc", "INVALID_ARGUMENT"),
        (by_user, "http", "400"),
        (by_user, "http", "422"),
        (by_person, "grpc", "FAILED_PRECONDITION"),
    ] {
        let found = hints(given, system, code);
        assert_eq!((found.class, found.holds()), (Class::Blocked, true), "{system} {code}");
    }
    for (system, code) in [("http", "401"), ("http", "403"), ("grpc", "UNAUTHENTICATED")] {
        assert!(find(system, code, "").holds(), "{system} {code}");
    }
}

/// Counts the lines of a list of codes that a row has.
fn covered(list: &str, find: impl Fn(&str) -> Finding) -> (usize, Vec<String>) {
    let lines: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    let left = lines.iter().filter(|line| &*find(line).rule == "default");
    (lines.len(), left.map(ToString::to_string).collect())
}

#[test]
fn the_tables_have_95_of_100_codes_of_their_programs() {
    let word = |line: &str| line.split(' ').next().unwrap_or_default().to_string();
    let rest = |line: &str, words: usize| {
        line.splitn(words + 1, ' ').nth(words).unwrap_or_default().to_string()
    };
    let named = |line: &str| {
        let evidence = evidence("http", "400", "");
        let said = Evidence { domain: "aws".into(), reason: word(line).into(), ..evidence };
        let found = classify(&Rules::default(), &said);
        let is_bare = found.rule.starts_with("http.");
        if is_bare { find("none", "", "") } else { found }
    };
    let lists: [(&str, (usize, Vec<String>)); 7] = [
        (
            "etcd",
            covered(include_str!("../data/error-lists/etcd.txt"), |line| {
                let found = find("grpc", &word(line), &rest(line, 1));
                if found.rule.starts_with("grpc.") { find("none", "", "") } else { found }
            }),
        ),
        (
            "helm",
            covered(include_str!("../data/error-lists/helm.txt"), |line| {
                find("helm", "", &rest(line, 2))
            }),
        ),
        (
            "redis",
            covered(include_str!("../data/error-lists/redis.txt"), |line| {
                find("redis", &word(line), "")
            }),
        ),
        (
            "postgresql",
            covered(include_str!("../data/error-lists/postgresql.txt"), |line| {
                find("postgresql", &word(line), "")
            }),
        ),
        (
            "mysql",
            covered(include_str!("../data/error-lists/mysql.txt"), |line| {
                find("mysql", &word(line), "")
            }),
        ),
        ("botocore", covered(include_str!("../data/error-lists/botocore.txt"), named)),
        (
            "exceptions of botocore",
            covered(include_str!("../data/error-lists/botocore-exceptions.txt"), |line| {
                find("python", &format!("botocore.exceptions.{line}"), "")
            }),
        ),
    ];
    for (name, (count, left)) in &lists {
        println!("{name}: {} of {count}; left: {left:?}", count - left.len());
        assert!(10 < *count, "{name}");
    }
    for (name, (count, left)) in lists {
        assert!(left.len() * 20 <= count, "{name}: {} of {count} left: {left:?}", left.len());
    }
}
