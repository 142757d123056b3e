"""The class of exceptions of many libraries, in the shapes that their servers cause.

The libraries are not installed here: an exception has the names, the bases and the fields that the library gives it.
"""

import errno
import json
import re
import socket
import ssl
import subprocess
import unittest
from pathlib import Path

from server import ServerCase

from bellwether_client import _classify, _evidence, _rules

CASES = Path(__file__).resolve().parents[3] / "tests" / "data" / "error-cases.yaml"
#: Cases that accept UNCLASSIFIED beside a class and end there, at most three, each with its reason.
LEFT_OPEN = CASES.with_name("error-cases-left-open.yaml")
OPEN = re.compile(r'- \{id: (\S+), why: "[^"]+"\}')
LINE = re.compile(r'- \{ids: \[([^]]+)\], exception: "([^"]+)".* class: \[([^]]+)\]')


def kind(name, *bases):
    """Returns a class with the full name of that of a library."""
    module, _, short = name.rpartition(".")
    made = type(short, bases or (Exception,), {})
    made.__module__, made.__qualname__ = module, short
    return made


class Fields:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def with_fields(error, **fields):
    for name, value in fields.items():
        setattr(error, name, value)
    return error


def response(status, document=None, **headers):
    content = json.dumps(document).encode() if document is not None else b""
    return Fields(status_code=status, _content=content, headers=headers)


def aws(status, code):
    error = kind("botocore.exceptions.ClientError")("An error occurred ({})".format(code))
    answer = {"Error": {"Code": code, "Message": "m"}}
    answer["ResponseMetadata"] = {"HTTPStatusCode": status}
    return with_fields(error, response=answer)


class Rpc(Exception):
    """A call of gRPC that failed."""

    def __init__(self, code, details, trailing=()):
        super().__init__(details)
        self._found = code, details, trailing

    def code(self):
        return Fields(name=self._found[0])

    def details(self):
        return self._found[1]

    def trailing_metadata(self):
        return self._found[2]


REQUESTS = kind("requests.exceptions.RequestException", OSError)
LOST = kind("requests.exceptions.ConnectionError", REQUESTS)
HTTP = kind("requests.exceptions.HTTPError", REQUESTS)
PG = kind("psycopg.OperationalError", kind("psycopg.DatabaseError", kind("psycopg.Error")))
REDIS = kind("redis.exceptions.RedisError")
REDIS_LOST = kind("redis.exceptions.ConnectionError", REDIS)
RESPONSE = kind("redis.exceptions.ResponseError", REDIS)
MYSQL = kind("pymysql.err.OperationalError", kind("pymysql.err.DatabaseError"))
#: SQLSTATEs of the classes of psycopg.
STATES = {
    "UndefinedTable": "42P01",
    "SerializationFailure": "40001",
    "DeadlockDetected": "40P01",
    "AdminShutdown": "57P01",
    "CrashShutdown": "57P02",
    "CannotConnectNow": "57P03",
    "ReadOnlySqlTransaction": "25006",
    "InsufficientPrivilege": "42501",
    "InvalidPassword": "28P01",
    "UniqueViolation": "23505",
    "DiskFull": "53100",
    "TooManyConnections": "53300",
    "LockNotAvailable": "55P03",
    "UndefinedColumn": "42703",
    "QueryCanceled": "57014",
}


def postgresql(name):
    return with_fields(kind("psycopg.errors." + name, PG)("no"), sqlstate=STATES[name])


def tried_again(inner):
    last = Fields(exception=lambda: inner)
    return with_fields(kind("tenacity.RetryError")("RetryError"), last_attempt=last)


def sql(inner):
    error = kind("sqlalchemy.exc.OperationalError")("(driver) {}".format(inner))
    return with_fields(error, orig=inner)


def http(status, **more):
    return with_fields(HTTP("{} Error".format(status)), response=response(status, **more))


def made(full, *bases, message="no", **fields):
    return with_fields(kind(full, *bases)(message), **fields)


def one_of(case, full):
    """Returns the exception of a case by its id."""
    name = full.rpartition(".")[2]
    if case.startswith("pg3-") and name in STATES:
        return postgresql(name)
    if case.startswith("my-"):
        number = case[3:]
        return MYSQL(int(number), "x") if number.isdigit() else MYSQL(2003, "refused")
    if case.startswith("aws-") and full.endswith("ClientError"):
        status = {"TooManyRequestsException": 429, "NoSuchBucket": 404}.get(case[4:], 400)
        forbidden = ("ExpiredTokenException", "RequestTimeTooSkewed", "AccessDenied")
        return aws(403 if case[4:] in forbidden else status, case[4:])
    return SHAPES[case]()


