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
pub(in crate::domain) fn short_name(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').collect();
    let package = match *parts {
        ["builtins", _] | [_] => None,
        ["ops", "pebble", ..] => Some("pebble"),
        // A library of a charm is a module that the charm has copied.
        ["charms", .., module, _] => Some(module),
        [package, ..] => Some(package),
        [] => None,
    };
    let class = parts.last().copied().unwrap_or_default();
    package.map_or_else(|| class.to_string(), |package| format!("{package}.{class}"))
}

/// By the short name of the exception; `4xx` and `5xx` match every status of their hundred.
pub(in crate::domain) const PYTHON: &[Row] = rows! {
    "pebble.ConnectionError"              Always    Transient     "pebble.connection-error"
        "Pebble is not there: its container may be starting";
    "pebble.APIError/5xx"                 Always    Transient     "pebble.api-error.5xx"
        "Pebble failed inside";
    "pebble.APIError/empty"               Always    Transient     "pebble.api-error.empty"
        "an answer without a body is a proxy's, or was cut off";
    "pebble.APIError/4xx"                 OurInput  Fatal         "pebble.api-error.ours"
        "we built the request ourselves: it is wrong however often it is sent";
    "pebble.APIError/4xx"                 Always    Blocked       "pebble.api-error"
        "Pebble refused what a person configured"
        remedy "correct the configuration that this was made from";
    "pebble.TimeoutError"                 Always    Transient     "pebble.timeout-error"
        "the change continues: observe it before trying again";
    "pebble.ChangeError"                  Always    Unclassified  "pebble.change-error"
        "the change failed: retried within bounds";
    "pebble.ExecError"                    Always    Unclassified  "pebble.exec-error"
        "only the worker knows what the failure of its command means";
    "pebble.PathError/not-found"          Always    Dependency    "pebble.path-error.not-found"
        "the file is not there yet";
    "pebble.PathError/permission-denied"  Always    Blocked       "pebble.path-error.permission"
        "the file may not be touched"
        remedy "correct the permissions of the file";
    "pebble.ProtocolError"                Always    Unclassified  "pebble.protocol-error"
        "Pebble sent an unexpected answer: retried within bounds";
    "httpx.ConnectError"                  Always    Transient     "httpx.not-sent"
        "it was not sent";
    "httpx.ConnectTimeout"                Always    Transient     "httpx.not-sent"
        "it was not sent";
    "httpx.PoolTimeout"                   Always    Transient     "httpx.not-sent"
        "it was not sent";
    "httpx.ReadError"                     Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.ReadTimeout"                   Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.WriteError"                    Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.WriteTimeout"                  Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.RemoteProtocolError"           Always    Transient     "httpx.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "httpx.LocalProtocolError"            Always    Fatal         "httpx.own-request"
        "our own request is not valid";
    "httpx.UnsupportedProtocol"           Always    Fatal         "httpx.own-request"
        "our own request is not valid";
    "httpx.InvalidURL"                    Always    Fatal         "httpx.own-request"
        "our own request is not valid";
    "httpx.DecodingError"                 Always    Fatal         "httpx.decoding-error"
        "the answer cannot be read, and will not be";
    "requests.ConnectionError"            Always    Transient     "requests.not-sent"
        "it was not sent, or the connection broke";
    "requests.ConnectTimeout"             Always    Transient     "requests.not-sent"
        "it was not sent, or the connection broke";
    "requests.Timeout"                    Always    Transient     "requests.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "requests.ReadTimeout"                Always    Transient     "requests.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "requests.ChunkedEncodingError"       Always    Transient     "requests.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "requests.InvalidURL"                 Always    Fatal         "requests.own-request"
        "our own request is not valid";
    "requests.InvalidSchema"              Always    Fatal         "requests.own-request"
        "our own request is not valid";
    "requests.MissingSchema"              Always    Fatal         "requests.own-request"
        "our own request is not valid";
    "requests.InvalidHeader"              Always    Fatal         "requests.own-request"
        "our own request is not valid";
    "lightkube.ConditionError"            Always    Unclassified  "lightkube.condition-error"
        "the condition cannot come true as it is: retried within bounds";
    "lightkube.ObjectDeleted"             Gone      TargetGone    "lightkube.object-deleted.gone"
        "its owner reports, with a registered reason, that the target is gone";
    "lightkube.ObjectDeleted"             Always    Dependency    "lightkube.object-deleted"
        "it does not exist any more, but may be created again";
    "lightkube.NotReadyError"             Always    Dependency    "lightkube.not-ready"
        "it is not ready yet";
    "lightkube.LoadResourceError"         Always    Fatal         "lightkube.load-resource"
        "our own manifest is not valid";
    "requests.SSLError"                   Always    Blocked       "requests.certificate"
        "the certificate of the peer is not trusted"
        remedy "correct the certificate, or give the CA";
    "requests.JSONDecodeError"            Always    Transient     "requests.no-json"
        "an answer that is no JSON is a proxy's, or was cut off";
    "requests.HTTPError"                  Always    Unclassified  "requests.no-status"
        "the status decides: report the code as requests.HTTPError/STATUS";
    "httpx.HTTPStatusError"               Always    Unclassified  "httpx.no-status"
        "the status decides: report the code as httpx.HTTPStatusError/STATUS";
    "urllib.HTTPError"                    Always    Unclassified  "urllib.no-status"
        "the status decides: report the code as urllib.HTTPError/STATUS";
    "urllib.URLError"                     Always    Transient     "urllib.not-sent"
        "it was not sent, or the connection broke";
    "urllib3.MaxRetryError"               Always    Transient     "urllib3.not-sent"
        "it was not sent, or the connection broke";
    "urllib3.NewConnectionError"          Always    Transient     "urllib3.not-sent"
        "it was not sent, or the connection broke";
    "urllib3.ProtocolError"               Always    Transient     "urllib3.not-sent"
        "it was not sent, or the connection broke";
    "urllib3.ReadTimeoutError"            Always    Transient     "urllib3.sent"
        "it was sent and not answered; it may have been applied: look before trying again";
    "lightkube.ApiError"                  Always    Unclassified  "lightkube.no-status"
        "the status decides: report the code as lightkube.ApiError/STATUS";
    "lightkube.ConfigError"               Always    Blocked       "lightkube.config"
        "there is no access to a cluster"
        remedy "give the workload a service account, or a kubeconfig";
    "kubernetes.ApiException"             Always    Unclassified  "kubernetes.no-status"
        "the status decides: report the code as kubernetes.ApiException/STATUS";
    "pebble.APIError"                     Always    Unclassified  "pebble.no-status"
        "the status decides: report the code as pebble.APIError/STATUS";
    "pebble.PathError"                    Always    Unclassified  "pebble.path-error"
        "the kind decides: report the code as pebble.PathError/KIND";
    "ops.ModelError"                      Always    Unclassified  "ops.model-error"
        "a command of Juju failed: retried within bounds";
    "ops.Error"                           Always    Unclassified  "ops.model-error"
        "a command of Juju failed: retried within bounds";
    "ops.SecretNotFoundError"             Always    Dependency    "ops.secret"
        "the secret does not exist yet, or is not granted yet";
    "ops.RelationNotFoundError"           Always    Dependency    "ops.relation"
        "the relation does not exist yet";
    "ops.TooManyRelatedAppsError"         Always    Blocked       "ops.relations"
        "the charm expects one related application"
        remedy "remove the relations that are not needed";
    "ops.RelationDataAccessError"         Always    Unclassified  "ops.relation-data"
        "the unit may not access these data, perhaps as it does not lead: retried within bounds";
    "ConnectionRefusedError"              Always    Transient     "python.not-sent"
        "it was not sent: the peer or its name is not there";
    "socket.gaierror"                     Always    Transient     "python.not-sent"
        "it was not sent: the peer or its name is not there";
    "ConnectionError"                     Always    Transient     "python.connection"
        "the connection broke or was silent; a request may have been applied";
    "ConnectionResetError"                Always    Transient     "python.connection"
        "the connection broke or was silent; a request may have been applied";
    "ConnectionAbortedError"              Always    Transient     "python.connection"
        "the connection broke or was silent; a request may have been applied";
    "BrokenPipeError"                     Always    Transient     "python.connection"
        "the connection broke or was silent; a request may have been applied";
    "TimeoutError"                        Always    Transient     "python.connection"
        "the connection broke or was silent; a request may have been applied";
    "socket.timeout"                      Always    Transient     "python.connection"
        "the connection broke or was silent; a request may have been applied";
    "asyncio.TimeoutError"                Always    Transient     "python.connection"
        "the connection broke or was silent; a request may have been applied";
    "FileNotFoundError"                   Always    Dependency    "python.file-not-found"
        "the file does not exist yet";
    "PermissionError"                     Always    Blocked       "python.permission"
        "the file or socket may not be used"
        remedy "correct the permissions";
    "OSError"                             Always    Transient     "python.os-error"
        "the system refused: no evidence about the target";
    "KeyError"                            Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "IndexError"                          Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "AttributeError"                      Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "TypeError"                           Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "ValueError"                          Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "AssertionError"                      Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "NotImplementedError"                 Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "UnboundLocalError"                   Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "NameError"                           Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "ZeroDivisionError"                   Always    Unclassified  "python.defect"
        "a defect of the program, or data that it does not expect: retried within bounds";
    "RuntimeError"                        Always    Unclassified  "python.runtime-error"
        "only the program knows what it means: retried within bounds";
    "MemoryError"                         Always    Unclassified  "python.memory"
        "the process has no memory left: retried within bounds";
    "ImportError"                         Always    Fatal         "python.import"
        "a module is missing, and will be missing the next time";
    "ModuleNotFoundError"                 Always    Fatal         "python.import"
        "a module is missing, and will be missing the next time";
    "asyncio.CancelledError"              Always    Interrupted   "python.interrupted"
        "the program was ended, which says nothing about its work: continue it";
    "KeyboardInterrupt"                   Always    Interrupted   "python.interrupted"
        "the program was ended, which says nothing about its work: continue it";
    "SystemExit"                          Always    Interrupted   "python.interrupted"
        "the program was ended, which says nothing about its work: continue it";
    "ssl.SSLCertVerificationError"        Always    Blocked       "ssl.certificate"
        "the certificate of the peer is not trusted"
        remedy "correct the certificate, or give the CA";
    "ssl.SSLError"                        Always    Unclassified  "ssl.error"
        "the handshake or the connection failed: retried within bounds";
    "json.JSONDecodeError"                Always    Unclassified  "json.decode-error"
        "the text is no JSON: cut off, or of another program; retried within bounds";
    "subprocess.CalledProcessError"       Always    Unclassified  "subprocess.failed"
        "only the program knows what the failure of its command means";
    "subprocess.TimeoutExpired"           Always    Transient     "subprocess.timeout"
        "the command took too long; it may have had an effect";
    "tenacity.RetryError"                 Always    Unclassified  "tenacity.retry-error"
        "the last attempt decides: report the exception of that";
    "psycopg2.OperationalError"           Always    Transient     "database.away"
        "no server answers now";
    "psycopg.OperationalError"            Always    Transient     "database.away"
        "no server answers now";
    "mysql.OperationalError"              Always    Transient     "database.away"
        "no server answers now";
    "mysql.InterfaceError"                Always    Transient     "database.away"
        "no server answers now";
    "pymongo.ServerSelectionTimeoutError" Always    Transient     "database.away"
        "no server answers now";
    "pymongo.AutoReconnect"               Always    Transient     "database.away"
        "no server answers now";
    "cassandra.NoHostAvailable"           Always    Transient     "database.away"
        "no server answers now";
    "kafka.NoBrokersAvailable"            Always    Transient     "database.away"
        "no server answers now";
    "redis.ConnectionError"               Always    Transient     "database.away"
        "no server answers now";
    "redis.TimeoutError"                  Always    Transient     "database.away"
        "no server answers now";
    "valkey.ConnectionError"              Always    Transient     "database.away"
        "no server answers now";
    "valkey.TimeoutError"                 Always    Transient     "database.away"
        "no server answers now";
    "botocore.EndpointConnectionError"    Always    Transient     "botocore.away"
        "no server answers now";
    "botocore.ConnectTimeoutError"        Always    Transient     "botocore.away"
        "no server answers now";
    "psycopg2.UndefinedTable"             Always    Dependency    "database.schema"
        "the schema does not exist yet";
    "botocore.ClientError"                Always    Unclassified  "botocore.client-error"
        "the status decides: report the system http with its status";
    "grpc._InactiveRpcError"              Always    Unclassified  "grpc.no-code"
        "the code decides: report the system grpc with its code";
    "grpc.RpcError"                       Always    Unclassified  "grpc.no-code"
        "the code decides: report the system grpc with its code";
    "grpc.AioRpcError"                    Always    Unclassified  "grpc.no-code"
        "the code decides: report the system grpc with its code";
    "apt.PackageError"                    Always    Unclassified  "package.failed"
        "the package manager failed, or is used by another process: retried within bounds";
    "snap.SnapError"                      Always    Unclassified  "package.failed"
        "the package manager failed, or is used by another process: retried within bounds";
    "apt.PackageNotFoundError"            Always    Blocked       "package.not-found"
        "the package does not exist"
        remedy "correct the name or the channel of the package";
    "snap.SnapNotFoundError"              Always    Blocked       "package.not-found"
        "the package does not exist"
        remedy "correct the name or the channel of the package";
};

