"""Servers and networks that a charm must survive, and a hook that uses everything."""

import os
import time

from charm import CONFIG, MODEL, charm, ops, run, testing
from test_security import make_authority, make_certificate

from bellwether_client.ops import CALLS_SECONDS

#: Limits of a server that is full with one unit.
FULL = "[limits]\nunits_max = 1\nstatuses_per_unit_max = 1\n"
HOOK_SECONDS = 2.0
assert CONFIG


class Hooks:
    """Runs hooks that use everything, and measures them."""

    def __init__(self, **settings):
        # The time that a charm has, whatever the tests of other things give.
        self.settings = dict({"timeout": CALLS_SECONDS}, **settings)
        self.number, self.rows = 0, []

    def body(self, charm, _):
        self.number += 1
        text = "run {}".format(self.number)
        for key in ("a", "b", "c"):
            charm.status.push("kept", ops.MaintenanceStatus(text), key=key)
        charm.status.push("new", ops.ActiveStatus(), key=str(self.number))
        charm.status.push("short", ops.MaintenanceStatus(text), ttl=3600)
        with charm.status.attempt("db", "pg:5432"):
            raise ConnectionRefusedError(text)
        with charm.status.operation("upgrade", text) as operation:
            operation.save(b"1", "step 1/2")
            operation.save(b"2", "step 2/2")
        charm.status.data.update({"run": text})
        assert charm.status.data.get("run") == text
        charm.app.status = ops.WaitingStatus(text)
        charm.status.clear("kept", "c")
        self.reporter = charm.status

    def collect(self, _, event):
        event.add_status(ops.ActiveStatus())
        event.add_status(ops.BlockedStatus("run {}".format(self.number)))
        event.add_status(ops.BlockedStatus("a later one"))

    def run(self):
        """Runs one hook, and notes the seconds of the hook and of its calls."""
        kind = charm(self.body, collect_unit=self.collect, **self.settings)
        started = time.monotonic()
        state = run(kind, "config_changed", leader=True)
        whole = time.monotonic() - started
        assert state.unit_status.message == "run {}".format(self.number)
        waiting = len(self.reporter.state.spool)
        self.rows.append((whole, self.reporter.courier.spent, waiting))
        return self.rows[-1]


def killed(server, _):
    server.kill()
    return server.address, server.start


def frozen(server, _):
    server.freeze()
    return server.address, server.thaw


def slow(server, _):
    fault = testing.Fault.slow(server, 0.3)
    return fault.address, fault.close


def silent(server, _):
    fault = testing.Fault.silent()
    return fault.address, fault.close


def old(server, _):
    fault = testing.Fault.old()
    return fault.address, fault.close


def another_certificate(server, folder):
    make_authority(folder, "ca")
    make_certificate(folder, "ca", "server", "subjectAltName=IP:127.0.0.1")
    files = [str(folder / name) for name in ("server.pem", "server.key")]
    stranger = testing.Server("--tls-certificate", files[0], "--tls-key", files[1], scheme="https")
    return stranger.address, stranger.close


def full(server, folder):
    (folder / "limits.toml").write_text(FULL)
    server.restart("--config", str(folder / "limits.toml"))
    return server.address, server.restart


def no_such_name(server, _):
    return "http://bellwether.invalid:50051", lambda: None


def wrong_address(server, _):
    return "ftp://nowhere:x", lambda: None


def no_token(server, folder):
    os.environ["BELLWETHER_TOKEN_FILE"] = str(folder / "none")
    return server.address, lambda: os.environ.pop("BELLWETHER_TOKEN_FILE")


FAULTS = [
    killed,
    frozen,
    slow,
    silent,
    old,
    another_certificate,
    full,
    no_such_name,
    wrong_address,
    no_token,
]
