//! The table for exceptions of Python, and the short names of exceptions in it.
//!
//! A short name is the package and the class: `requests.exceptions.ReadTimeout`, as Python gives it
//! by `__module__` and `__qualname__`, is `requests.ReadTimeout`. Built-in exceptions have no
//! package.
//! A row has: code, condition, class, name, and why.

use crate::domain::classify::finding::Class::{
    Blocked, Dependency, Fatal, Gone as TargetGone, Interrupted, Transient, Unclassified,
};
use crate::domain::classify::row::When::{Always, Gone, OurInput};
use crate::domain::classify::row::{Row, rows};

/// Returns the short name of an exception.
pub fn short_name(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let package = match *parts {
        ["builtins", _] | [_] => None,
        ["ops", "pebble", ..] => Some("pebble"),
        // A library of a charm is a module that the charm has copied, or a package of charmlibs.
        ["charms", .., module, _] | ["charmlibs", module, ..] => Some(module),
        [package, ..] => Some(package),
        [] => None,
    };
    let class = parts.last().copied().unwrap_or_default();
    package.map_or_else(|| class.to_string(), |package| format!("{package}.{class}"))
}

/// By the short name of the exception; `4xx` and `5xx` match every status of their hundred, and
/// `signal` the exit status of a command that a signal ended.
pub const PYTHON: &[Row] = rows! {
    "pebble.ConnectionError"               Always    Transient     "pebble.connection-error"
        "Pebble does not answer: its container may be starting";
    "pebble.APIError/5xx"                  Always    Transient     "pebble.api-error.5xx"
        "Pebble had an internal error";
    "pebble.APIError/empty"                Always    Transient     "pebble.api-error.empty"
        "an answer without a body is from a proxy, or was cut off";
    "pebble.APIError/4xx"                  OurInput  Fatal         "pebble.api-error.ours"
        "the worker made the request itself, so every repeat is refused as well";
    "pebble.APIError/4xx"                  Always    Blocked       "pebble.api-error"
        "Pebble refused what a person configured"
        remedy "correct the configuration that this was made from";
    "pebble.TimeoutError"                  Always    Transient     "pebble.timeout-error"
        "Pebble continues the change: look at the change before the next attempt";
    "pebble.ChangeError"                   Always    Unclassified  "pebble.change-error"
        "the failed task of the change has the cause, and no code says which";
    "pebble.ExecError/69"                  Always    Transient     "pebble.exec.unavailable"
        "by its exit status 69, the command did not reach what it needs";
    "pebble.ExecError/75"                  Always    Transient     "pebble.exec.temporary"
        "by its exit status 75, the failure of the command is temporary";
    "pebble.ExecError/124"                 Always    Transient     "pebble.exec.timeout"
        "by its exit status 124, the command took too long; it may have had an effect";
    "pebble.ExecError/126"                 Always    Blocked       "pebble.exec.not-executable"
        "by its exit status 126, the file of the command may not be executed"
        remedy "correct the permissions of the command";
    "pebble.ExecError/127"                 Always    Dependency    "pebble.exec.not-found"
        "by its exit status 127, the command does not exist yet";
    "pebble.ExecError/signal"              Always    Transient     "pebble.exec.signal"
        "a signal ended the command, which may have had an effect";
    "pebble.ExecError"                     Always    Unclassified  "pebble.exec-error"
        "the command alone defines what this exit status means";
    "pebble.PathError/not-found"           Always    Dependency    "pebble.path-error.not-found"
        "the file does not exist yet";
    "pebble.PathError/permission-denied"   Always    Blocked       "pebble.path-error.permission"
        "the process may not use the file"
        remedy "correct the permissions of the file";
    "pebble.ProtocolError"                 Always    Unclassified  "pebble.protocol-error"
        "Pebble sent an answer that the library does not understand";
    "httpx.ConnectError" | "httpx.ConnectTimeout"
    | "httpx.PoolTimeout"                  Always    Transient     "httpx.not-sent"
        "there was no connection, so the request was not sent";
    "httpx.ReadError" | "httpx.ReadTimeout" | "httpx.WriteError" | "httpx.WriteTimeout"
    | "httpx.RemoteProtocolError"          Always    Transient     "httpx.sent"
        "the request was sent without a whole answer: look whether the peer applied it";
    "httpx.LocalProtocolError" | "httpx.UnsupportedProtocol"
    | "httpx.InvalidURL"                   Always    Fatal         "httpx.own-request"
        "the worker itself made a request that is not valid";
    "httpx.DecodingError"                  Always    Fatal         "httpx.decoding-error"
        "the worker cannot decode the answer, and the next answer is encoded in the same way";
    "requests.ConnectionError"
    | "requests.ConnectTimeout"            Always    Transient     "requests.not-sent"
        "the request was not sent, or the connection broke";
    "requests.Timeout" | "requests.ReadTimeout"
    | "requests.ChunkedEncodingError"      Always    Transient     "requests.sent"
        "the request was sent without a whole answer: look whether the peer applied it";
    "requests.InvalidURL" | "requests.InvalidSchema" | "requests.MissingSchema"
    | "requests.InvalidHeader"             Always    Fatal         "requests.own-request"
        "the worker itself made a request that is not valid";
    "lightkube.ConditionError"             Always    Unclassified  "lightkube.condition-error"
        "the object has a condition that the worker counts as failure";
    "lightkube.ObjectDeleted"              Gone      TargetGone    "lightkube.object-deleted.gone"
        "the owner reports, with a registered reason, that the target is gone";
    "lightkube.ObjectDeleted"              Always    Dependency    "lightkube.object-deleted"
        "the object does not exist any more, and may be created again";
    "lightkube.NotReadyError"              Always    Dependency    "lightkube.not-ready"
        "the object is not ready yet";
    "lightkube.LoadResourceError"          Always    Fatal         "lightkube.load-resource"
        "the manifest of the worker is not valid";
    "requests.SSLError"                    Always    Blocked       "requests.certificate"
        "the certificate of the peer is not trusted"
        remedy "correct the certificate, or give the CA";
    "requests.JSONDecodeError"             Always    Transient     "requests.no-json"
        "an answer that is no JSON is from a proxy, or was cut off";
    "requests.HTTPError"                   Always    Unclassified  "requests.no-status"
        "the status decides: report the code as requests.HTTPError/STATUS";
    "httpx.HTTPStatusError"                Always    Unclassified  "httpx.no-status"
        "the status decides: report the code as httpx.HTTPStatusError/STATUS";
    "urllib.HTTPError"                     Always    Unclassified  "urllib.no-status"
        "the status decides: report the code as urllib.HTTPError/STATUS";
    "urllib.URLError"                      Always    Transient     "urllib.not-sent"
        "the request was not sent, or the connection broke";
    "urllib3.MaxRetryError" | "urllib3.NewConnectionError"
    | "urllib3.ProtocolError"              Always    Transient     "urllib3.not-sent"
        "the request was not sent, or the connection broke";
    "urllib3.ReadTimeoutError"             Always    Transient     "urllib3.sent"
        "the request was sent without a whole answer: look whether the peer applied it";
    "lightkube.ApiError"                   Always    Unclassified  "lightkube.no-status"
        "the status decides: report the code as lightkube.ApiError/STATUS";
    "lightkube.ConfigError"                Always    Blocked       "lightkube.config"
        "the worker has no access to a cluster"
        remedy "give the workload a service account, or a kubeconfig";
    "kubernetes.ApiException"              Always    Unclassified  "kubernetes.no-status"
        "the status decides: report the code as kubernetes.ApiException/STATUS";
    "pebble.APIError"                      Always    Unclassified  "pebble.no-status"
        "the status decides: report the code as pebble.APIError/STATUS";
    "pebble.PathError"                     Always    Unclassified  "pebble.path-error"
        "the kind decides if it is not-found or permission-denied: pebble.PathError/KIND";
    "ops.ModelError"
    | "ops.Error"                          Always    Transient     "ops.model-error"
        "a command of Juju failed: its controller is away, or the model has changed meanwhile";
    "ops.SecretNotFoundError"              Always    Dependency    "ops.secret"
        "the secret does not exist yet, or is not granted yet";
    "ops.RelationNotFoundError"            Always    Dependency    "ops.relation"
        "the relation does not exist yet";
    "ops.TooManyRelatedAppsError"          Always    Blocked       "ops.relations"
        "the charm expects one related application"
        remedy "remove the relations that are not needed";
    "ops.RelationDataAccessError"          Always    Dependency    "ops.relation-data"
        "only the leader or the owner of these data may use them, and the unit is neither now";
    "ConnectionRefusedError"
    | "socket.gaierror"                    Always    Transient     "python.not-sent"
        "the peer or its name was not there, so the request was not sent";
    "ConnectionError" | "ConnectionResetError" | "ConnectionAbortedError" | "BrokenPipeError"
    | "TimeoutError" | "socket.timeout"
    | "asyncio.TimeoutError"               Always    Transient     "python.connection"
        "the connection broke or was silent: look whether the peer applied the request";
    "FileNotFoundError"                    Always    Dependency    "python.file-not-found"
        "the file does not exist yet";
    "PermissionError"                      Always    Blocked       "python.permission"
        "the process may not use the file or socket"
        remedy "correct the permissions of the file or socket";
    "OSError"                              Always    Transient     "python.os-error"
        "the system refused a call, which says nothing about the target";
    "KeyError" | "IndexError" | "AttributeError" | "TypeError" | "ValueError" | "AssertionError"
    | "NotImplementedError" | "UnboundLocalError" | "NameError"
    | "ZeroDivisionError"                  Always    Unclassified  "python.defect"
        "the program has a defect, or met data that it does not expect";
    "RuntimeError"                         Always    Unclassified  "python.runtime-error"
        "each program gives this exception a meaning of its own";
    "MemoryError"                          Always    Transient     "python.memory"
        "the process had no memory left: a new process can succeed";
    "ImportError"
    | "ModuleNotFoundError"                Always    Fatal         "python.import"
        "a module is missing, and the next attempt misses it as well";
    "asyncio.CancelledError" | "KeyboardInterrupt"
    | "SystemExit"                         Always    Interrupted   "python.interrupted"
        "the end of the program says nothing about its work, which continues";
    "ssl.SSLCertVerificationError"         Always    Blocked       "ssl.certificate"
        "the certificate of the peer is not trusted"
        remedy "correct the certificate, or give the CA";
    "ssl.SSLError"                         Always    Transient     "ssl.error"
        "the TLS handshake failed, or the connection broke";
    "json.JSONDecodeError"                 Always    Transient     "json.decode-error"
        "text that is no JSON was cut off, or is from another program than expected";
    "subprocess.CalledProcessError/69"     Always    Transient     "subprocess.exit.unavailable"
        "by its exit status 69, the command did not reach what it needs";
    "subprocess.CalledProcessError/75"     Always    Transient     "subprocess.exit.temporary"
        "by its exit status 75, the failure of the command is temporary";
    "subprocess.CalledProcessError/124"    Always    Transient     "subprocess.exit.timeout"
        "by its exit status 124, the command took too long; it may have had an effect";
    "subprocess.CalledProcessError/126"    Always    Blocked       "subprocess.exit.not-executable"
        "by its exit status 126, the file of the command may not be executed"
        remedy "correct the permissions of the command";
    "subprocess.CalledProcessError/127"    Always    Dependency    "subprocess.exit.not-found"
        "by its exit status 127, the command does not exist yet";
    "subprocess.CalledProcessError/signal" Always    Transient     "subprocess.exit.signal"
        "a signal ended the command, which may have had an effect";
    "subprocess.CalledProcessError"        Always    Unclassified  "subprocess.failed"
        "the command alone defines what this exit status means";
    "subprocess.TimeoutExpired"            Always    Transient     "subprocess.timeout"
        "the command took too long, and may have had an effect";
    "tenacity.RetryError"                  Always    Unclassified  "tenacity.retry-error"
        "the last attempt decides: report the exception of that attempt";
    "psycopg2.OperationalError" | "psycopg.OperationalError" | "mysql.OperationalError"
    | "mysql.InterfaceError" | "pymongo.ServerSelectionTimeoutError" | "pymongo.AutoReconnect"
    | "cassandra.NoHostAvailable" | "kafka.NoBrokersAvailable" | "redis.ConnectionError"
    | "redis.TimeoutError" | "valkey.ConnectionError"
    | "valkey.TimeoutError"                Always    Transient     "database.away"
        "no server answers now";
    "botocore.EndpointConnectionError"
    | "botocore.ConnectTimeoutError"       Always    Transient     "botocore.away"
        "no server answers now";
    "psycopg2.UndefinedTable"              Always    Dependency    "database.schema"
        "the table does not exist yet";
    "botocore.ClientError"                 Always    Unclassified  "botocore.client-error"
        "the status decides: report the system http with its status";
    "grpc._InactiveRpcError" | "grpc.RpcError"
    | "grpc.AioRpcError"                   Always    Unclassified  "grpc.no-code"
        "the code decides: report the system grpc with its code";
    "apt.PackageError" | "snap.SnapError" | "snap.SnapAPIError" | "snap.SnapChangeError"
    | "snap.SnapTimeoutError"              Always    Transient     "package.failed"
        "the package manager failed: another process holds its lock, or no archive answers";
    "apt.PackageNotFoundError"
    | "snap.SnapNotFoundError"             Always    Blocked       "package.not-found"
        "the package does not exist"
        remedy "correct the name or the channel of the package";
};

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::domain::classify::finding::{DEFAULT, ErrorOrigin, Evidence, Finding, Hints};
    use crate::domain::classify::{Rules, classify};

    #[test]
    fn short_names_have_the_package_and_the_class() {
        let cases = [
            ("ops.pebble.ConnectionError", "pebble.ConnectionError"),
            ("pebble.ConnectionError", "pebble.ConnectionError"),
            ("ops.model.ModelError", "ops.ModelError"),
            ("requests.exceptions.ReadTimeout", "requests.ReadTimeout"),
            ("lightkube.core.exceptions.ApiError", "lightkube.ApiError"),
            ("builtins.KeyError", "KeyError"),
            ("KeyError", "KeyError"),
            ("charms.operator_libs_linux.v0.apt.PackageError", "apt.PackageError"),
            ("charmlibs.snap._errors.SnapError", "snap.SnapError"),
            ("", ""),
            ("..", "."),
        ];
        for (name, short) in cases {
            assert_eq!(short_name(name), short);
        }
    }

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
        let names = include_str!("../../../tests/data/python-exceptions.txt");
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
        let names = include_str!("../../../tests/data/python-exceptions.txt");
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
            let found = found_in(system, &code);
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
            ("lightkube.core.exceptions.ApiError/302", DEFAULT),
            ("shop.errors.SomethingNew/404", DEFAULT),
        ];
        for (code, rule) in cases {
            assert_eq!(&*found(code).rule, rule, "{code}");
        }
    }

    fn found(code: &str) -> Finding {
        found_in("python", code)
    }

    fn found_in(system: &str, code: &str) -> Finding {
        let evidence = Evidence {
            system: system.into(),
            code: code.into(),
            origin: ErrorOrigin::Peer,
            outcome: None,
            domain: "".into(),
            reason: "".into(),
            message: "".into(),
            retry_after: None,
            hints: Hints::default(),
        };
        classify(&Rules::default(), &evidence)
    }
}
