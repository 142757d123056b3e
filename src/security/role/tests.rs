//! Grants and patterns, against a naive model of the rules.

use proptest::prelude::*;

use super::file::Roles;
use super::*;
use crate::security::identity::{Kind, Principal};

const FILE: &str = r#"
[[grant]]
role = "worker"
to = ["token:web-0"]
namespace = "default"
application = "web"
unit = "web/0"
[[grant]]
role = "reader"
to = ["token:reader", "dns:reader"]
namespace = "default"
application = "web*"
[[grant]]
role = "reader"
to = ["token:data"]
namespace = "default"
application = "web"
data = true
[[grant]]
role = "operator"
to = ["uri:spiffe://example.org/operator/*"]
namespace = "*"
application = "*"
[[grant]]
role = "worker"
to = ["jwt:k8s:*"]
namespace = "${namespace}"
application = "web"
unit = "${pod}"
"#;

fn grants(kind: Kind, subject: &str, facts: &[(&'static str, &str)]) -> Grants {
    let mut principal = Principal::new(kind, subject);
    principal.facts.extend(facts.iter().map(|(name, value)| (*name, value.to_string())));
    Roles::parse(FILE).unwrap().of(&principal)
}

#[test]
fn a_worker_acts_as_its_unit_and_reads_its_application() {
    let worker = grants(Kind::Token, "web-0", &[]);
    assert!(worker.allow(Need::Act("default", "web", "web/0")));
    assert!(worker.allow(Need::Read("default", "web")));
    assert!(worker.allow(Need::Data("default", "web")));
    for need in [
        Need::Act("default", "web", "web/1"),
        Need::Act("default", "web", "web/00"),
        Need::Act("default", "web", "WEB/0"),
        Need::Act("default", "web", "web/0 "),
        Need::Act("default", "web", ""),
        Need::Act("default", "api", "web/0"),
        Need::Act("other", "web", "web/0"),
        Need::Read("other", "web"),
        Need::Read("default", "web-admin"),
        Need::Operate("default", "web"),
        Need::List(Some("default")),
        Need::List(None),
    ] {
        assert!(!worker.allow(need), "{need:?}");
    }
}

#[test]
fn readers_and_operators_have_no_more_than_their_patterns() {
    let reader = grants(Kind::Dns, "reader", &[]);
    assert!(reader.allow(Need::Read("default", "web")));
    assert!(reader.allow(Need::Read("default", "web-admin")));
    assert!(!reader.allow(Need::Read("default", "we")));
    assert!(!reader.allow(Need::Data("default", "web")));
    assert!(!reader.allow(Need::List(Some("default"))), "of applications that start with web");
    assert!(grants(Kind::Token, "data", &[]).allow(Need::Data("default", "web")));
    let operator = grants(Kind::Uri, "spiffe://example.org/operator/alice", &[]);
    assert!(operator.allow(Need::Operate("any", "thing")) && operator.allow(Need::List(None)));
    assert!(!operator.allow(Need::Act("any", "thing", "thing/0")), "no worker");
    for (kind, subject) in [
        (Kind::Token, "spiffe://example.org/operator/alice"),
        (Kind::Uri, "spiffe://example.org/operator"),
        (Kind::Uri, "spiffe://example.org.evil/operator/alice"),
        (Kind::Token, "WEB-0"),
        (Kind::Dns, "web-0"),
    ] {
        assert_eq!(grants(kind, subject, &[]), Grants::default(), "{subject}");
    }
}

#[test]
fn facts_are_filled_in_exactly_or_the_grant_is_left_out() {
    let pod = |facts| grants(Kind::Jwt, "k8s:system:serviceaccount:prod:web", facts);
    let worker = pod(&[("namespace", "prod"), ("pod", "web-7f9c")]);
    assert!(worker.allow(Need::Act("prod", "web", "web-7f9c")));
    assert!(!worker.allow(Need::Act("prod", "web", "web-7f9d")));
    assert!(!worker.allow(Need::Act("default", "web", "web-7f9c")));
    assert_eq!(pod(&[("namespace", "prod")]), Grants::default());
    let star = pod(&[("namespace", "*"), ("pod", "*")]);
    assert!(!star.allow(Need::Act("prod", "web", "web-7f9c")), "a fact is no pattern");
}

#[test]
fn a_file_with_a_mistake_is_refused_as_a_whole() {
    let with = |text: &str| {
        let base = "role = 'reader'\nto = ['token:a']\nnamespace = 'n'\napplication = 'a'\n";
        format!("[[grant]]\n{}", text.replace("BASE", base))
    };
    for (text, expected) in [
        (String::new(), "no [[grant]]"),
        ("[[grant]".into(), ""),
        (with("BASE unit = 'u'"), "only a worker"),
        (with("BASE deny = true"), "unknown field"),
        (with("BASE").replace("reader", "admin"), "none of worker"),
        (with("BASE").replace("reader", "worker"), "needs a unit"),
        (with("BASE").replace("'n'", "''"), "empty pattern"),
        (with("BASE").replace("'n'", "'a*b'"), "no pattern"),
        (with("BASE").replace("'n'", "'**'"), "no pattern"),
        (with("BASE").replace("'n'", "'${host}'"), "no fact"),
        (with("BASE").replace("token:a", "a"), "no principal"),
        (with("BASE").replace("token:a", "token:*a"), "no principal"),
        (with("BASE").replace("['token:a']", "[]"), "names no principal"),
        (with("BASE data = true").replace("reader", "operator"), "data is for readers"),
        (with("role = 'reader'"), "missing field"),
    ] {
        let error = Roles::parse(&text).expect_err(&text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn many_bindings_count_each() {
    let bindings = 70_000;
    let entry = |n: usize| {
        format!(
            "[[grant]]\nrole = 'worker'\nto = ['token:t{n}']\nnamespace = 'default'\n\
             application = 'a{n}'\nunit = '*'\n"
        )
    };
    let roles = Roles::parse(&(0..bindings).map(entry).collect::<String>()).unwrap();
    for n in [0, 1, 65_535, 65_536, bindings - 1] {
        let grants = roles.of(&Principal::new(Kind::Token, format!("t{n}")));
        assert_eq!(grants.0.len(), 1);
        assert!(grants.allow(Need::Act("default", &format!("a{n}"), "u")));
        assert!(!grants.allow(Need::Read("default", &format!("a{}", n + 1))));
    }
}

/// The rules, as simple as they can be said.
fn naive(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some("") => true,
        Some(start) => name.starts_with(start) && !name[start.len()..].contains('/'),
        None => pattern == name,
    }
}

proptest! {
    #[test]
    fn grants_agree_with_a_naive_model(
        patterns in prop::array::uniform3("[ab]{1,2}/?\\*?|\\*"),
        names in prop::array::uniform3("[ab]{1,2}(/[ab])?"),
        role in 0..3_usize,
        data: bool,
    ) {
        let (word, role) = Role::WORDS[role];
        let [namespace, application, unit] = &patterns;
        let mut text = format!(
            "[[grant]]\nrole = '{word}'\nto = ['token:t']\nnamespace = '{namespace}'\n\
             application = '{application}'\n"
        );
        if role == Role::Worker {
            text.push_str(&format!("unit = '{unit}'\n"));
        }
        let data = data && role == Role::Reader;
        text.push_str(if data { "data = true\n" } else { "" });
        let grants = Roles::parse(&text).unwrap().of(&Principal::new(Kind::Token, "t"));
        let [n, a, u] = names.each_ref().map(String::as_str);
        let app = naive(namespace, n) && naive(application, a);
        prop_assert_eq!(
            grants.allow(Need::Act(n, a, u)), role == Role::Worker && app && naive(unit, u));
        prop_assert_eq!(grants.allow(Need::Read(n, a)), app);
        prop_assert_eq!(grants.allow(Need::Data(n, a)), app && (role != Role::Reader || data));
        prop_assert_eq!(grants.allow(Need::Operate(n, a)), app && role == Role::Operator);
        let lists = role != Role::Worker && application == "*";
        prop_assert_eq!(grants.allow(Need::List(Some(n))), lists && naive(namespace, n));
        prop_assert_eq!(grants.allow(Need::List(None)), lists && namespace == "*");
    }
}
