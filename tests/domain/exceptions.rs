//! The exceptions of Python that charms meet: each has a class, or a reason why it has none.

use std::collections::BTreeSet;

use bellwether::domain::classify::finding::Class::{Blocked, Dependency, Transient, Unclassified};
use bellwether::domain::classify::finding::{DEFAULT, Finding};

use crate::case::find;

/// Names that only tell what happened together with a field of the exception, with a value of
/// that field. The Python package adds the field.
const BY_FIELD: [(&str, &str); 13] = [
    ("ops.pebble.APIError", "404"),
    ("ops.pebble.PathError", "not-found"),
    ("ops.pebble.ExecError", "127"),
    ("httpx.HTTPStatusError", "503"),
    ("requests.exceptions.HTTPError", "401"),
    ("urllib.error.HTTPError", "503"),
    ("lightkube.core.exceptions.ApiError", "409"),
    ("kubernetes.client.exceptions.ApiException", "404"),
    ("kubernetes.client.rest.ApiException", "403"),
    ("subprocess.CalledProcessError", "75"),
    ("botocore.exceptions.ClientError", "http 503"),
    ("grpc._channel._InactiveRpcError", "grpc UNAVAILABLE"),
    ("grpc.RpcError", "grpc UNAVAILABLE"),
];

/// The Python package reports the exception of the last attempt in its place.
const BY_INNER_EXCEPTION: [&str; 1] = ["tenacity.RetryError"];

/// Names that tell nothing about the cause, with the rule that gives the reason.
const UNCLASSIFIED: [(&str, &str); 7] = [
    ("ops.pebble.ChangeError", "pebble.change-error"),
    ("ops.pebble.ProtocolError", "pebble.protocol-error"),
    ("builtins.KeyError", "python.defect"),
    ("builtins.AttributeError", "python.defect"),
    ("builtins.RuntimeError", "python.runtime-error"),
    ("builtins.ValueError", "python.defect"),
    ("builtins.AssertionError", "python.defect"),
];

/// 52 names have a class by themselves, 13 by a field, and 1 by its inner exception.
#[test]
fn sixty_six_of_the_73_exceptions_of_charms_have_a_class() {
    let names = include_str!("../data/python-exceptions.txt");
    let names: Vec<&str> = names.lines().filter(|line| !line.starts_with('#')).collect();
    let open = names.iter().filter(|name| found(name).class == Unclassified);
    let open: BTreeSet<&str> = open.copied().collect();
    assert_eq!((names.len(), names.len() - open.len()), (73, 52));

    let by_field = BY_FIELD.iter().map(|(name, _)| *name);
    let with_more: BTreeSet<&str> = by_field.chain(BY_INNER_EXCEPTION).collect();
    let nameless: BTreeSet<&str> = UNCLASSIFIED.iter().map(|(name, _)| *name).collect();
    assert_eq!(open, &with_more | &nameless);
    assert_eq!(names.len() - nameless.len(), 66);
}

#[test]
fn every_exception_of_charms_has_a_reason() {
    let names = include_str!("../data/python-exceptions.txt");
    for name in names.lines().filter(|line| !line.starts_with('#')) {
        let found = found(name);
        assert!(&*found.rule != DEFAULT && !found.explanation.is_empty(), "{name}");
    }
    for (name, rule) in UNCLASSIFIED {
        assert_eq!(&*found(name).rule, rule);
    }
    assert_eq!(&*found("shop.errors.SomethingNew").rule, DEFAULT);
}

#[test]
fn a_field_decides_where_the_name_leaves_it_open() {
    for (name, field) in BY_FIELD {
        let (system, code) = match field.split_once(' ') {
            Some((system, code)) => (system, code.to_string()),
            None => ("python", format!("{name}/{field}")),
        };
        let found = find(system, &code, "");
        assert_ne!(found.class, Unclassified, "{code}");
    }
}

#[test]
fn an_exit_status_decides_if_it_has_a_common_meaning() {
    let cases = [
        ("1", Unclassified),
        ("100", Unclassified),
        ("128", Unclassified),
        ("255", Unclassified),
        ("69", Transient),
        ("75", Transient),
        ("124", Transient),
        ("126", Blocked),
        ("127", Dependency),
        ("-9", Transient),
        ("-64", Transient),
        ("-65", Unclassified),
        ("137", Transient),
        ("143", Transient),
        ("192", Transient),
        ("193", Unclassified),
        ("99999999999999999999", Unclassified),
        ("", Unclassified),
    ];
    for name in ["subprocess.CalledProcessError", "ops.pebble.ExecError"] {
        for (status, class) in cases {
            let found = found(&format!("{name}/{status}"));
            assert_eq!(found.class, class, "{name}/{status}");
            assert_ne!(&*found.rule, DEFAULT, "{name}/{status}");
        }
    }
}

#[test]
fn an_unknown_field_leaves_the_class_to_the_name() {
    let cases = [
        ("ops.pebble.PathError/generic-file-error", "pebble.path-error"),
        ("charmlibs.snap._errors.SnapError/charmlibs-snap", "package.failed"),
        ("ops.pebble.APIError/302", "pebble.no-status"),
        ("lightkube.core.exceptions.ApiError/302", "http.redirect"),
        ("shop.errors.SomethingNew/404", "http.404"),
        ("shop.errors.SomethingNew/no-such", DEFAULT),
    ];
    for (code, rule) in cases {
        assert_eq!(&*found(code).rule, rule, "{code}");
    }
}

fn found(code: &str) -> Finding {
    find("python", code, "")
}
