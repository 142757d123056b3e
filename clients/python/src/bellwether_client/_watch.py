"""Watches that continue across lost connections and restarts of the server.

A reader that applies the events has a correct copy: the bookmarks of the server have a digest of
what is watched, and a copy that differs is replaced by a new snapshot.
"""

from __future__ import annotations

import struct
import time

from . import _codec, errors
from ._transport import Deadline, fraction

TYPE_CHECKING = False
if TYPE_CHECKING:
    import http.client
    from typing import Any, Dict, List, Optional, Set, Tuple

    from . import messages
    from ._transport import Connection, Connector

    Name = Tuple[str, str]

#: Silence after which a connection counts as lost.
SILENCE_MAX = 20.0
FIRST_PAUSE = 0.1
PAUSE_MAX = 5.0
#: How often in a row a token is sent again to a server that is behind it, 5 s each.
BEHIND_MAX = 3
#: Pause before a snapshot from a server that cannot resume the watch.
FRESH_START = 0.05
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
PASSING = (
    errors.Unavailable,
    errors.ResourceExhausted,
    errors.Aborted,
    errors.DeadlineExceeded,
    errors.Canceled,
    errors.Unknown,
    errors.Internal,
)


class Event:
    """An event of a watch. `kind` is one of:

    - `upserted`: `application` is the newest state, `units` its units if they were asked for; after
      `disconnected` a state may come again
    - `removed`: the application `namespace`/`name` was deleted or has left the filter
    - `current`: the copy is complete: after the snapshot, and again after `disconnected`
    - `bookmark`: the digest of the server agrees with the copy
    - `disconnected`: `error` is the cause; the next step waits for `pause` seconds and reconnects
    - `data`: `app_data` has all data of the watched application (`Client.watch_app_data`)
    """

    __slots__ = ("kind", "namespace", "name", "application", "units", "error", "pause", "app_data")

    def __init__(
        self,
        kind: str,
        namespace: str = "",
        name: str = "",
        application: Optional[messages.Application] = None,
        units: Optional[List[messages.Unit]] = None,
        error: Optional[errors.Error] = None,
        pause: float = 0.0,
        app_data: Optional[messages.AppData] = None,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.name = name
        self.application = application
        self.units: List[messages.Unit] = units or []
        self.error = error
        self.pause = pause
        self.app_data = app_data

    def __repr__(self) -> str:
        shown = "{}/{}".format(self.namespace, self.name) if self.name else self.error or ""
        return "<Event {} {}>".format(self.kind, shown)


class Watch:
    """The iterator of `Client.watch`, for one thread; `close` may be called from any."""

    _path = "/bellwether.v1.ApplicationService/WatchApplications"
    _message = "WatchApplications"

    def __init__(self, client: Connector, request: Dict[str, Any]) -> None:
        self._client = client
        self._request = request
        self._token = ""
        self._connection: Optional[Connection] = None
        self._response: Optional[http.client.HTTPResponse] = None
        self._copy = Copy()
        self._copy.begin_snapshot(False)
        self._epoch = ""
        self._is_current = False
        self._failures = 0
        self._behind = 0
        self._start = 0.0
        self._events: List[Event] = []
        self._closed = False

    def __iter__(self) -> Watch:
        return self

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the watch. A read of another thread ends with StopIteration."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            connection.interrupt()

    def __next__(self) -> Event:
        """Returns the next event. Raises only errors that a new connection cannot heal."""
        while not self._events:
            if self._closed:
                self._hang_up()
                raise StopIteration
            try:
                self._step()
            except errors.OutOfRange as error:
                if error.reason != "RESUME_TOKEN_EXPIRED":
                    raise
                self._behind += 1
                if error.metadata.get("cause") == "behind" and self._behind <= BEHIND_MAX:
                    # Another server, or this one later, has what the token covers.
                    pause = self._disconnect(error.retry_after)
                    self._events.append(Event("disconnected", error=error, pause=pause))
                else:
                    self._start_over(FRESH_START)
            except errors.Error as error:
                self._hang_up()
                if self._closed:
                    continue
                if not isinstance(error, PASSING) and error.reason != "CREDENTIALS_EXPIRED":
                    raise
                pause = self._disconnect(error.retry_after)
                self._events.append(Event("disconnected", error=error, pause=pause))
        return self._events.pop(0)

    def _step(self) -> None:
        if self._response is None:
            self._open()
            return
        message = self._read()
        if message is None:
            self._disconnect(None)
        else:
            self._take(_codec.decode(self._message + "Response", message))

    def _open(self) -> None:
        import json

        wait = self._start - time.monotonic()
        while wait > 0 and not self._closed:
            time.sleep(min(wait, 0.1))
            wait = self._start - time.monotonic()
        if self._closed:
            return
        request = dict(self._request, resume_token=self._token) if self._token else self._request
        body = json.dumps(_codec.encode(self._message + "Request", request)).encode("utf-8")
        headers = self._client._headers("application/connect+json")
        deadline = Deadline(SILENCE_MAX)
        self._connection = self._client._connection()
        self._connection.open(Deadline(min(SILENCE_MAX, max(self._client.timeout, 1.0))))
        framed = struct.pack(">BI", 0, len(body)) + body
        response = self._connection.send(self._path, framed, headers, deadline)
        if response.status != 200:
            with self._connection.failures(deadline):
                raise errors.from_status(response.status, response.read())
        self._response = response

    def _read(self) -> Optional[Dict[str, Any]]:
        """Returns one message; None at the end of the stream without an error."""
        import json

        flags, size = struct.unpack(">BI", self._read_exactly(5))
        if size > MESSAGE_BYTES_MAX:
            raise errors.Internal("a message has {} bytes".format(size), reason="INVALID_ANSWER")
        try:
            message = json.loads(self._read_exactly(size).decode("utf-8"))
        except ValueError as error:
            raise errors.Internal("a message is no JSON", reason="INVALID_ANSWER") from error
        if not flags & 2:
            return dict(message)
        if message.get("error"):
            raise errors.from_wire(message["error"])
        return None

    def _read_exactly(self, size: int) -> bytes:
        connection, response = self._connection, self._response
        if connection is None or response is None:
            raise errors.Unreachable("the watch is not connected", reason="UNREACHABLE")
        deadline = Deadline(SILENCE_MAX)
        connection.extend(deadline)
        found = b""
        with connection.failures(deadline):
            while len(found) < size:
                part = response.read(size - len(found))
                if not part:
                    raise errors.Unreachable("the stream broke off", reason="UNREACHABLE")
                found += part
        return found

    def _take(self, message: Dict[str, Any]) -> None:
        self._behind = 0
        epoch = message["store_epoch"]
        if epoch and epoch != self._epoch:
            known_before, self._epoch = bool(self._epoch), epoch
            if known_before:
                # The store may have lost acknowledged writes: the copy may be newer than it.
                self._start_over(FRESH_START)
                return
        self._token = message["resume_token"] or self._token
        if message["upserted"] is not None:
            self._upsert(message["upserted"], message["units"])
        elif message["removed"] is not None:
            self._remove(message["removed"]["namespace"], message["removed"]["name"])
        elif message["snapshot_complete"] is not None:
            for namespace, name in self._copy.end_snapshot():
                self._events.append(Event("removed", namespace, name))
            self._copy.cover()
            self._send_current()
        elif message["bookmark"] is not None:
            self._compare(message["bookmark"]["digest"])
        elif message["drain"] is not None:
            self._disconnect(message["drain"]["reconnect_after"])

    def _upsert(self, application: Any, units: Any) -> None:
        if self._copy.upsert(application):
            namespace, name = application["namespace"], application["name"]
            self._events.append(Event("upserted", namespace, name, application, units))

    def _remove(self, namespace: str, name: str) -> None:
        if self._copy.remove(namespace, name):
            self._events.append(Event("removed", namespace, name))

    def _compare(self, digest: str) -> None:
        if digest == self._copy.digest():
            # Only a verified copy resets the pause, not a mere answer.
            self._failures = 0
            self._copy.cover()
            self._send_current()
            self._events.append(Event("bookmark"))
        else:
            # A snapshot costs the server much, so repeated differences increase the pause.
            self._start_over(self._pause(None))

    def _send_current(self) -> None:
        if not self._is_current:
            self._is_current = True
            self._events.append(Event("current"))

    def _start_over(self, pause: float) -> None:
        """Starts again with a snapshot, after a pause. The store may have lost what the copy has."""
        self._hang_up()
        self._is_current = False
        self._behind = 0
        self._token = ""
        self._copy.begin_snapshot(True)
        self._start = time.monotonic() + pause

    def _disconnect(self, asked: Optional[float]) -> float:
        pause = self._pause(asked)
        self._hang_up()
        self._is_current = False
        self._start = time.monotonic() + pause
        self._copy.resume()
        if not self._token:
            # The interrupted snapshot starts again.
            self._copy.begin_snapshot(False)
        return pause

    def _pause(self, asked: Optional[float]) -> float:
        full = min(FIRST_PAUSE * float(1 << min(self._failures, 10)), PAUSE_MAX)
        self._failures += 1
        part = fraction()
        return max(full * (0.5 + part / 2), min(asked or 0.0, 3600.0) * (1 + part / 4))

    def _hang_up(self) -> None:
        self._response = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class DataWatch(Watch):
    """The iterator of `Client.watch_app_data`: `data` for each new state, and `disconnected`."""

    _path = "/bellwether.v1.AppDataService/WatchAppData"
    _message = "WatchAppData"
    _etag: Optional[str] = None

    def _step(self) -> None:
        try:
            super()._step()
        except errors.DeadlineExceeded:
            if self._response is None:
                raise
            # Data may stay the same for long. A new connection finds out whether they did.
            self._hang_up()

    def _take(self, message: Dict[str, Any]) -> None:
        if message["drain"] is not None:
            self._disconnect(message["drain"]["reconnect_after"])
        elif message["app_data"] is not None:
            self._failures = 0
            if message["app_data"]["etag"] != self._etag:
                self._etag = message["app_data"]["etag"]
                namespace, name = self._request["namespace"], self._request["application"]
                found = message["app_data"]
                self._events.append(Event("data", namespace, name, app_data=found))


class Copy:
    """What the reader has received: revision and level of each application, and their digest."""

    def __init__(self) -> None:
        self._known: Dict[Name, Tuple[int, str]] = {}
        self._sum = 0
        self._unseen: Set[Name] = set()
        # Applications that were received after the resume token.
        self._after_token: Set[Name] = set()

    def upsert(self, application: Any) -> bool:
        """Stores the newest state. Returns False if it was known already."""
        name = (application["namespace"], application["name"])
        status = application["status"]
        level = status["level"] if status else "LEVEL_UNSPECIFIED"
        now = (application["revision"], level)
        self._unseen.discard(name)
        if self._known.get(name) == now:
            return False
        self._forget(name)
        self._store(name, now)
        self._after_token.add(name)
        return True

    def remove(self, namespace: str, name: str) -> bool:
        """Removes an application. Returns False if it was not known."""
        self._unseen.discard((namespace, name))
        return self._forget((namespace, name))

    def cover(self) -> None:
        """Records that the resume token covers everything so far."""
        self._after_token.clear()

    def resume(self) -> None:
        """Prepares for a resume from the token.

        What was received after it may be lost, and the store may have given its revision to another
        state. So an equal revision counts as a change.
        """
        after, self._after_token = self._after_token, set()
        for name in after:
            self._distrust(name)

    def begin_snapshot(self, distrust: bool) -> None:
        """Starts a snapshot. With `distrust`, every application in it counts as changed."""
        self._unseen = set(self._known)
        if distrust:
            for name in self._unseen:
                self._distrust(name)

    def end_snapshot(self) -> List[Name]:
        """Completes the snapshot: removes and returns what it did not contain."""
        gone, self._unseen = sorted(self._unseen), set()
        for name in gone:
            self._forget(name)
        return gone

    def digest(self) -> str:
        """Returns the digest as `Bookmark.digest` defines it."""
        return "{:016x}".format(self._sum)

    def _distrust(self, name: Name) -> None:
        """Replaces the state of an application by one that no application has."""
        if self._forget(name):
            self._store(name, (0, "LEVEL_UNSPECIFIED"))

    def _store(self, name: Name, state: Tuple[int, str]) -> None:
        self._known[name] = state
        self._sum = (self._sum + _hash(name, state)) % 2**64

    def _forget(self, name: Name) -> bool:
        before = self._known.pop(name, None)
        if before is None:
            return False
        self._sum = (self._sum - _hash(name, before)) % 2**64
        return True


def _hash(name: Name, state: Tuple[int, str]) -> int:
    level = state[1][len("LEVEL_") :].lower()
    text = "{}/{}@{}={}".format(name[0], name[1], state[0], level)
    value = 0xCBF29CE484222325
    for byte in text.encode("utf-8"):
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value
