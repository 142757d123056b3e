"""The errors of calls: one class for each code, with the reason that the server gives."""

from __future__ import annotations

from ._texts import line

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Mapping, Optional, Tuple, Type


class Error(Exception):
    """A call that failed. Programs decide by `reason`; the message is for people.

    The reasons of the server are in docs/errors.md. The client itself gives the reasons
    UNREACHABLE, TLS_FAILED, NO_ANSWER and INVALID_ANSWER.
    """

    code = "unknown"

    def __init__(
        self,
        message: str,
        *,
        reason: str = "",
        metadata: Optional[Mapping[str, str]] = None,
        retry_after: Optional[float] = None,
        violations: Optional[List[Tuple[str, str]]] = None,
    ) -> None:
        # The texts of a peer can have any characters, and errors are printed and logged.
        self.message = line(message)
        super().__init__(self.message)
        self.reason = line(reason) or self.code.upper()
        #: Whether the peer gave a reason, as a server of Bellwether does with each error.
        self.has_reason = bool(reason)
        #: Facts of the message, by name.
        self.metadata: Dict[str, str] = {
            line(name): line(value) for name, value in dict(metadata or {}).items()
        }
        #: Seconds after which the call may be repeated, or None.
        self.retry_after = retry_after
        #: Each wrong field of the request with its description.
        self.violations: List[Tuple[str, str]] = [
            (line(field), line(description)) for field, description in violations or []
        ]

    def __str__(self) -> str:
        return "{} [{}]".format(self.message, self.reason)


class Canceled(Error):
    """The call was cancelled."""

    code = "canceled"


class Unknown(Error):
    """An error without a code."""

    code = "unknown"


class InvalidArgument(Error):
    """The request is wrong; `violations` names the fields."""

    code = "invalid_argument"


class DeadlineExceeded(Error):
    """There was no answer in time; a mutation may have been applied."""

    code = "deadline_exceeded"


class NotFound(Error):
    """The application, the unit or the operation does not exist."""

    code = "not_found"


class AlreadyExists(Error):
    """The object exists already."""

    code = "already_exists"


class PermissionDenied(Error):
    """The caller is known, but has no grant for this call."""

    code = "permission_denied"


class ResourceExhausted(Error):
    """A limit is reached, or requests arrive too fast."""

    code = "resource_exhausted"


class FailedPrecondition(Error):
    """The state of the application does not allow this call now, for example NOT_LEADER."""

    code = "failed_precondition"


class Aborted(Error):
    """Another client was faster: read again, then decide again."""

    code = "aborted"


class OutOfRange(Error):
    """A value is beyond what the server has, for example an expired resume token."""

    code = "out_of_range"


class Unimplemented(Error):
    """The server does not have this method."""

    code = "unimplemented"


class Internal(Error):
    """The server or the client has a defect."""

    code = "internal"


class Unavailable(Error):
    """The server was not reached, or cannot answer now."""

    code = "unavailable"


class DataLoss(Error):
    """A stored record cannot be read."""

    code = "data_loss"


class Unauthenticated(Error):
    """The credentials are missing, wrong or expired."""

    code = "unauthenticated"


class Unreachable(Unavailable):
    """No connection to the server, or the connection was lost. Reason UNREACHABLE."""


class TlsFailed(Unavailable):
    """The certificate of the server or of this client is refused. Reason TLS_FAILED; no retry."""


_CLASSES = {
    one.code: one
    for one in (
        Canceled,
        Unknown,
        InvalidArgument,
        DeadlineExceeded,
        NotFound,
        AlreadyExists,
        PermissionDenied,
        ResourceExhausted,
        FailedPrecondition,
        Aborted,
        OutOfRange,
        Unimplemented,
        Internal,
        Unavailable,
        DataLoss,
        Unauthenticated,
    )
}
# The codes of answers without an error of Connect, for example from a proxy.
_STATUSES = {
    400: "internal",
    401: "unauthenticated",
    403: "permission_denied",
    404: "unimplemented",
    429: "unavailable",
    502: "unavailable",
    503: "unavailable",
    504: "unavailable",
}


def from_wire(error: Mapping[str, Any]) -> Error:
    """Returns the exception for an error of Connect in JSON. Never raises."""
    kind: Type[Error] = _CLASSES.get(str(error.get("code")), Unknown)
    reason, retry_after = "", None
    metadata: Dict[str, str] = {}
    violations: List[Tuple[str, str]] = []
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        shown = detail.get("debug") if isinstance(detail, dict) else None
        if not isinstance(shown, dict):
            continue
        name = str(detail.get("type")).rpartition("/")[2]
        if name == "google.rpc.ErrorInfo":
            facts = shown.get("metadata")
            reason, metadata = str(shown.get("reason", "")), facts if isinstance(facts, dict) else {}
        elif name == "google.rpc.RetryInfo":
            retry_after = _seconds(shown.get("retryDelay"))
        elif name == "google.rpc.BadRequest":
            fields = shown.get("fieldViolations")
            for one in fields if isinstance(fields, list) else ():
                if isinstance(one, dict):
                    violations.append((str(one.get("field")), str(one.get("description"))))
    return kind(
        str(error.get("message") or "the server gave no message"),
        reason=reason,
        metadata=metadata,
        retry_after=retry_after,
        violations=violations,
    )


def _seconds(text: Any) -> Optional[float]:
    """Returns a duration of proto JSON; None if it is none."""
    try:
        found = float(str(text).rstrip("s"))
    except ValueError:
        return None
    return found if 0 <= found < 1e9 else None


def from_status(status: int, body: bytes) -> Error:
    """Returns the exception for an answer of HTTP whose status is not 200."""
    import json

    try:
        error = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError):
        error = None
    if isinstance(error, dict) and "code" in error:
        return from_wire(error)
    text = body[:200].decode("utf-8", "replace").strip()
    kind: Type[Error] = _CLASSES[_STATUSES.get(status, "unknown")]
    return kind("the answer has the status {} of HTTP: {}".format(status, text))
