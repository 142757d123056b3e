"""Delivery of waiting calls in their order, within the time that a hook has for it."""

from __future__ import annotations

import logging
import time

from . import errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

    from ._client import Client
    from ._state import Entry, State

logger = logging.getLogger(__name__)

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
#: A call that waited longer than this is not of this hook; its ttl has run since.
LATE_SECONDS = 5.0
#: A page has fewer if its texts are long.
PAGE_SIZE = 1000
#: Calls of the leader.
OF_LEADER = (
    "set_application_status",
    "replace_application_statuses",
    "clear_application_status",
    "update_app_data",
)


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
            request["timeout"] = self._left
            request.setdefault("namespace", self.names["namespace"])
            request.setdefault("application", self.names["application"])
            return getattr(client, method)(**request)
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
                state.spool = [one for one in state.spool if one is not entry]

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
            logger.warning("%s is refused now and is repeated later: %s", method, error)
            return False
        except errors.NotFound:
            # What does not exist needs no removal.
            return True
        except errors.Error as error:
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
        ttl = request.get("status", {}).get("ttl")
        late = time.time() - entry["said"]
        if ttl is not None and late > LATE_SECONDS:
            if ttl - late < 1.0:
                return
            request["status"] = dict(request["status"], ttl=ttl - late)
        if entry["method"] in OF_LEADER:
            # Juju decided so: the write itself makes this unit the leader at the server.
            request["decided_outside"] = True
        self.call(entry["method"], **with_times(request))


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
