"""What an exception says about a failed call: a report, and a verdict if no server answers."""

from __future__ import annotations

import time

from . import _texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

DETAIL_BYTES_MAX = 60_000
CODE_BYTES_MAX = 253
#: Classes whose instances had no answer of the target, by name: their packages are not imported.
UNANSWERED = (
    "ChunkedEncodingError",
    "ConnectError",
    "ConnectTimeout",
    "ConnectTimeoutError",
    "ConnectionError",
    "EndpointConnectionError",
    "MaxRetryError",
    "NewConnectionError",
    "NoBrokersAvailable",
    "NoHostAvailable",
    "PoolTimeout",
    "ProtocolError",
    "ReadError",
    "ReadTimeout",
    "ReadTimeoutError",
    "RemoteProtocolError",
    "ServerSelectionTimeoutError",
    "Timeout",
    "TimeoutError",
    "URLError",
    "WriteError",
    "WriteTimeout",
    "timeout",
)
#: Failed commands, with the field that has the exit status; the server knows common ones.
EXIT_STATUSES = {
    "subprocess.CalledProcessError": "returncode",
    "ops.pebble.ExecError": "exit_code",
}
#: Longest chain of exceptions that is searched for its cause.
CAUSES_MAX = 16
GRPC_UNANSWERED = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", "UNKNOWN")
#: First and longest wait between two attempts, as the server has them.
FIRST_WAIT, WAIT_MAX, DEPENDENCY_WAIT = 0.25, 180.0, 30.0
ACTIONS = {
    "TRANSIENT": "RETRY",
    "UNCLASSIFIED": "RETRY",
    "THROTTLED": "RETRY_AFTER",
    "CONFLICT": "REREAD",
    "DEPENDENCY": "DEFER",
    "BLOCKED": "BLOCK",
}


def report_of(error: BaseException) -> Dict[str, Any]:
    """Returns an `ErrorReport` without component and target. Never raises."""
    try:
        return _report_of(_last_attempt(error))
    except Exception as odd:
        # An exception may have any attributes, and texts that cannot be read.
        kind = type(error)
        code = _texts.cut("{}.{}".format(kind.__module__, kind.__qualname__), CODE_BYTES_MAX)
        said = "{} ({} while it was read)".format(kind.__name__, type(odd).__name__)
        report = {"system": "python", "code": code, "origin": "ERROR_ORIGIN_LOCAL"}
        return dict(report, message=_texts.cut(said), internal_detail="")


def _report_of(error: BaseException) -> Dict[str, Any]:
    system, code, answered = _code(error)
    distrust = _distrust(error) if system == "python" and not answered else None
    if distrust is not None:
        # The libraries of HTTP show an untrusted certificate as a lost connection.
        code, origin = _name(distrust), "ERROR_ORIGIN_LOCAL"
    elif answered:
        origin = "ERROR_ORIGIN_PEER"
    elif _is_unanswered(error) or system == "grpc":
        origin = "ERROR_ORIGIN_TRANSPORT"
    else:
        origin = "ERROR_ORIGIN_LOCAL"
    said = " ".join(str(error).split())
    report: Dict[str, Any] = {
        "system": system,
        "code": _texts.cut(code, CODE_BYTES_MAX),
        "origin": origin,
        "message": _texts.cut(said or type(error).__name__),
        "internal_detail": _traceback(error),
    }
    wait = _retry_after(error)
    if wait is not None:
        report["retry_after"] = wait
    return report


def verdict_of(report: Dict[str, Any], attempt: int) -> Dict[str, Any]:
    """Returns a verdict without a server: coarse classes, and the waits of the server."""
    kind = _class(report)
    action = ACTIONS[kind]
    wait: Optional[float] = min(FIRST_WAIT * float(2 ** min(attempt - 1, 20)), WAIT_MAX)
    if action == "DEFER":
        wait = DEPENDENCY_WAIT
    elif action == "BLOCK":
        wait = None
    if wait is not None and report.get("retry_after") is not None:
        wait = max(wait, report["retry_after"])
    if wait is not None:
        wait = max(wait, report.get("shortest_wait") or 0.0)
    return {
        "class": "ERROR_CLASS_" + kind,
        "action": "VERDICT_ACTION_" + action,
        "retry_after": wait,
        "retry_time": None,
        "attempt": attempt,
        "attempts_left": max(0, 10 - attempt),
        "rule": "local",
        "explanation": "the server was not reached; this is the class by origin and status alone",
        "held": action == "BLOCK",
    }


