"""Peers at the address of the server that are none, or are not healthy."""

import contextlib
import os
import socket
import struct
import time
from pathlib import Path

from test_security import make_authority, make_certificate

from bellwether_client import testing

FULL = "[limits]\nunits_max = 1\nstatuses_per_unit_max = 1\n"


def answer(status, body=b"", head=(), kind="application/json"):
    """Returns an answer of HTTP/1.1."""
    lines = ["HTTP/1.1 " + status, "Content-Type: " + kind, *head]
    lines.append("Content-Length: {}".format(len(body)))
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def fixed(data):
    """Returns a peer that gives the same answer to each request."""

    def serve(connection):
        while testing._read_request(connection):
            connection.sendall(data)

    return serve


def dripping(whole):
    """Returns a peer that sends its answer byte by byte, too slowly for a hook."""

    def serve(connection):
        testing._read_request(connection)
        for one in whole:
            connection.sendall(bytes([one]))
            time.sleep(0.2)

    return serve


def endless(head, chunk):
    def serve(connection):
        testing._read_request(connection)
        connection.sendall(head)
        while True:
            connection.sendall(chunk)

    return serve


def reset(connection):
    connection.recv(1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def random_bytes(connection):
    connection.recv(65536)
    connection.sendall(os.urandom(4096) + b"\n\x00\x1b[31m\n")
    connection.close()


ERROR = b'{"code":"%s","message":"a\\u0000b\\u001b[31m\\u2028"}'
#: Peers that a socket plays, by name.
PEERS = {
    "silent": lambda connection: time.sleep(10),
    "503": fixed(answer("503 Service Unavailable", b"busy")),
    "503 with Retry-After": fixed(answer("503 Busy", b"", ["Retry-After: 60"])),
    "429": fixed(answer("429 Too Many Requests", b"\x00slow")),
    "404": fixed(answer("404 Not Found", b"no \x1b[31msuch\x00 page", kind="text/plain")),
    "404 of another service": fixed(answer("404 Not Found", ERROR % b"not_found")),
    "400 of another service": fixed(answer("400 Bad Request", ERROR % b"invalid_argument")),
    "415": fixed(answer("415 Unsupported Media Type")),
    "unimplemented": fixed(answer("501 Not Implemented", ERROR % b"unimplemented")),
    "302": fixed(answer("302 Found", head=["Location: http://127.0.0.1:1/"])),
    "401": fixed(answer("401 Unauthorized", b"<html>who\x00")),
    "html": fixed(answer("200 OK", b"<!doctype html><title>\x00</title>", kind="text/html")),
    "[1]": fixed(answer("200 OK", b"[1]")),
    "{}": fixed(answer("200 OK", b"{}")),
    "empty body": fixed(answer("200 OK")),
    "deep JSON": fixed(answer("200 OK", b"[" * 100_000)),
    "wrong types": fixed(answer("200 OK", b'{"revision":[],"operation":"x","verdict":7}')),
    "cut body": fixed(answer("200 OK", b"{}").replace(b"Length: 2", b"Length: 9")),
    "wrong length": fixed(answer("200 OK", b"{}").replace(b"Length: 2", b"Length: -1")),
    "random bytes": random_bytes,
    "a banner": lambda connection: connection.sendall(b"SSH-2.0-OpenSSH\r\n\x00\x1b[31m"),
    "resets": reset,
    "closes": lambda connection: connection.close(),
    "dripping head": dripping(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"),
    "dripping body": dripping(b'{"revision":"1"                                              '),
    "endless body": endless(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536),
    "endless head": endless(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n" * 1000),
    "endless chunks": endless(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 1000
    ),
}
ADDRESSES = {
    "no such name": "http://bellwether.invalid:50051",
    "nonsense address": "ftp://\x1bnowhere:x",
    "no address": "",
    "closed port": "http://127.0.0.1:1",
    "https to plain": None,
}


@contextlib.contextmanager
def peer(name):
    """Yields the address of a peer of `PEERS`."""
    fault = testing.Fault(PEERS[name])
    try:
        yield fault.address
    finally:
        fault.close()


@contextlib.contextmanager
def full_backlog():
    """Yields the address of a program that does not accept, and has no room for more."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            waiting.append(one)
        try:
            yield "http://127.0.0.1:{}".format(port)
        finally:
            for one in waiting:
                one.close()


@contextlib.contextmanager
def tls_server(folder):
    """Yields a server with a certificate of an authority that the unit does not know."""
    make_authority(folder, "ca")
    make_certificate(folder, "ca", "server", "subjectAltName=IP:127.0.0.1")
    files = [str(Path(folder) / name) for name in ("server.pem", "server.key")]
    stranger = testing.Server("--tls-certificate", files[0], "--tls-key", files[1], scheme="https")
    try:
        yield stranger
    finally:
        stranger.close()


@contextlib.contextmanager
def at_fault(name, server, folder):
    """Yields the address that a unit has while `server` is at fault, and repairs it."""
    if name in PEERS:
        with peer(name) as address:
            yield address
    elif name == "full backlog":
        with full_backlog() as address:
            yield address
    elif name in ("other authority", "http to TLS"):
        with tls_server(folder) as stranger:
            plain = stranger.address.replace("https", "http")
            yield stranger.address if name == "other authority" else plain
    elif name == "https to plain":
        yield server.address.replace("http", "https")
    elif name in ADDRESSES:
        yield ADDRESSES[name]
    elif name == "killed":
        server.kill()
        yield server.address
        server.start()
    elif name == "frozen":
        server.freeze()
        yield server.address
        server.thaw()
    elif name == "slow":
        fault = testing.Fault.slow(server, 0.3)
        yield fault.address
        fault.close()
    elif name == "full":
        limits = Path(folder) / "limits.toml"
        limits.write_text(FULL)
        server.restart("--config", str(limits))
        yield server.address
        server.restart()
    else:
        assert name == "healthy", name
        yield server.address


#: All of them, the healthy one first.
NAMES = ["healthy", "killed", "frozen", "slow", "full", "full backlog"]
NAMES += ["other authority", "http to TLS", *ADDRESSES, *PEERS]