UNTRUSTED = ssl.SSLCertVerificationError(1, "certificate verify failed")
AIO = kind("aiohttp.client_exceptions.ClientError")
AIO_LOST = kind("aiohttp.client_exceptions.ClientConnectionError", AIO)
BOTO = kind("botocore.exceptions.BotoCoreError")
BOTO_HTTP = kind("botocore.exceptions.HTTPClientError", BOTO)
OPENSTACK = kind("openstack.exceptions.HttpException", kind("openstack.exceptions.SDKException"))
K8S = "kubernetes.client.exceptions.ApiException"
LIGHTKUBE = "lightkube.core.exceptions.ApiError"
PEBBLE = kind("ops.pebble.Error")
CLI = kind("jubilant._juju.CLIError", subprocess.CalledProcessError)
SHAPES = {
    "py1": lambda: LOST("refused"),
    "py2": lambda: LOST("no such name"),
    "py11": lambda: LOST("closed"),
    "py4": lambda: http(404),
    "py6": lambda: http(429),
    "py8": lambda: made(
        "requests.exceptions.TooManyRedirects", REQUESTS, response=response(302)
    ),
    "py10": lambda: json.JSONDecodeError("no", "x", 0),
    "py13": lambda: made("httpx.HTTPStatusError", response=response(401)),
    "py15": lambda: made("aiohttp.client_exceptions.ClientConnectorError", AIO_LOST),
    "py17-401": lambda: made("aiohttp.client_exceptions.ClientResponseError", AIO, status=401),
    "py17-404": lambda: made("aiohttp.client_exceptions.ClientResponseError", AIO, status=404),
    "py17-429": lambda: made("aiohttp.client_exceptions.ClientResponseError", AIO, status=429),
    "py18": lambda: made("aiohttp.client_exceptions.ServerDisconnectedError", AIO_LOST),
    "py21": lambda: kind("requests.exceptions.SSLError", LOST)(UNTRUSTED),
    "py23": lambda: Rpc("UNAVAILABLE", "refused"),
    "py24": lambda: Rpc("UNAVAILABLE", "no such name"),
    "py25": lambda: Rpc("UNAVAILABLE", "closed"),
    "aws-nocreds": lambda: made("botocore.exceptions.NoCredentialsError", BOTO),
    "aws-endpoint": lambda: made("botocore.exceptions.EndpointConnectionError", BOTO_HTTP),
    "aws-closed": lambda: made("botocore.exceptions.ConnectionClosedError", BOTO_HTTP),
    "aws-noregion": lambda: made("botocore.exceptions.NoRegionError", BOTO),
    "pg3-refused": lambda: with_fields(PG("connection refused"), sqlstate=None),
    "pg-nodb": lambda: made(
        "psycopg2.OperationalError", message='FATAL:  database "shop" does not exist', pgcode=None
    ),
    "mc-denied": lambda: made(
        "mysql.connector.errors.ProgrammingError", errno=1045, sqlstate="28000"
    ),
    "sa-refused": lambda: sql(with_fields(PG("connection refused"), sqlstate=None)),
    "sa-mysql": lambda: sql(MYSQL(2003, "refused")),
    "rd-refused": lambda: REDIS_LOST("Error 111 connecting"),
    "rd-noperm": lambda: made("redis.exceptions.NoPermissionError", RESPONSE),
    "rd-loading": lambda: made("redis.exceptions.BusyLoadingError", REDIS_LOST),
    "rd-nomaster": lambda: made("redis.sentinel.MasterNotFoundError", REDIS_LOST),
    "rd-cluster": lambda: made("redis.exceptions.ClusterDownError", RESPONSE),
    "os-ConflictException-409": lambda: made(
        "openstack.exceptions.ConflictException", OPENSTACK, status_code=409
    ),
    "os-ForbiddenException-403": lambda: made(
        "openstack.exceptions.ForbiddenException", OPENSTACK, status_code=403
    ),
    "os-HttpException-503": lambda: with_fields(OPENSTACK("no"), status_code=503),
    "os-connect": lambda: made("keystoneauth1.exceptions.connection.ConnectFailure"),
    "k8s-403": lambda: made(K8S, status=403, reason="Forbidden", body=None),
    "k8s-410": lambda: made(K8S, status=410, reason="Gone", body=None),
    "k8s-0": lambda: made(K8S, status=0, reason=None, body=None),
    "lk-403": lambda: made(LIGHTKUBE, status=Fields(code=403, reason="Forbidden")),
    "lk-404": lambda: made(LIGHTKUBE, status=Fields(code=404, reason="NotFound")),
    "pb-400service": lambda: made("ops.pebble.APIError", PEBBLE, code=400, status="Bad Request"),
    "pb-start": lambda: made("ops.pebble.ChangeError", PEBBLE),
    "os-emfile": lambda: OSError(errno.EMFILE, "too many open files"),
    "os-nohost": lambda: OSError(errno.EHOSTUNREACH, "no route to host"),
    "os-isdir": lambda: IsADirectoryError(errno.EISDIR, "is a directory"),
    "sub-jubilant": lambda: CLI(127, ["juju"]),
    "tenacity": lambda: tried_again(http(403)),
}


