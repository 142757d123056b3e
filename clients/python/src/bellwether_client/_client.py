"""The client: settings, deadlines and retries of single calls."""

from __future__ import annotations

import os
import threading
import time

from . import _codec, errors
from ._methods import Methods
from ._table import METHODS
from ._trace import trace_headers
from ._transport import Connection, Deadline, fraction

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    from . import messages
    from ._watch import Watch

DEFAULT_ADDRESS = "http://127.0.0.1:50051"
DEFAULT_PORT = 50051
FIRST_PAUSE = 0.05
PAUSE_MAX = 1.0
#: The server's largest answer is a page of records with texts of at most 4 KiB each.
ANSWER_BYTES_MAX = 64 * 1024 * 1024
#: Seconds for which a token is used before its file is read again.
TOKEN_AGE_MAX = 10.0


class Client(Methods):
    """A client of one server. Threads may share it; nothing is sent before the first call.

    What is not given comes from BELLWETHER_SERVER, BELLWETHER_TOKEN_FILE, BELLWETHER_CA,
    BELLWETHER_CERT and BELLWETHER_CERT_KEY. `timeout` is for a whole call: name lookup,
    connection, TLS, retries and pauses. `retries` is the number of repeats after an error that
    passes; a mutation is repeated with the same `request_id`, so it is applied once.
    """

    def __init__(
        self,
        address: Optional[str] = None,
        *,
        token: Optional[str] = None,
        token_file: Optional[str] = None,
        ca: Optional[str] = None,
        cert: Optional[str] = None,
        cert_key: Optional[str] = None,
        timeout: float = 2.0,
        retries: int = 4,
    ) -> None:
        given = address or os.environ.get("BELLWETHER_SERVER") or DEFAULT_ADDRESS
        self._is_tls, self._host, self._port = _parse(given)
        self._token = token
        self._token_file = None if token else token_file or _file("BELLWETHER_TOKEN_FILE")
        self._ca = ca or _file("BELLWETHER_CA")
        self._cert = cert or _file("BELLWETHER_CERT")
        self._cert_key = cert_key or _file("BELLWETHER_CERT_KEY")
        self._check()
        self.timeout, self.retries = timeout, retries
        self._lock = threading.Lock()
        self._idle: Optional[Connection] = None
        self._closed = False
        self._token_read: Optional[Tuple[float, str]] = None

    def close(self) -> None:
        """Closes the connection that is kept. Further calls are an error."""
        with self._lock:
            self._closed = True
            connection, self._idle = self._idle, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def watch(
        self,
        *,
        namespace: str = "",
        applications: Sequence[str] = (),
        min_level: messages.Level = "LEVEL_UNSPECIFIED",
        levels: Sequence[messages.Level] = (),
        stable_for: Optional[float] = None,
        include_units: bool = False,
    ) -> Watch:
        """Returns an iterator over the applications and their changes. Never ends by itself."""
        from ._watch import Watch

        request = {
            "namespace": namespace,
            "applications": applications,
            "min_level": min_level,
            "levels": levels,
            "stable_for": stable_for,
            "include_units": include_units,
        }
        return Watch(self, request)

    def watch_app_data(self, *, application: str, namespace: str = "") -> Watch:
        """Returns an iterator over the data of an application, which need not exist yet.

        The first event `data` has what is stored now. Never ends by itself.
        """
        from ._watch import DataWatch

        return DataWatch(self, {"application": application, "namespace": namespace})

    def _call(self, name: str, request: Dict[str, Any], timeout: Optional[float]) -> Any:
        import json

        path, asked, answered, is_read = METHODS[name]
        has_id = "request_id" in request
        if has_id and not request["request_id"]:
            request = dict(request, request_id=os.urandom(16).hex())
        body = json.dumps(_codec.encode(asked, request)).encode("utf-8")
        deadline = Deadline(self.timeout if timeout is None else timeout)
        answer = self._repeat(path, body, deadline, is_read or has_id)
        try:
            return _codec.decode(answered, json.loads(answer.decode("utf-8")))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            # The cause has bytes of the peer, which a traceback would print.
            raise errors.Internal(
                "the answer is not a {}: {}".format(answered, error), reason="INVALID_ANSWER"
            ) from None

    def _repeat(self, path: str, body: bytes, deadline: Deadline, may_repeat: bool) -> bytes:
        pause, repeats = FIRST_PAUSE, 0
        last: Optional[errors.Error] = None
        while True:
            attempt = _Attempt()
            try:
                return self._attempt(path, body, deadline, attempt)
            except errors.TlsFailed:
                raise
            except errors.Unavailable as error:
                last = error
            except errors.ResourceExhausted as error:
                if error.reason != "RATE_LIMITED":
                    raise
                # The server has refused the call before it did anything.
                last, attempt.sent = error, False
            except errors.DeadlineExceeded as error:
                if last is None:
                    raise
                # The error before says more than the end of the time.
                raise last from error
            # A call that was not sent can always be sent again.
            if repeats >= self.retries or (attempt.sent and not may_repeat):
                raise last
            wait = pause * (0.5 + fraction() / 2)
            wait = max(wait, (last.retry_after or 0.0) * (1 + fraction() / 4))
            if wait >= deadline.remaining():
                raise last
            time.sleep(wait)
            pause, repeats = min(2 * pause, PAUSE_MAX), repeats + 1

    def _attempt(self, path: str, body: bytes, deadline: Deadline, attempt: _Attempt) -> bytes:
        headers = self._headers("application/json")
        connection = self._take()
        try:
            if connection is None:
                connection = self._connection()
                connection.open(deadline)
            headers.append(("Connect-Timeout-Ms", str(max(1, int(1000 * deadline.remaining())))))
            attempt.sent = True
            response = connection.send(path, body, headers, deadline)
            with connection.failures(deadline):
                answer = response.read(ANSWER_BYTES_MAX + 1)
            if len(answer) > ANSWER_BYTES_MAX:
                connection.close()
                said = "the answer has more than {} bytes".format(ANSWER_BYTES_MAX)
                raise errors.Internal(said, reason="INVALID_ANSWER")
            if response.status != 200:
                raise errors.from_status(response.status, answer)
        except errors.Unavailable:
            if connection is not None:
                connection.close()
            raise
        except errors.Error:
            self._keep(connection)
            raise
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        self._keep(connection)
        return answer

    def _connection(self) -> Connection:
        return Connection(self._host, self._port, self._tls)

    def _take(self) -> Optional[Connection]:
        with self._lock:
            if self._closed:
                raise ValueError("the client is closed")
            connection, self._idle = self._idle, None
        if connection is not None and not connection.is_usable():
            connection.close()
            return None
        return connection

    def _keep(self, connection: Optional[Connection]) -> None:
        """Keeps one connection for the next call; those of other threads at the time are closed."""
        if connection is None or not connection.is_usable():
            spare = connection
        else:
            with self._lock:
                spare = connection
                if self._idle is None and not self._closed:
                    self._idle, spare = connection, None
        if spare is not None:
            spare.close()

    def _headers(self, content_type: str) -> List[Tuple[str, str]]:
        headers = [("Content-Type", content_type), ("Connect-Protocol-Version", "1")]
        token = self._token or self._token_from_file()
        if token:
            headers.append(("Authorization", "Bearer " + token))
        headers.extend(trace_headers())
        return headers

    def _token_from_file(self) -> str:
        if self._token_file is None:
            return ""
        held = self._token_read
        if held is not None and time.monotonic() - held[0] < TOKEN_AGE_MAX:
            return held[1]
        try:
            with open(self._token_file, encoding="utf-8") as file:
                token = file.read().strip()
        except (OSError, ValueError) as error:
            message = "cannot read the token: {}".format(error)
            raise errors.Unauthenticated(message, reason="CREDENTIALS_MISSING") from error
        self._token_read = (time.monotonic(), token)
        return token

    def _tls(self) -> Optional[ssl.SSLContext]:
        """Reads the files for each connection, because they may be replaced at any time."""
        if not self._is_tls:
            return None
        import ssl

        try:
            context = ssl.create_default_context(cafile=self._ca)
            context.set_alpn_protocols(["http/1.1"])
            if self._cert is not None:
                context.load_cert_chain(self._cert, self._cert_key)
        except OSError as error:
            message = "the certificates cannot be used: {}".format(error)
            raise errors.TlsFailed(message, reason="TLS_FAILED") from error
        return context

    def _check(self) -> None:
        if (self._cert is None) != (self._cert_key is None):
            raise ValueError("a certificate and its key belong together")
        if self._is_tls:
            return
        if self._cert or self._ca:
            raise ValueError("certificates need an https address")
        if (self._token or self._token_file) and not _is_local(self._host):
            raise ValueError("the token would be readable on the network; use https")


class _Attempt:
    """Whether the server may have received the request."""

    sent = False


def _parse(address: str) -> Tuple[bool, str, int]:
    scheme, separator, rest = address.rpartition("://")
    if separator and scheme not in ("http", "https"):
        raise ValueError("{!r} is neither http nor https".format(address))
    rest = rest.rstrip("/")
    host, colon, port = rest.rpartition(":")
    if not colon or rest.endswith("]"):
        host, port = rest, str(DEFAULT_PORT)
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or set("/@?# ") & set(host):
        raise ValueError("{!r} is not an address as http://HOST:PORT".format(address))
    return scheme == "https", host.strip("[]"), int(port)


def _file(variable: str) -> Optional[str]:
    return os.environ.get(variable) or None


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
