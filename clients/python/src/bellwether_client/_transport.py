"""Connections of HTTP/1.1 in which each wait ends at a deadline, TLS and slow peers included."""

from __future__ import annotations

import http.client
import io
import os
import socket
import time

from .errors import DeadlineExceeded, Error, TlsFailed, Unreachable

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from typing import Any, Callable, List, Optional, Protocol, Tuple

    class Connector(Protocol):
        """What a watch needs of a client."""

        timeout: float

        def _connection(self) -> Connection: ...
        def _headers(self, content_type: str) -> List[Tuple[str, str]]: ...


class Deadline:
    """A moment after which nothing is waited for."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Returns the seconds that are left; raises socket.timeout if there are none."""
        left = self.remaining()
        if left <= 0:
            raise socket.timeout("the deadline has passed")
        return left

    def remaining(self) -> float:
        return self._end - time.monotonic()


class _Reader(io.RawIOBase):
    """Reads from a socket. Each read waits for the rest of the deadline, not for a time anew."""

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._channel.socket.settimeout(self._channel.deadline.left())
        return self._channel.socket.recv_into(buffer)


class _Channel:
    """What http.client needs of a socket."""

    def __init__(self, connected: socket.socket, deadline: Deadline) -> None:
        self.socket = connected
        self.deadline = deadline

    def makefile(self, mode: str, *_: Any) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self))

    def sendall(self, data: Any) -> None:
        rest = memoryview(data)
        while rest:
            self.socket.settimeout(self.deadline.left())
            rest = rest[self.socket.send(rest) :]

    def close(self) -> None:
        """Does nothing: http.client closes before the body of the last answer was read."""


class Connection:
    """One connection to the server."""

    def __init__(self, host: str, port: int, make_tls: Callable[[], Optional[ssl.SSLContext]]):
        self.host, self.port = host, port
        self._make_tls = make_tls
        self._http = http.client.HTTPConnection(host, port)
        self._http.auto_open = 0
        self._channel: Optional[_Channel] = None

    def open(self, deadline: Deadline) -> None:
        """Connects. Raises Unreachable, TlsFailed or DeadlineExceeded."""
        where = "{}:{}".format(self.host, self.port)
        try:
            tls = self._make_tls()
            connected = _connect(self.host, self.port, deadline)
        except socket.timeout:
            raise no_answer(deadline, "no connection to " + where)
        except OSError as error:
            raise Unreachable(
                "cannot reach {}: {}".format(where, error), reason="UNREACHABLE"
            ) from error
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                connected = _handshake(tls, connected, self.host, deadline)
        except socket.timeout:
            connected.close()
            raise no_answer(deadline, "no TLS handshake with " + where)
        except (OSError, ValueError) as error:
            connected.close()
            raise _broken(where, error) from error
        self._channel = _Channel(connected, deadline)
        # The type of the attribute is socket.socket; http.client uses three methods of it.
        setattr(self._http, "sock", self._channel)

    def is_usable(self) -> bool:
        """Returns False if the server has closed the connection, or has sent what fits no call."""
        if self._channel is None or self._http.sock is None:
            return False
        import select

        try:
            if hasattr(select, "poll"):
                poll = select.poll()
                poll.register(self._channel.socket, select.POLLIN)
                return not poll.poll(0)
            return not select.select([self._channel.socket], [], [], 0)[0]
        except (OSError, ValueError):
            return False

    def send(
        self, path: str, body: bytes, headers: List[Tuple[str, str]], deadline: Deadline
    ) -> http.client.HTTPResponse:
        """Sends a request and returns the answer up to its body."""
        channel = self._channel
        if channel is None:
            raise Unreachable("the connection is closed", reason="UNREACHABLE")
        channel.deadline = deadline
        with self.failures(deadline):
            self._http.request("POST", path, body, dict(headers))
            return self._http.getresponse()

    def failures(self, deadline: Deadline) -> _Failures:
        """Returns a context that turns the exceptions of sockets into those of the package."""
        return _Failures(self, deadline)

    def extend(self, deadline: Deadline) -> None:
        """Replaces the deadline of the reads."""
        if self._channel is not None:
            self._channel.deadline = deadline

    def interrupt(self) -> None:
        """Ends a read of another thread."""
        if self._channel is not None:
            try:
                self._channel.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self) -> None:
        self._http.close()
        if self._channel is not None:
            self._channel.socket.close()
            self._channel = None

    def __del__(self) -> None:
        channel = getattr(self, "_channel", None)
        if channel is not None:
            channel.socket.close()


class _Failures:
    def __init__(self, connection: Connection, deadline: Deadline) -> None:
        self._connection = connection
        self._deadline = deadline

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None or isinstance(error, Error):
            return
        where = "{}:{}".format(self._connection.host, self._connection.port)
        self._connection.close()
        if isinstance(error, socket.timeout):
            raise no_answer(self._deadline, "no answer from " + where) from error
        if isinstance(error, OSError):
            raise _broken(where, error) from error
        if isinstance(error, (http.client.HTTPException, ValueError, AssertionError)):
            # The cause has bytes of the peer, which a traceback would print.
            raise _broken(where, error) from None


def no_answer(deadline: Deadline, what: str) -> DeadlineExceeded:
    return DeadlineExceeded("{} within {:g} s".format(what, deadline.seconds), reason="NO_ANSWER")


def _broken(where: str, error: Exception) -> Error:
    shown = str(error) or type(error).__name__
    # The module is imported with the first connection of TLS only.
    if any(one.__module__ == "ssl" for one in type(error).__mro__):
        # A peer that closes without a word is a lost connection.
        if type(error).__name__ not in ("SSLEOFError", "SSLZeroReturnError"):
            return TlsFailed("no TLS with {}: {}".format(where, shown), reason="TLS_FAILED")
    return Unreachable(
        "the connection to {} is lost: {}".format(where, shown), reason="UNREACHABLE"
    )


def _connect(host: str, port: int, deadline: Deadline) -> socket.socket:
    addresses = _resolve(host, port, deadline)
    last: OSError = OSError("no address")
    for index, (family, kind, protocol, _, address) in enumerate(addresses):
        one = socket.socket(family, kind, protocol)
        try:
            # An address that does not answer leaves time for the others.
            one.settimeout(deadline.left() / (len(addresses) - index))
            one.connect(address)
            return one
        except OSError as error:
            one.close()
            last = error
    raise last


def _resolve(host: str, port: int, deadline: Deadline) -> List[Any]:
    """Resolves a name in a thread, because getaddrinfo has no timeout."""
    try:
        return socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except socket.gaierror:
        pass
    import threading

    found: List[Any] = []
    failed: List[OSError] = []

    def resolve() -> None:
        try:
            found.extend(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except OSError as error:
            failed.append(error)

    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(deadline.left())
    if failed:
        raise failed[0]
    if thread.is_alive():
        raise socket.timeout("the name was not resolved")
    return found


def _handshake(
    tls: ssl.SSLContext, connected: socket.socket, host: str, deadline: Deadline
) -> socket.socket:
    wrapped = tls.wrap_socket(connected, server_hostname=host, do_handshake_on_connect=False)
    try:
        wrapped.settimeout(deadline.left())
        wrapped.do_handshake()
    except BaseException:
        wrapped.close()
        raise
    return wrapped


def fraction() -> float:
    """Returns a number from 0 to 1, so that the clients of a server do not repeat at once."""
    return int.from_bytes(os.urandom(4), "big") / float(2**32)
