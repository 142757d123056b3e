"""What an exception carries of the answer of a service: its status, and the service's own code."""

from __future__ import annotations

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, Optional, Tuple

GRPC_UNANSWERED = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN")
#: Packages whose exceptions have the number of MySQL as their first argument, or as `errno`.
MYSQL = ("pymysql", "mysql", "MySQLdb", "aiomysql", "asyncmy", "mariadb")
#: Numbers of the client of MySQL: no server answered.
MYSQL_OF_CLIENT = range(2000, 3000)
#: Body of an answer that is read: a longer one is no document about an error.
BODY_BYTES_MAX = 65_536
_REASON = re.compile(r"[!-~]{1,253}$")
_SQLSTATE = re.compile(r"[0-9A-Z]{5}$")


class Found:
    """The facts of one exception."""

    def __init__(self) -> None:
        #: The system and its code, if they are not those of Python.
        self.system = self.code = ""
        #: The HTTP status.
        self.status = ""
        #: The service's own code, and whose it is.
        self.domain = self.reason = ""
        #: Whether the target answered.
        self.answered = False
        #: Seconds that the target asks to wait.
        self.retry_after: Optional[float] = None

    def say(self, domain: str, reason: Any) -> None:
        """Keeps the code of a service, if it can be one."""
        text = str(reason) if isinstance(reason, (str, int)) else ""
        if _REASON.match(text) and not isinstance(reason, bool):
            self.domain, self.reason = domain, text


def read(error: BaseException) -> Found:
    """Reads what an exception carries."""
    found = Found()
    code = getattr(error, "code", None)
    if callable(code) and hasattr(error, "details"):
        _read_grpc(error, found, code)
        return found
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        _read_aws(response, found)
        if found.answered:
            return found
    _read_database(error, found)
    if not found.reason:
        found.status = _status(error, response)
        found.answered = bool(found.status) or isinstance(getattr(error, "kind", None), str)
        _read_document(error, response, found)
    if not found.reason and not found.status:
        _read_errno(error, found)
    return found


def _read_grpc(error: BaseException, found: Found, code: Any) -> None:
    found.system, found.code = "grpc", getattr(code(), "name", "UNKNOWN")
    found.answered = found.code not in GRPC_UNANSWERED
    metadata = getattr(error, "trailing_metadata", None)
    for key, value in (metadata() if callable(metadata) else None) or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            _read_details(value, found)


def _read_details(status: bytes, found: Found) -> None:
    """Reads the ErrorInfo and the RetryInfo of a google.rpc.Status."""
    for number, detail in _fields(status):
        if number != 3 or not isinstance(detail, bytes):
            continue
        parts = dict(_fields(detail))
        kind, value = parts.get(1), parts.get(2)
        if not isinstance(kind, bytes) or not isinstance(value, bytes):
            continue
        inner = dict(_fields(value))
        if kind.endswith(b"google.rpc.ErrorInfo"):
            found.say(_text(inner.get(2)), _text(inner.get(1)))
        elif kind.endswith(b"google.rpc.RetryInfo") and isinstance(inner.get(1), bytes):
            delay = dict(_fields(inner[1]))
            seconds, nanos = delay.get(1, 0), delay.get(2, 0)
            if isinstance(seconds, int) and isinstance(nanos, int):
                found.retry_after = min(seconds + nanos / 1e9, 86400.0)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def _fields(message: bytes) -> Iterator[Tuple[int, Any]]:
    """Yields the fields of a message: bytes, or a number. Ends where the message is malformed."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
        elif key & 7 == 2:
            size, at = _varint(message, at)
            yield key >> 3, message[at : at + size]
            at += size
        else:
            at += {1: 8, 5: 4}.get(key & 7, len(message))


def _varint(message: bytes, at: int) -> Tuple[int, int]:
    number = shift = 0
    while at < len(message) and shift < 64:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            break
    return number, at


def _read_aws(response: Dict[str, Any], found: Found) -> None:
    status = (response.get("ResponseMetadata") or {}).get("HTTPStatusCode")
    code = (response.get("Error") or {}).get("Code")
    found.say("aws", code)
    if _is_status(status):
        found.system, found.code = "http", str(status)
    elif found.reason:
        found.system, found.code = "aws", found.reason
    found.answered = bool(found.system)


def _read_database(error: BaseException, found: Found) -> None:
    """Reads the SQLSTATE of PostgreSQL, or the number of MySQL."""
    package = type(error).__module__.split(".")[0]
    bases = {one.__module__.split(".")[0] for one in type(error).__mro__}
    if bases.intersection(MYSQL):
        first = error.args[0] if error.args else None
        for number in (getattr(error, "errno", None), first):
            if isinstance(number, int) and not isinstance(number, bool) and 0 < number:
                found.say("mysql", number)
                found.answered = number not in MYSQL_OF_CLIENT
                return
        return
    for field in ("sqlstate", "pgcode"):
        state = getattr(error, field, None)
        if isinstance(state, str) and _SQLSTATE.match(state) and package != "sqlalchemy":
            found.say("postgresql", state)
            found.answered = not state.startswith("08")
            return


def _status(error: BaseException, response: Any) -> str:
    status = getattr(error, "status", None)
    given = (
        getattr(response, "status_code", None),
        getattr(response, "status", None),
        getattr(error, "status_code", None),
        getattr(error, "http_status", None),
        getattr(error, "code", None),
        getattr(status, "code", status),
    )
    return next((str(one) for one in given if _is_status(one)), "")


def _is_status(given: Any) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 100 <= given < 600


def _read_document(error: BaseException, response: Any, found: Found) -> None:
    """Reads the reason of Kubernetes, the type of problem+json, or that of ACME."""
    status = getattr(error, "status", None)
    if getattr(status, "kind", None) == "Status" or hasattr(status, "reason"):
        found.say("kubernetes", getattr(status, "reason", None))
    kind = getattr(error, "typ", None)
    if isinstance(kind, str) and "acme:error:" in kind:
        found.say("acme", kind)
        found.answered = True
    for body in (getattr(error, "body", None), getattr(response, "_content", None)):
        if not found.reason:
            _read_body(body, found)


def _read_body(body: Any, found: Found) -> None:
    if not isinstance(body, (str, bytes)) or not 0 < len(body) <= BODY_BYTES_MAX:
        return
    try:
        document = json.loads(body)
    except ValueError:
        return
    if not isinstance(document, dict):
        return
    kind = document.get("type")
    if document.get("kind") == "Status" and document.get("reason"):
        found.say("kubernetes", document["reason"])
    elif isinstance(kind, str) and kind not in ("", "about:blank") and ":" in kind:
        parts = kind.split("/")
        host = parts[2] if kind.startswith(("http://", "https://")) and 2 < len(parts) else ""
        found.say("acme" if "acme:error:" in kind else host, kind)


def _read_errno(error: BaseException, found: Found) -> None:
    """Reads the name of the number of the system, of the exceptions that Python itself raises."""
    if not isinstance(error, OSError) or type(error).__module__ not in ("builtins", "socket"):
        return
    import errno

    name = errno.errorcode.get(error.errno or 0)
    if name and type(error).__name__ != "gaierror":
        found.say("errno", name)