#[cfg(test)]
mod tests {
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
            ("", ""),
            ("..", "."),
        ];
        for (name, short) in cases {
            assert_eq!(short_name(name), short);
        }
    }

    /// The names that charms meet; those without a row and a reason are listed.
    #[test]
    fn the_exceptions_of_charms_are_in_the_table() {
        let names = include_str!("../../../tests/data/python-exceptions.txt");
        let names: Vec<&str> = names.lines().filter(|line| !line.starts_with('#')).collect();
        let unknown: Vec<&str> = names.iter().copied().filter(|name| !is_known(name)).collect();
        assert_eq!((names.len(), unknown), (73, vec![]));
        assert!(!is_known("shop.errors.SomethingNew"));
    }

    fn is_known(name: &str) -> bool {
        let found = found(name);
        &*found.rule != DEFAULT && !found.explanation.is_empty()
    }

    /// The package adds the field that decides to the name.
    #[test]
    fn a_field_decides_where_the_name_leaves_it_open() {
        for name in [
            "ops.pebble.APIError/404",
            "ops.pebble.PathError/not-found",
            "httpx.HTTPStatusError/503",
            "requests.exceptions.HTTPError/401",
            "urllib.error.HTTPError/503",
            "lightkube.core.exceptions.ApiError/409",
            "kubernetes.client.exceptions.ApiException/404",
            "kubernetes.client.rest.ApiException/403",
        ] {
            let (plain, _) = name.split_once('/').unwrap();
            assert_eq!(found(plain).class, Unclassified, "{plain}");
            assert_ne!(found(name).class, Unclassified, "{name}");
        }
    }

    fn found(name: &str) -> Finding {
        let evidence = Evidence {
            system: "python".into(),
            code: name.into(),
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
