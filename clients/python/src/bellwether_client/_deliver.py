"""Delivery of waiting calls in their order, within the time that a hook has for it."""

from __future__ import annotations

import time

from . import errors
from ._log import Log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from ._client import Client
    from ._state import Entry, State

logger = Log(__name__)

#: A later call cannot succeed either: the server is away, or the caller is refused.
AWAY = (errors.Unavailable, errors.DeadlineExceeded, errors.Unauthenticated, errors.Canceled)
#: This call can succeed later; others may succeed now.
LATER = (
    errors.ResourceExhausted,
    errors.Unimplemented,
    errors.PermissionDenied,
    errors.Internal,
    errors.Unknown,
    errors.DataLoss,
)
#: A call that waited longer than this is not of this hook; its ttl and its end have run since.
LATE_SECONDS = 5.0
#: Fields of a status that have a time from its report on. Pushes of an earlier version have a ttl.
SPANS = ("ttl", "end_after")
#: A page has fewer if its texts are long.
PAGE_SIZE = 1000
#: Calls of the leader.
OF_LEADER = (
    "set_application_status",
    "replace_application_statuses",
    "clear_application_status",
    "update_app_data",
)

#: A method that an older server does not have.
CALLBACK = "request_callback"
#: Calls whose answer can be empty, so that another service can give it too.
READS = ("list_statuses", "list_operations", "list_faults", "get_app_data")
#: The field that the answer of a server of Bellwether always has; of all others it is `revision`.
REQUIRED = {
    "get_server_info": "version",
    "get_operation": "operation",
    "begin_operation": "operation",
    "acquire_operation": "operation",
    "heartbeat_operation": "operation",
    "report_error": "verdict",
}


class Stranger(errors.Unavailable):
    """Another service answers at the address of the server."""


class Courier:
    """Makes the calls of one process. All of them together wait for `seconds` at most."""

    def __init__(
        self, connect: Callable[[], Optional[Client]], seconds: float, names: Dict[str, str]
    ) -> None:
        self._connect = connect
        self._client: Optional[Client] = None
        self._left = self._given = seconds
        #: Why no further call is made; empty: calls are made.
        self.closed = ""
        #: Namespace, application and unit of the calls.
        self.names = names
        #: Whether the peer has given an answer that only a server of Bellwether gives.
        self._is_known = False

    @property
    def spare(self) -> float:
        """Seconds that are left for calls."""
        return 0.0 if self.closed else max(0.0, self._left)

    @property
    def spent(self) -> float:
        """Seconds that the calls have taken."""
        return self._given - self._left

    def call(self, method: str, **request: Any) -> Any:
        """Calls the server. Raises an error of the package only."""
        if self.closed or self._left < 0.01:
            raise errors.Unavailable(self.closed or "the time of this hook is used up")
        started = time.monotonic()
        try:
            client = self._client = self._client or self._connect()
            if client is None:
                self.closed = "no address of a server is given"
                raise errors.Unavailable(self.closed)
            if (method in READS or method == CALLBACK) and not self._is_known:
                _check("get_server_info", client.get_server_info(timeout=self._left))
                self._is_known = True
            request["timeout"] = max(0.01, self._left - (time.monotonic() - started))
            request.setdefault("namespace", self.names["namespace"])
            request.setdefault("application", self.names["application"])
            answer = self._made(getattr(client, method), request)
            _check(method, answer)
            self._is_known = True
            return answer
        except AWAY as error:
            if not self.closed:
                self.closed = str(error)
                logger.warning("Bellwether is not reached: %s", error)
            raise
        except errors.Error:
            raise
        except Exception as error:
            # A wrong address or a missing file must not fail the hook.
            self.closed = "{}: {}".format(type(error).__name__, error)
            logger.warning("Bellwether cannot be called: %s", self.closed)
            raise errors.Unavailable(self.closed) from error
        finally:
            self._left -= time.monotonic() - started

    def _made(self, method: Callable[..., Any], request: Dict[str, Any]) -> Any:
        """Makes a call, and makes it again without what an older server does not take."""
        end = time.monotonic() + request["timeout"]
        while True:
            try:
                return method(**request)
            except errors.InvalidArgument as refused:
                plain = _for_older(request, refused)
                if plain is None:
                    raise
            request = dict(plain, timeout=max(0.01, end - time.monotonic()))

    def all(self, method: str, field: str, **request: Any) -> List[Any]:
        """Calls a method that lists, and returns the members of all pages."""
        found: List[Any] = []
        request["page_size"] = PAGE_SIZE
        while True:
            answer = self.call(method, **request)
            found += answer[field]
            request["page_token"] = answer["next_page_token"]
            if not request["page_token"]:
                return found

    def close(self) -> None:
        client, self._client = self._client, None
        self.closed = self.closed or "the hook is over"
        if client is not None:
            client.close()

    def flush(self, state: State, is_leader: Callable[[], bool]) -> None:
        """Delivers what waits, in order. What stays, stays in order too."""
        for entry in list(state.spool):
            if self.closed or self._left < 0.01:
                return
            if self._deliver(entry, is_leader):
                state.note_done(entry)

    def _deliver(self, entry: Entry, is_leader: Callable[[], bool]) -> bool:
        """Returns whether the call is done with."""
        method = entry["method"]
        try:
            if method in OF_LEADER and not is_leader():
                logger.info("%s is dropped: the unit does not lead any more", method)
                return True
            self._send(entry)
            return True
        except AWAY:
            return False
        except LATER as error:
            if method == CALLBACK and self._is_known and isinstance(error, errors.Unimplemented):
                logger.debug("the server has no callbacks: %s", error)
                return True
            logger.warning("%s is refused now and is repeated later: %s", method, error)
            return False
        except errors.NotFound as error:
            # What does not exist needs no removal, if it is a server of Bellwether that says so.
            return error.has_reason
        except errors.Error as error:
            if not error.has_reason:
                logger.warning("%s is refused by another service: %s", method, error)
                return False
            logger.error("%s is refused and dropped: %s %s", method, error, error.violations)
            return True

    def _send(self, entry: Entry) -> None:
        if entry["method"] == "complete_operation" and not entry["request"]["fence"]:
            self._complete(entry)
            return
        self._once(entry)

    def _complete(self, entry: Entry) -> None:
        """Completes an operation that has no holder at the server."""
        names = {name: entry["request"][name] for name in ("unit", "operation_id")}
        last_fence = entry["request"].get("last_fence", 0)
        if last_fence:
            try:
                self.call("complete_operation", fence=last_fence, **names)
                return
            except (errors.Aborted, errors.FailedPrecondition) as error:
                logger.debug("the last attempt does not complete the operation: %s", error)
        try:
            held = self.call("acquire_operation", **names)
            self.call("complete_operation", fence=held["operation"]["fence"], **names)
        except errors.FailedPrecondition as error:
            if error.retry_after is not None:
                # Its next attempt is not due yet.
                raise errors.ResourceExhausted(str(error)) from error
            # It failed or is blocked there, but the work is done.
            self.call("cancel_operation", operation_id=names["operation_id"])

    def _once(self, entry: Entry) -> None:
        request = dict(entry["request"], request_id=entry["request_id"])
        late = time.time() - entry["said"]
        if late > LATE_SECONDS:
            status = request.get("status")
            if status is not None:
                if _is_over(status, late):
                    return
                request["status"] = _aged(status, late)
            if "after" in request:
                request["after"] = max(1.0, request["after"] - late)
            if "statuses" in request:
                request["statuses"] = [_aged(one, late) for one in request["statuses"]]
        if entry["method"] in OF_LEADER:
            # Juju decided so: the write itself makes this unit the leader at the server.
            request["decided_outside"] = True
        self.call(entry["method"], **with_times(request))


