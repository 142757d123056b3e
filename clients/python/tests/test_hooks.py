"""Hooks as processes, with the tools of Juju as programs, on old and new versions of ops.

No server and no other service at its address fails a hook or holds it up, and what a unit said
arrives later, in its order.
"""

import concurrent.futures
import importlib.util
import os
import tempfile
import unittest
from pathlib import Path

from hooks import CONTROL, MODEL, TOOLS, Unit
from server import binary
from strangers import NAMES, at_fault

from bellwether_client import testing

if importlib.util.find_spec("ops") is None:
    raise unittest.SkipTest("ops is missing: run tools/install")

#: The installed version of ops, and older ones; None is the installed one.
VERSIONS = [None, *sorted(one.name for one in TOOLS.glob("*"))]
#: The limit of 2 s for the calls of a hook, with what a busy machine adds.
SPENT_SECONDS = 2.5
BODY = """
for number in range(3):
    text = "said {}".format(number)
    self.status.push("kept", ops.MaintenanceStatus(text), key=str(number))
self.status.push("odd", ops.BlockedStatus("a\\x00b\\x1b[31m"))
with self.status.attempt("db", "pg://me:secret@10.0.0.7:5432") as attempt:
    raise ConnectionRefusedError("pg://me:secret@10.0.0.7 says \\x00\\x1b[31m")
self.status.later(3600, "the volume attaches \\x00", "volume")
with self.status.operation("install", "v2") as work:
    work.save(b"1", "step 1")
"""
WORKERS = 4
#: Good hooks that may be needed to send what is left.
HOOKS_MAX = 8


def at_once(function, values):
    """Runs a function for each value, some at once: most of them wait for a peer."""
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(function, values))


class Hooks(unittest.TestCase):
    def setUp(self):
        binary()

    def test_three_versions_of_ops_are_there(self):
        if not TOOLS.exists():
            self.skipTest("older versions of ops are missing: run tools/install")
        self.assertGreaterEqual(len(VERSIONS), 3)

    def test_no_peer_fails_a_hook_or_holds_it_up_and_all_arrives_later(self):
        # Each peer meets one version here, and all of them in `make check-long`.
        cases = [(name, VERSIONS[place % len(VERSIONS)]) for place, name in enumerate(NAMES)]
        if os.environ.get("BELLWETHER_ALL_HOOKS"):
            cases = [(name, version) for name in NAMES for version in VERSIONS]
        wrong = []
        for one in at_once(check, cases):
            wrong += one
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_a_text_with_control_characters_fails_no_later_hook(self):
        for version in VERSIONS:
            with self.subTest(version), testing.Server() as server:
                with tempfile.TemporaryDirectory() as folder:
                    unit = Unit(Path(folder) / "charm", version)
                    for hook in ("config-changed", "update-status", "actions/status-detail"):
                        code, said, _, _ = unit.run(hook, server.address, BODY=BODY)
                        self.assertEqual(code, 0, said)
                    self.assertIn(b"a\xef\xbf\xbdb", unit.given("status-set"))
                    self.assertEqual(steering(unit), [])

    def test_credentials_are_masked_before_they_leave_the_unit(self):
        with testing.Server() as server, tempfile.TemporaryDirectory() as folder:
            unit = Unit(Path(folder) / "charm")
            self.assertEqual(unit.run("config-changed", server.address, BODY=BODY)[0], 0)
            [fault] = server.faults("web", MODEL)
            self.assertEqual(fault["target"], "pg://***@10.0.0.7:5432")
            self.assertNotIn("secret", str(fault))
            self.assertNotIn(b"secret", unit.given("status-set") + unit.given("juju-log"))
            for path in unit.folder.glob(".bellwether-*"):
                self.assertNotIn("secret", path.read_text())


def steering(unit):
    """Returns the tools that were given bytes which steer a terminal."""
    tools = ("juju-log", "status-set", "action-set")
    return [tool for tool in tools if set(unit.given(tool)) & set(CONTROL)]


def check(case):
    """Runs the first hook, a failing one, and a removal; returns what is wrong."""
    name, version = case
    where = "{} with ops {}: ".format(name, version or "installed")
    with tempfile.TemporaryDirectory() as temporary, testing.Server(durable=True) as server:
        unit, rows, wrong = run_hooks(name, version, server, Path(temporary))
        # A hook sends for two seconds, and the next one what is left: on a busy machine that is more
        # than one.
        requested, left = False, []
        for _ in range(HOOKS_MAX):
            code, said, _, _ = unit.run("update-status", server.address)
            if code != 0:
                wrong.append("the hook after it ends with {}: {}".format(code, said[-2000:]))
            requested = requested or end_callback(server)
            left = arrived(server) + ([] if requested else ["the requested hook is missing"])
            if not left:
                break
        wrong += left
        wrong += ["{} got control characters".format(tool) for tool in steering(unit)]
    return [where + one for one in wrong]


def run_hooks(name, version, server, folder):
    """Runs three hooks with a server at fault; returns the unit, (whole, spent), what is wrong."""
    unit = Unit(folder / "charm", version)
    gone = Unit(folder / "gone", version, name="web/1")
    rows, wrong = [], []
    with at_fault(name, server, folder) as address:
        for one, hook, fails, body in [
            (unit, "install", False, BODY),
            (unit, "start", True, ""),
            (gone, "remove", False, ""),
        ]:
            code, said, whole, spent = one.run(hook, address, BODY=body)
            rows.append((whole, spent))
            if (code != 0) != fails:
                wrong.append("{} ends with {}: {}".format(hook, code, said[-2000:]))
            if spent > SPENT_SECONDS:
                wrong.append("{} waits for {} s".format(hook, spent))
    return unit, rows, wrong


def end_callback(server):
    """Ends the callback of the unit; returns whether it was there."""
    with server.client() as client:
        names = {"application": "web", "namespace": MODEL}
        # A callback that is not there needs no end.
        return client.request_callback(unit="web/0", key="volume", **names)["changed"]


def arrived(server):
    """Returns what the server lacks of what the unit said, and whether its order is another one."""
    with server.client() as client:
        names = {"application": "web", "namespace": MODEL}
        records = client.list_statuses(page_size=1000, **names)["statuses"]
    wrong, came = [], []
    for number in range(3):
        key = ("kept", str(number))
        for one in records:
            if (one["report"]["component"], one["report"]["key"]) == key:
                came.append(one["update_time"])
                if one["report"]["message"] != "said {}".format(number):
                    wrong.append("{} is {!r}".format(key, one["report"]["message"]))
    if len(came) != 3:
        wrong.append("{} of 3 kept statuses are there".format(len(came)))
    if came != sorted(came):
        wrong.append("the order is another one: {}".format(came))
    if "hook" in [one["report"]["component"] for one in records]:
        wrong.append("the failed hook is not ended by the good one")
    if not server.faults("web", MODEL):
        wrong.append("the failed call is missing")
    return wrong


if __name__ == "__main__":
    unittest.main()