def level_of(fault: Dict[str, Any]) -> str:
    """Returns the level that an open error shows, as the server decides it; empty: none."""
    kind = fault["verdict"]["class"]
    if kind in ("ERROR_CLASS_BLOCKED", "ERROR_CLASS_GONE", "ERROR_CLASS_FATAL"):
        return "blocked"
    if kind == "ERROR_CLASS_DEPENDENCY":
        return "waiting"
    if kind in ("ERROR_CLASS_TRANSIENT", "ERROR_CLASS_UNCLASSIFIED"):
        lasts = time.time() - fault["first"]
        return "waiting" if fault["count"] >= 3 or lasts >= 30 else ""
    return ""


def _code(error: BaseException) -> Tuple[str, str, bool]:
    """Returns the system, the code in it, and whether the target answered."""
    code = getattr(error, "code", None)
    if callable(code) and hasattr(error, "details"):
        status = getattr(code(), "name", "UNKNOWN")
        return "grpc", status, status not in GRPC_UNANSWERED
    response = getattr(error, "response", None)
    status = _status(error, response)
    if isinstance(response, dict) and status:
        return "http", status, True
    name = _name(error)
    if status:
        return "python", "{}/{}".format(name, status), True
    exit_status = getattr(error, EXIT_STATUSES.get(name, ""), None)
    if isinstance(exit_status, int):
        return "python", "{}/{}".format(name, int(exit_status)), False
    kind = getattr(error, "kind", None)
    if isinstance(kind, str) and kind:
        return "python", "{}/{}".format(name, _texts.name(kind)), True
    return "python", name, False


def _status(error: BaseException, response: Any) -> str:
    found = getattr(response, "status_code", None)
    if isinstance(response, dict):
        found = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if found is None:
        found = getattr(error, "code", None)
    if found is None:
        found = getattr(error, "status", None)
        found = getattr(found, "code", found)
    is_status = isinstance(found, int) and not isinstance(found, bool) and 100 <= found < 600
    return str(found) if is_status else ""


def _name(error: BaseException) -> str:
    """Returns the full name of the class, or of the first base class outside of the charm."""
    for one in type(error).__mro__:
        if one in (Exception, BaseException, object):
            break
        if one.__module__.split(".")[0] not in ("__main__", "charm", "charms"):
            return "{}.{}".format(one.__module__, one.__qualname__)
    kind = type(error)
    return "{}.{}".format(kind.__module__, kind.__qualname__)


def _class(report: Dict[str, Any]) -> str:
    status = report["code"].rpartition("/")[2]
    if report["origin"] == "ERROR_ORIGIN_TRANSPORT":
        return "TRANSIENT"
    if status in ("126", "401", "403", "permission-denied") or report["code"].endswith(
        ("PermissionError", "SSLCertVerificationError")
    ):
        return "BLOCKED"
    if status in ("127", "404", "not-found") or report["code"].endswith(
        ("FileNotFoundError", "RelationNotFoundError", "SecretNotFoundError")
    ):
        return "DEPENDENCY"
    if status in ("409", "412"):
        return "CONFLICT"
    if status == "429":
        return "THROTTLED"
    return "TRANSIENT" if len(status) == 3 and status.startswith("5") else "UNCLASSIFIED"


def _is_unanswered(error: BaseException) -> bool:
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    names = [one.__name__ for one in type(error).__mro__]
    return "gaierror" in names or any(name in UNANSWERED for name in names)


def _last_attempt(error: BaseException) -> BaseException:
    """Returns the exception inside of tenacity.RetryError."""
    last = getattr(error, "last_attempt", None)
    try:
        inner = last.exception() if last is not None else None
    except Exception:
        inner = None
    return inner if isinstance(inner, BaseException) else error


def _distrust(error: BaseException) -> Optional[BaseException]:
    """Returns the exception of an untrusted certificate among the causes of an exception."""
    one: Any = error
    for _ in range(CAUSES_MAX):
        if not isinstance(one, BaseException):
            return None
        if type(one).__name__ == "SSLCertVerificationError":
            return one
        # urllib and urllib3 have the cause as a reason, requests and urllib3 as an argument.
        inner = one.args[0] if one.args else None
        given = (getattr(one, "reason", None), inner, one.__cause__)
        one = next((cause for cause in given if isinstance(cause, BaseException)), None)
    return None


def _retry_after(error: BaseException) -> Optional[float]:
    given: Any = getattr(error, "retry_after", None)
    headers: Any = getattr(getattr(error, "response", None), "headers", None)
    if given is None and hasattr(headers, "get"):
        given = headers.get("Retry-After")
    try:
        wait = float(given)
    except (TypeError, ValueError):
        return None
    return min(wait, 86400.0) if wait > 0 else None


def _traceback(error: BaseException) -> str:
    import traceback

    lines = traceback.format_exception(type(error), error, error.__traceback__)
    text = "".join(lines).encode("utf-8", "replace")
    # The end of a traceback says most.
    return text[-DETAIL_BYTES_MAX:].decode("utf-8", "ignore")
