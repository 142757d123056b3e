"""The real server in the tests of a charm or of another client.

    with testing.Server() as server:
        context.run(context.on.install(), state)          # ops[testing]: the charm reports to it
        assert server.application("web")["status"]["level"] == "LEVEL_BLOCKED"

The program is `binary`, BELLWETHER_BINARY, or `bellwether` in the path. Each server has its own
folder, port and data. `Fault` plays servers and networks that a charm must survive.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from ._client import Client

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

#: Long enough for a loaded machine; a condition that holds ends a wait at once.
DEADLINE = 30.0


class ServerNotFound(Exception):
    """There is no program to start."""


def find_binary(binary: Optional[str] = None) -> str:
    """Returns the path of the program, or raises ServerNotFound."""
    found = binary or os.environ.get("BELLWETHER_BINARY") or shutil.which("bellwether")
    if not found or not os.path.exists(found):
        raise ServerNotFound("set BELLWETHER_BINARY to the program, or install `bellwether`")
    return found


class Server:
    """A running server. As a context manager it also sets the environment of the charm:

    BELLWETHER_SERVER, and BELLWETHER_STATE_DIR for what a unit remembers between its hooks.
    `arguments` are those of `bellwether serve`. With `durable`, data survive `restart`.
    """

    def __init__(
        self,
        *arguments: str,
        binary: Optional[str] = None,
        durable: bool = False,
        scheme: str = "http",
    ) -> None:
        self._binary = find_binary(binary)
        self._arguments, self._scheme = list(arguments), scheme
        self._folder = tempfile.TemporaryDirectory(prefix="bellwether-")
        self.state_dir = os.path.join(self._folder.name, "state")
        data = ["--data-dir", os.path.join(self._folder.name, "data")]
        self._arguments += data if durable else ["--ephemeral"]
        self._before: Dict[str, Optional[str]] = {}
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._port = 0
        self.address = ""
        self.start()

    def start(self, *arguments: str) -> None:
        """Starts the server, at its port of before if it had one."""
        command = [self._binary, "serve", "--print-addresses", "json"]
        command += ["--grpc-listen", "127.0.0.1:{}".format(self._port)]
        command += ["--ops-listen", "127.0.0.1:0"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("BELLWETHER_")}
        log = os.path.join(self._folder.name, "log")
        with open(log, "ab") as errors:
            self._process = subprocess.Popen(
                [*command, *self._arguments, *arguments],
                stdout=subprocess.PIPE,
                stderr=errors,
                env=clean,
            )
        line = self._process.stdout.readline() if self._process.stdout else b""
        if not line:
            self.kill()
            with open(log, encoding="utf-8", errors="replace") as file:
                raise AssertionError("the server did not start: " + file.read())
        listens = json.loads(line.decode())["grpc"]
        self._port = int(listens.rpartition(":")[2])
        self.address = "{}://{}".format(self._scheme, listens)

    def kill(self, how: int = signal.SIGKILL) -> None:
        """Ends the process without a chance to finish."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.send_signal(how)
            process.wait(DEADLINE)
        if process.stdout:
            process.stdout.close()

    def restart(self, *arguments: str) -> None:
        """Kills the server and starts it again at the same address, with further arguments."""
        self.kill()
        self.start(*arguments)

    def freeze(self) -> None:
        """Stops the process; its port still accepts connections."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continues the process after `freeze`."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """Ends the server and removes its data."""
        self.kill()
        self._folder.cleanup()

    def __enter__(self) -> Server:
        given = {"BELLWETHER_SERVER": self.address, "BELLWETHER_STATE_DIR": self.state_dir}
        for name, value in given.items():
            self._before[name] = os.environ.get(name)
            os.environ[name] = value
        return self

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.close()

    def client(self, **settings: Any) -> Client:
        """Returns a client of this server."""
        return Client(self.address, **dict({"timeout": DEADLINE}, **settings))

    def application(self, name: str, namespace: str) -> Dict[str, Any]:
        """Returns an application: its status, its leader and its configuration."""
        with self.client() as client:
            answer = client.get_application(application=name, namespace=namespace)
            return dict(answer["application"] or {})

    def statuses(self, unit: str, namespace: str) -> List[Dict[str, Any]]:
        """Returns the reports that the server has of a unit, by component and key."""
        names: Dict[str, Any] = {"application": unit.partition("/")[0], "namespace": namespace}
        found: List[Dict[str, Any]] = []
        with self.client() as client:
            while True:
                answer = client.list_statuses(unit=unit, page_size=1000, **names)
                found += [dict(one["report"] or {}) for one in answer["statuses"]]
                names["page_token"] = answer["next_page_token"]
                if not names["page_token"]:
                    return found

    def faults(self, application: str, namespace: str) -> List[Dict[str, Any]]:
        """Returns the open errors of an application."""
        with self.client() as client:
            answer = client.list_faults(application=application, namespace=namespace)
            return [dict(one) for one in answer["faults"]]

    def blockers(self, namespace: str) -> List[Dict[str, Any]]:
        """Returns what keeps the applications of a namespace from getting well."""
        with self.client() as client:
            answer = client.list_blockers(namespace=namespace, page_size=1000)
            return [dict(one) for one in answer["blockers"]]


class Fault:
    """A peer at an address of its own that is not a healthy server.

    `Fault.slow` passes bytes on to a server after a pause, `Fault.silent` accepts and says
    nothing, `Fault.old` answers every call with UNIMPLEMENTED.
    """

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self._serve = serve
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(16)
        self._open: List[socket.socket] = []
        self.address = "http://127.0.0.1:{}".format(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    @classmethod
    def slow(cls, server: Server, seconds: float) -> Fault:
        """Returns the way to a server on which each part of an answer takes this long."""
        port = int(server.address.rpartition(":")[2])

        def serve(connection: socket.socket) -> None:
            with socket.create_connection(("127.0.0.1", port)) as far:
                back = threading.Thread(target=_pass_on, args=(far, connection, seconds))
                back.daemon = True
                back.start()
                _pass_on(connection, far, 0.0)
                back.join(DEADLINE)

        return cls(serve)

    @classmethod
    def silent(cls) -> Fault:
        """Returns a peer that accepts connections and never answers."""
        return cls(lambda connection: None)

    @classmethod
    def old(cls) -> Fault:
        """Returns a server that has none of the methods."""
        body = b'{"code":"unimplemented","message":"no such method"}'
        head = "HTTP/1.1 501 Not Implemented\r\nContent-Type: application/json\r\n"
        head += "Content-Length: {}\r\n\r\n".format(len(body))

        def serve(connection: socket.socket) -> None:
            while _read_request(connection):
                connection.sendall(head.encode() + body)

        return cls(serve)

    def close(self) -> None:
        """Closes the address and all connections."""
        self._listener.close()
        for one in self._open:
            one.close()

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        try:
            self._serve(connection)
        except OSError:
            pass


def _pass_on(source: socket.socket, sink: socket.socket, pause: float) -> None:
    try:
        while True:
            data = source.recv(65536)
            if pause:
                time.sleep(pause)
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)
    except OSError:
        return


def _read_request(connection: socket.socket) -> bool:
    """Reads one request; returns False at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            return False
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    size = 0
    for line in head.decode("latin-1").lower().split("\r\n"):
        if line.startswith("content-length:"):
            size = int(line.partition(":")[2])
    while len(body) < size:
        part = connection.recv(65536)
        if not part:
            return False
        body += part
    return True
