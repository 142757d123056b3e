"""Hooks as Juju runs them: a process of its own with `ops.main` and the commands of Juju."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from charm import MODEL, OpsCase
from server import DEADLINE, ROOT, wait_for

CHARM = """
import os, time
import ops
from bellwether_client.ops import StatusReporter


class Charm(ops.CharmBase):
    def __init__(self, framework):
        super().__init__(framework)
        self.status = StatusReporter(self)
        framework.observe(self.on.config_changed, self.on_config)
        if os.environ.get("COLLECT"):
            framework.observe(self.on.collect_unit_status, self.collect)
            framework.observe(self.on.collect_app_status, self.collect)
        if os.environ.get("CRASH") == "constructor":
            raise KeyError("constructor")

    def collect(self, event):
        event.add_status(ops.ActiveStatus("fine"))
        event.add_status(self.status.waiting("db", "for a relation", action="integrate"))
        event.add_status(ops.WaitingStatus("a later one"))

    def on_config(self, event):
        crash = os.environ.get("CRASH")
        if crash == "handler":
            raise KeyError("handler")
        if crash == "exit":
            raise SystemExit(3)
        if crash == "killed":
            with self.status.operation("upgrade", "v2") as operation:
                print("resumed", operation.resumed, operation.checkpoint, flush=True)
                operation.save(b"7", "step 7/9")
                if not operation.resumed:
                    time.sleep(60)
            # Older versions of ops emit the event of the killed hook again, before that of this one.
            del os.environ["CRASH"]
        self.unit.status = ops.ActiveStatus("works")


if __name__ == "__main__":
    ops.main(Charm)
"""
COMMANDS = {
    "is-leader": "echo ${LEADER:-false}",
    "config-get": "echo '{}'",
    "juju-log": "true",
    "status-set": "true",
    "status-get": """echo '{"status": "unknown", "message": ""}'""",
}


def make_charm(folder):
    """Writes a charm and the commands of Juju into a folder."""
    (folder / "src").mkdir()
    (folder / "src" / "charm.py").write_text(CHARM)
    (folder / "metadata.yaml").write_text("name: web\n")
    (folder / "bin").mkdir()
    for name, does in COMMANDS.items():
        path = folder / "bin" / name
        path.write_text("#!/bin/sh\n{}\n".format(does))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


def start_hook(folder, address, **variables):
    """Starts the hook config-changed."""
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "src"), **variables)
    environment.pop("BELLWETHER_STATE_DIR", None)
    environment.update(
        BELLWETHER_SERVER=address,
        JUJU_CHARM_DIR=str(folder),
        JUJU_DISPATCH_PATH="hooks/config-changed",
        JUJU_MODEL_NAME=MODEL,
        JUJU_UNIT_NAME="web/0",
        JUJU_VERSION="3.6.0",
        PATH="{}:{}".format(folder / "bin", os.environ["PATH"]),
    )
    command = [sys.executable, str(folder / "src" / "charm.py")]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdout=pipe, stderr=subprocess.STDOUT)


class Processes(OpsCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        make_charm(self.folder)

    def run_hook(self, server, **variables):
        hook = start_hook(self.folder, server.address, **variables)
        said, _ = hook.communicate(timeout=DEADLINE)
        return hook.returncode, said.decode()

    def test_a_hook_is_reported(self):
        server = self.start()
        code, said = self.run_hook(server)
        self.assertEqual(code, 0, said)
        self.assertEqual(self.unit(server), [("", "", "active", "works")])
        self.assertTrue((self.folder / ".bellwether-shop-web-0.json").is_file())

    def test_a_collected_set_and_the_status_of_the_application_are_reported(self):
        server = self.start()
        code, said = self.run_hook(server, COLLECT="1", LEADER="true")
        self.assertEqual(code, 0, said)
        levels = sorted(one[2:] for one in self.unit(server))
        collected = [("active", "fine"), ("waiting", "a later one"), ("waiting", "for a relation")]
        self.assertEqual(levels, collected)
        shown = server.application("web", MODEL)
        self.assertEqual((shown["leader"], self.shown(server)[1]), ("web/0", "for a relation"))
        with server.client() as client:
            listed = client.list_statuses(application="web", namespace=MODEL)["statuses"]
        own = [one["report"] for one in listed if not one["unit"]]
        self.assertIn("integrate", [one["action"] for one in own])

    def test_every_crash_is_reported_and_ended_by_a_good_hook(self):
        for crash, message in [
            ("handler", "config-changed failed: KeyError: 'handler'"),
            ("constructor", "config-changed failed: KeyError: 'constructor'"),
            ("exit", "config-changed failed: SystemExit: 3"),
        ]:
            with self.subTest(crash):
                server = self.start()
                code, said = self.run_hook(server, CRASH=crash)
                self.assertNotEqual(code, 0, said)
                self.assertEqual(self.shown(server), ("error", message))
                self.assertEqual(self.run_hook(server)[0], 0)
                self.assertEqual(self.shown(server), ("active", "works"))

    def test_a_crash_without_a_server_is_reported_later(self):
        server = self.start(durable=True)
        server.kill()
        self.assertNotEqual(self.run_hook(server, CRASH="handler")[0], 0)
        server.start()
        self.assertNotEqual(self.run_hook(server, CRASH="exit")[0], 0)
        [fault] = server.faults("web", MODEL)
        self.assertEqual(fault["last"]["code"], "builtins.SystemExit")
        self.assertIn("SystemExit: 3", self.shown(server)[1])

    def test_an_operation_survives_the_kill_of_its_hook(self):
        server = self.start()
        hook = start_hook(self.folder, server.address, CRASH="killed")
        self.assertEqual(hook.stdout.readline(), b"resumed False b''\n")
        wait_for(lambda: self.checkpoint(server) == b"7", "the checkpoint is stored")
        hook.send_signal(signal.SIGKILL)
        hook.communicate(timeout=DEADLINE)
        code, said = self.run_hook(server, CRASH="killed")
        self.assertEqual((code, said.splitlines()[0]), (0, "resumed True b'7'"), said)
        with server.client() as client:
            [one] = client.list_operations(application="web", namespace=MODEL)["operations"]
        self.assertEqual(one["state"], "OPERATION_STATE_SUCCEEDED")
        self.assertEqual(one["interruptions"], 0)

    def checkpoint(self, server):
        with server.client() as client:
            listed = client.list_operations(application="web", namespace=MODEL)["operations"]
            if not listed:
                return b""
            names = {"application": "web", "namespace": MODEL}
            name = listed[0]["operation_id"]
            return client.get_operation(operation_id=name, **names)["operation"]["checkpoint"]


if __name__ == "__main__":
    unittest.main()
