"""What an exception says about a failed call: a report, and a verdict if no server answers."""

from __future__ import annotations

import time

from . import _evidence, _rules, _texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

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
#: First and longest wait between two attempts, as the server has them.
FIRST_WAIT, THROTTLED_WAIT, WAIT_MAX, DEPENDENCY_WAIT = 0.25, 1.0, 180.0, 30.0
ACTIONS = {
    "TRANSIENT": "RETRY",
    "UNCLASSIFIED": "RETRY",
    "THROTTLED": "RETRY_AFTER",
    "CONFLICT": "REREAD",
    "INTERRUPTED": "RESUME",
    "DEPENDENCY": "DEFER",
    "BLOCKED": "BLOCK",
    "FATAL": "HALT",
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
    distrust = _distrust(error)
    if distrust is not None and not _evidence.read(error).answered:
        # The libraries of HTTP show an untrusted certificate as a lost connection.
        report: Dict[str, Any] = {
            "system": "python",
            "code": _name(distrust),
            "origin": "ERROR_ORIGIN_LOCAL",
            "message": _said(error),
        }
    else:
        report = _of_cause(error)
    report["code"] = _texts.cut(report["code"], CODE_BYTES_MAX)
    report["message"] = _texts.cut(report["message"] or type(error).__name__)
    report["internal_detail"] = _traceback(error)
    return report


def _of_cause(error: BaseException) -> Dict[str, Any]:
    """Returns the report on the first exception of a chain that has a class, else on the first."""
    first: Dict[str, Any] = {}
    for one in _chain(error):
        report = _of_one(one)
        first = first or report
        if _rules.verdict(report)[0] != "UNCLASSIFIED":
            said = _said(error)
            if report["message"] not in said:
                report["message"] = ": ".join(part for part in (said, report["message"]) if part)
            return report if report is first or not _is_answer(first) else first
    return first


def _is_answer(report: Dict[str, Any]) -> bool:
    return bool(report["origin"] == "ERROR_ORIGIN_PEER")


def _of_one(error: BaseException) -> Dict[str, Any]:
    """Returns the report on one exception: what it carries, and who answered."""
    found = _evidence.read(error)
    system, code = found.system or "python", found.code
    if system == "python":
        name = _name(error)
        code = _with_detail(error, name, found)
    report: Dict[str, Any] = {"system": system, "code": code, "message": _said(error)}
    if found.reason:
        report.update(domain=found.domain, reason=found.reason)
    wait = _retry_after(error) if found.retry_after is None else found.retry_after
    if wait is not None:
        report["retry_after"] = wait
    report["origin"] = "ERROR_ORIGIN_PEER"
    if not found.answered:
        report["origin"] = _origin(error, report)
    return report


def _origin(error: BaseException, report: Dict[str, Any]) -> str:
    """Returns the origin of an error without a status: a refusal of the caller is an answer."""
    if report["system"] == "grpc":
        return "ERROR_ORIGIN_TRANSPORT"
    if not _is_unanswered(error):
        return "ERROR_ORIGIN_LOCAL"
    kind = _rules.verdict(report)[0]
    is_path = kind in _rules.UNANSWERED or kind == "UNCLASSIFIED"
    return "ERROR_ORIGIN_TRANSPORT" if is_path else "ERROR_ORIGIN_PEER"


def _with_detail(error: BaseException, name: str, found: _evidence.Found) -> str:
    """Returns the name of an exception with its status, exit status or kind."""
    if found.status:
        return "{}/{}".format(name, found.status)
    exit_status = getattr(error, EXIT_STATUSES.get(name, ""), None)
    if isinstance(exit_status, int):
        return "{}/{}".format(name, int(exit_status))
    kind = getattr(error, "kind", None)
    if isinstance(kind, str) and kind:
        return "{}/{}".format(name, _texts.name(kind))
    return name


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())


def _chain(error: BaseException) -> List[BaseException]:
    """Returns an exception and its causes: that of the driver of a database, and `__cause__`."""
    found: List[BaseException] = []
    left: List[Any] = [error]
    while left and len(found) < CAUSES_MAX:
        one = left.pop(0)
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            left += [getattr(one, "orig", None), getattr(one, "reason", None), one.__cause__]
    return found


def verdict_of(report: Dict[str, Any], attempt: int) -> Dict[str, Any]:
    """Returns a verdict without a server: its classes, and its waits without jitter."""
    kind, holds = _rules.verdict(report)
    action = ACTIONS[kind]
    base = THROTTLED_WAIT if kind == "THROTTLED" else FIRST_WAIT
    wait: Optional[float] = min(base * float(2 ** min(attempt - 1, 20)), WAIT_MAX)
    if action == "DEFER":
        wait = DEPENDENCY_WAIT
    elif action == "RESUME":
        wait = 0.0
    elif action in ("BLOCK", "HALT"):
        wait = None if holds else WAIT_MAX
    if wait is not None and report.get("retry_after") is not None:
        wait = max(wait, report["retry_after"])
    if wait is not None:
        wait = max(wait, report.get("shortest_wait") or 0.0)
    has_retry_after = report.get("retry_after") is not None
    if action == "RETRY" and has_retry_after:
        action = "RETRY_AFTER"
    return {
        "class": "ERROR_CLASS_" + kind,
        "action": "VERDICT_ACTION_" + action,
        "retry_after": wait,
        "retry_time": None,
        "attempt": attempt,
        "attempts_left": max(0, 10 - attempt),
        "rule": "local",
        "explanation": "the server was not reached; this is the class by the tables alone",
        "held": holds,
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


def _name(error: BaseException) -> str:
    """Returns the full name of the class, or of the first of its bases that a row names.

    Classes of the charm itself name nothing.
    """
    outside: List[str] = []
    for one in type(error).__mro__:
        if one in (Exception, BaseException, object):
            break
        name = "{}.{}".format(one.__module__, one.__qualname__)
        if _rules.is_known(name):
            return name
        if one.__module__.split(".")[0] not in ("__main__", "charm", "charms"):
            outside.append(name)
    kind = type(error)
    return outside[0] if outside else "{}.{}".format(kind.__module__, kind.__qualname__)


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
