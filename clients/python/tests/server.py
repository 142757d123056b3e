"""The real server as a process of its own, for the tests."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
#: BELLWETHER_PACKAGE names another folder with the package: the one file for charms.
sys.path.insert(0, os.environ.get("BELLWETHER_PACKAGE") or str(ROOT / "src"))

#: Long enough for a loaded machine; a condition that holds ends the wait at once.
DEADLINE = 30.0


def binary():
    """Returns the path of the server, or skips the test."""
    path = os.environ.get("BELLWETHER_BINARY") or shutil.which("bellwether")
    if not path:
        raise unittest.SkipTest("BELLWETHER_BINARY names no server")
    return path


def wait_for(condition, what):
    """Waits until a condition holds, and returns its value."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError("did not happen within {} s: {}".format(DEADLINE, what))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Server:
    """A server that runs until `stop`."""

    def __init__(self, *arguments, port=0):
        command = [binary(), "serve", "--print-addresses", "json"]
        command += ["--grpc-listen", "127.0.0.1:{}".format(port), "--ops-listen", "127.0.0.1:0"]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("BELLWETHER_")}
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command + list(arguments), stdout=subprocess.PIPE, stderr=self.log, env=clean
        )
        line = self.process.stdout.readline()
        if not line:
            self.stop()
            raise AssertionError("the server did not start: " + self.said)
        self.address = json.loads(line.decode())["grpc"]
        self.port = int(self.address.rpartition(":")[2])

    def stop(self, how=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(DEADLINE)
        self.process.stdout.close()
        if not self.log.closed:
            self.log.seek(0)
            self.said = self.log.read().decode("utf-8", "replace")
            self.log.close()


class ServerCase(unittest.TestCase):
    """Tests against one server: that of BELLWETHER_ADDRESS, or one of their own."""

    server = None

    @classmethod
    def setUpClass(cls):
        cls.address = os.environ.get("BELLWETHER_ADDRESS")
        if not cls.address:
            cls.server = Server("--ephemeral")
            cls.address = cls.server.address

    @classmethod
    def tearDownClass(cls):
        if cls.server is not None:
            cls.server.stop()
            cls.server = None

    def client(self, **settings):
        from bellwether_client import Client

        settings.setdefault("timeout", DEADLINE)
        client = Client(self.address, **settings)
        self.addCleanup(client.close)
        return client


class Listener:
    """A server that the test plays: it accepts, and `answer(connection)` does the rest."""

    def __init__(self, answer):
        import threading

        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(8)
        self.address = "127.0.0.1:{}".format(self.socket.getsockname()[1])
        self.open, self.accepted = [], 0
        self._answer = answer
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.accepted += 1
            self.open.append(connection)
            try:
                self._answer(connection)
            except OSError:
                pass

    def close(self):
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.socket.close()
        for connection in self.open:
            connection.close()
        self._thread.join(DEADLINE)


def read_request(connection):
    """Reads one request of HTTP/1.1, and returns its head and its body as JSON."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise OSError("closed")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    size = next(int(line.split(":")[1]) for line in lines if line.startswith("content-length:"))
    while len(body) < size:
        body += connection.recv(65536)
    return head.decode(), json.loads(body.decode())


def write_answer(connection, status, value):
    body = json.dumps(value).encode()
    head = "HTTP/1.1 {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n"
    connection.sendall(head.format(status, len(body)).encode() + body)