def _check(method: str, answer: Any) -> None:
    """Raises Stranger for an answer that a server of Bellwether does not give."""
    field = REQUIRED.get(method, "" if method in READS else "revision")
    if field and not answer.get(field):
        what = "another service answers: the answer to {} has no {}"
        raise Stranger(what.format(method, field), reason="INVALID_ANSWER")


def _for_older(
    request: Dict[str, Any], refused: errors.InvalidArgument
) -> Optional[Dict[str, Any]]:
    """Returns a refused request as an older server takes it; None if that does not help."""
    error, status = request.get("error") or {}, request.get("status") or {}
    if error.get("reason") and "error.reason" in [field for field, _ in refused.violations]:
        # It takes fewer texts as the reason of an error.
        plain = {name: one for name, one in error.items() if name not in ("domain", "reason")}
        return dict(request, error=plain)
    if status.get("end_after") is not None and "endAfter" in str(refused):
        # It has no end of a status, which becomes stale there instead.
        plain = {name: one for name, one in status.items() if name != "end_after"}
        return dict(request, status=dict(plain, ttl=status["end_after"]))
    if "'needs'" in str(refused) or any("needs" in field for field, _ in refused.violations):
        return _without_needs(request)
    return None


def _without_needs(request: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Returns a request without needs, which the server does not take; None if it has none."""

    def plain(given: Any) -> Any:
        if isinstance(given, list):
            return [plain(one) for one in given]
        return {name: one for name, one in given.items() if name != "needs"}

    said = ("status", "statuses", "error")
    changed = {name: plain(request[name]) for name in said if request.get(name)}
    changed = {name: one for name, one in changed.items() if one != request[name]}
    return dict(request, **changed) if changed else None


def _is_over(status: Dict[str, Any], late: float) -> bool:
    """Returns whether a pushed status has ended while it waited for its delivery."""
    return any(status.get(span) is not None and status[span] - late < 1.0 for span in SPANS)


def _aged(status: Dict[str, Any], late: float) -> Dict[str, Any]:
    """Returns a status whose times have run while it waited."""
    given = [span for span in SPANS if status.get(span) is not None]
    return dict(status, **{span: max(1.0, status[span] - late) for span in given})


def with_times(request: Dict[str, Any]) -> Dict[str, Any]:
    """Returns the request with seconds since 1970 as times."""
    from datetime import datetime, timezone

    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            found = {name: turned(one) for name, one in value.items()}
            if isinstance(found.get("observe_time"), float):
                moment = datetime.fromtimestamp(found["observe_time"], timezone.utc)
                found["observe_time"] = moment
            return found
        return [turned(one) for one in value] if isinstance(value, list) else value

    return dict(turned(request))