class Exceptions(ServerCase):
    def classes(self, error):
        """Returns the class of an exception without a server, and that of the server."""
        report = _classify.report_of(error)
        self.faults = getattr(self, "faults", 0) + 1
        names = {"component": "part-{}".format(self.faults), "target": "peer"}
        application = self.id().rpartition(".")[2].replace("_", "-")[:60]
        answer = self.client().report_error(
            application=application, unit=application + "/0", error=dict(report, **names)
        )
        alone = _classify.verdict_of(report, 1)
        there = answer["verdict"]
        self.assertEqual(alone["class"], there["class"], report)
        self.assertEqual(alone["held"], there["held"], report)
        self.assertEqual(alone["action"], there["action"], report)
        return report, there["class"].rpartition("_")[2], there["held"]

    def test_real_exceptions_have_the_class_that_a_careful_engineer_gives_them(self):
        cases, left_open = [], []
        for line in CASES.read_text(encoding="utf-8").splitlines():
            found = LINE.match(line)
            if not found:
                continue
            accepted = found.group(3).split(", ")
            for case in found.group(1).split(", "):
                with self.subTest(case):
                    error = one_of(case, found.group(2))
                    report, got, held = self.classes(error)
                    self.assertIn(got, accepted, report)
                    passes = accepted[0] not in ("BLOCKED", "FATAL", "GONE")
                    self.assertFalse(held and passes, report)
                    if got == "UNCLASSIFIED" and len(accepted) > 1:
                        left_open.append(case)
                    cases.append(case)
        self.assertEqual(len(cases), 82)
        listed = OPEN.findall(LEFT_OPEN.read_text(encoding="utf-8"))
        self.assertLessEqual(len(listed), 3)
        self.assertEqual(sorted(left_open), sorted(set(listed) & set(cases)))

    def test_the_code_of_a_service_is_reported_beside_that_of_the_protocol(self):
        problem = {"type": "urn:ietf:params:acme:error:badNonce", "detail": "no"}
        status = {"kind": "Status", "reason": "AlreadyExists"}
        for error, domain, reason, got in (
            (aws(400, "ThrottlingException"), "aws", "ThrottlingException", "THROTTLED"),
            (aws(400, "RequestTimeout"), "aws", "RequestTimeout", "TRANSIENT"),
            (aws(400, "ConditionalCheckFailedException"), "aws", None, "CONFLICT"),
            (aws(400, "ResourceNotFoundException"), "aws", None, "DEPENDENCY"),
            (http(400, document=problem), "acme", problem["type"], "CONFLICT"),
            (made(K8S, status=409, reason="Conflict", body=json.dumps(status)), "kubernetes",
             "AlreadyExists", "CONFLICT"),
            (postgresql("DiskFull"), "postgresql", "53100", "BLOCKED"),
            (MYSQL(1213, "Deadlock found"), "mysql", "1213", "CONFLICT"),
            (OSError(errno.ENOSPC, "no space left"), "errno", "ENOSPC", "BLOCKED"),
        ):
            with self.subTest(str(error)):
                report, found, _ = self.classes(error)
                self.assertEqual(report.get("domain"), domain)
                self.assertIn(reason, (report.get("reason"), None))
                self.assertEqual(found, got)

    def test_the_details_of_a_call_of_grpc_are_read(self):
        def field(number, content):
            return bytes([number << 3 | 2, len(content)]) + content

        info = field(1, b"STOCKOUT") + field(2, b"shop.example")
        kind_of = b"type.googleapis.com/google.rpc."
        details = field(3, field(1, kind_of + b"ErrorInfo") + field(2, info))
        delay = field(1, bytes([1 << 3, 7]))
        details += field(3, field(1, kind_of + b"RetryInfo") + field(2, delay))
        error = Rpc("ABORTED", "no", (("grpc-status-details-bin", details),))
        report = _classify.report_of(error)
        said = [report.get(name) for name in ("system", "code", "domain", "reason", "retry_after")]
        self.assertEqual(said, ["grpc", "ABORTED", "shop.example", "STOCKOUT", 7.0])
        for cut in range(len(details)):
            error = Rpc("ABORTED", "no", (("grpc-status-details-bin", details[:cut]),))
            self.assertEqual(_classify.report_of(error)["code"], "ABORTED")

    def test_a_refused_login_is_an_answer_although_its_base_is_a_lost_connection(self):
        refused = made("redis.exceptions.AuthenticationError", REDIS_LOST, message="WRONGPASS no")
        report, got, held = self.classes(refused)
        self.assertEqual((report["origin"], got, held), ("ERROR_ORIGIN_PEER", "BLOCKED", True))
        self.assertEqual(report["code"], "redis.exceptions.AuthenticationError")
        lost = _classify.report_of(REDIS_LOST("Error 111 connecting"))
        self.assertEqual(lost["origin"], "ERROR_ORIGIN_TRANSPORT")

    def test_the_bases_and_the_causes_of_an_exception_are_tried(self):
        docker = kind("docker.errors.APIError", HTTP)("409 Conflict")
        docker.response = response(409)
        own = kind("shop.errors.Refused", kind("shop.errors.Base", PermissionError))
        cause = RuntimeError("the shop is closed")
        cause.__cause__ = ConnectionRefusedError(errno.ECONNREFUSED, "refused")
        defect = made("shop.errors.Lost", KeyError)
        for error, code, got in (
            (docker, "docker.errors.APIError/409", "CONFLICT"),
            (CLI(127, ["juju"]), "subprocess.CalledProcessError/127", "DEPENDENCY"),
            (own(errno.EACCES, "no"), "builtins.PermissionError", "BLOCKED"),
            (cause, "builtins.ConnectionRefusedError", "TRANSIENT"),
            (defect, "builtins.KeyError", "UNCLASSIFIED"),
            (sql(postgresql("InvalidPassword")), "psycopg.errors.InvalidPassword", "BLOCKED"),
            (made("shop.errors.Failed", status_code=503), "shop.errors.Failed/503", "TRANSIENT"),
            (socket.gaierror(-2, "no such name"), "socket.gaierror", "TRANSIENT"),
        ):
            with self.subTest(code):
                report, found, _ = self.classes(error)
                self.assertEqual((report["code"], found), (code, got))
        # An answer of the outer exception counts, whatever its cause.
        answered = http(500)
        answered.__cause__ = ConnectionResetError("reset")
        self.assertEqual(_classify.report_of(answered)["code"], "requests.exceptions.HTTPError/500")

    def test_a_code_that_may_pass_is_not_held_without_a_server_either(self):
        report, got, held = self.classes(Rpc("INVALID_ARGUMENT", "no"))
        self.assertEqual((got, held), ("BLOCKED", False))
        self.assertEqual(_classify.verdict_of(report, 1)["retry_after"], 180.0)

    def test_an_exception_with_odd_fields_is_read(self):
        class Odd(Exception):
            @property
            def response(self):
                raise RuntimeError("no response")

        for error in (
            Odd("x"),
            made("pymysql.err.OperationalError"),
            made("psycopg.Error", sqlstate=7),
            made(K8S, status=409, body="{no json"),
            made(K8S, status=409, body="[]"),
            with_fields(HTTP("x"), response=response(400, document={"type": 7})),
        ):
            self.assertTrue(_classify.report_of(error)["code"])
        self.assertEqual(_evidence.read(made("x.Y", response={"Error": None})).system, "")


class OlderServer(unittest.TestCase):
    def test_a_reason_that_an_older_server_refuses_is_left_out(self):
        from bellwether_client import _deliver, errors

        taken = []

        def report_error(**request):
            if request["error"].get("reason"):
                wrong = [("error.reason", "is \"23505\"; write UPPER_SNAKE")]
                raise errors.InvalidArgument("no", reason="INVALID_VALUE", violations=wrong)
            taken.append(request["error"])
            return {"verdict": {"class": "CONFLICT"}, "revision": 1}

        client = Fields(report_error=report_error)
        courier = _deliver.Courier(lambda: client, 5.0, {"namespace": "", "application": "web"})
        error = {"code": "psycopg.errors.UniqueViolation", "domain": "postgresql", "reason": "23505"}
        self.assertEqual(courier.call("report_error", error=error)["revision"], 1)
        self.assertEqual(taken, [{"code": "psycopg.errors.UniqueViolation"}])


class Tables(unittest.TestCase):
    def test_the_names_of_exceptions_are_shortened_as_by_the_server(self):
        for name, short in (
            ("ops.pebble.ConnectionError", "pebble.ConnectionError"),
            ("ops.model.ModelError", "ops.ModelError"),
            ("builtins.KeyError", "KeyError"),
            ("charms.operator_libs_linux.v0.apt.PackageError", "apt.PackageError"),
            ("charmlibs.snap._errors.SnapError", "snap.SnapError"),
        ):
            self.assertEqual(_rules.short_name(name), short)


if __name__ == "__main__":
    unittest.main()
