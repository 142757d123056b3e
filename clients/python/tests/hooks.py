"""Hooks as Juju runs them: a process with `ops.main`, and the hook tools as programs."""

import os
import stat
import subprocess
import sys
import time
from pathlib import Path

from server import DEADLINE, ROOT, binary

#: Versions of ops, with the folder that goes before the installed packages.
TOOLS = ROOT.parents[1] / ".tools" / "ops"
MODEL = "shop"

CHARM = """
import atexit, os, time
import ops
from bellwether_client.ops import StatusReporter


class Charm(ops.CharmBase):
    def __init__(self, framework):
        super().__init__(framework)
        self.status = StatusReporter(self, **eval(os.environ.get("REPORTER", "{}")))
        atexit.register(self.measured)
        for event in (self.on.install, self.on.config_changed, self.on.update_status):
            framework.observe(event, self.works)
        framework.observe(self.on.start, self.fails)
        framework.observe(self.on.collect_unit_status, self.collect)

    def measured(self):
        print("SPENT {:.3f}".format(self.status.courier.spent), flush=True)

    def works(self, event):
        exec(os.environ.get("BODY", ""), dict(globals(), self=self, event=event))

    def fails(self, event):
        raise KeyError("the handler fails with \\x00 and \\x1b[31m")

    def collect(self, event):
        event.add_status(ops.ActiveStatus("fine"))
        for one in self.status.kept():
            event.add_status(one)


if __name__ == "__main__":
    ops.main(Charm) if callable(ops.main) else ops.main.main(Charm)
"""
#: Each tool writes what it is given into a file of the charm.
TOOL = """#!/bin/sh
printf '%s\\n' "$*" >> "$JUJU_CHARM_DIR/{name}.log"
{does}
"""
DOES = {
    "is-leader": "echo ${LEADER:-false}",
    "config-get": "echo '{}'",
    "juju-log": "",
    "status-set": "",
    "status-get": """echo '{"status": "unknown", "message": ""}'""",
    "action-get": "echo '{}'",
    "action-set": "",
    "action-log": "",
    "action-fail": "",
    "relation-ids": "echo '[]'",
}
#: What no tool may get: bytes that steer a terminal.
CONTROL = bytes(set(range(32)) - {9, 10}) + b"\x7f"


class Unit:
    """A charm in a folder, whose hooks are processes."""

    def __init__(self, folder, ops_version=None, name="web/0"):
        self.folder, self.name = Path(folder), name
        self.path = [str(ROOT / "src")]
        if os.environ.get("BELLWETHER_PACKAGE"):
            self.path = [os.environ["BELLWETHER_PACKAGE"]]
        if ops_version:
            self.path.append(str(TOOLS / ops_version))
        (self.folder / "src").mkdir(parents=True)
        (self.folder / "src" / "charm.py").write_text(CHARM)
        (self.folder / "metadata.yaml").write_text("name: web\n")
        actions = "status-detail:\n  description: Show all statuses.\n"
        (self.folder / "actions.yaml").write_text(actions)
        (self.folder / "bin").mkdir()
        for name, does in DOES.items():
            path = self.folder / "bin" / name
            path.write_text(TOOL.format(name=name, does=does))
            path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def environment(self, hook, address, **variables):
        """Returns the environment of a hook."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("BELLWETHER_")}
        environment.update(
            BELLWETHER_SERVER=address,
            JUJU_CHARM_DIR=str(self.folder),
            JUJU_DISPATCH_PATH=hook if "/" in hook else "hooks/" + hook,
            JUJU_MODEL_NAME=MODEL,
            JUJU_UNIT_NAME=self.name,
            JUJU_VERSION="3.6.0",
            PATH="{}:{}".format(self.folder / "bin", os.environ["PATH"]),
            PYTHONPATH=os.pathsep.join(self.path),
        )
        if hook.startswith("actions/"):
            environment.update(JUJU_ACTION_NAME=hook.partition("/")[2], JUJU_ACTION_UUID="1")
        environment.update(variables)
        return environment

    def attend(self, address, **variables):
        """Starts `bellwether attend`, which runs the hook `update-status` for each notification."""
        script = self.folder / "on-event"
        run = "#!/bin/sh\ncd {} && exec {} src/charm.py\n"
        script.write_text(run.format(self.folder, sys.executable))
        script.chmod(0o755)
        command = [binary(), "attend", self.name, "--exec", "--", str(script)]
        environment = self.environment("update-status", address, **variables)
        return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    def run(self, hook, address, **variables):
        """Runs a hook, and returns its exit status, output, seconds and seconds in calls."""
        command = [sys.executable, str(self.folder / "src" / "charm.py")]
        started = time.monotonic()
        done = subprocess.run(
            command,
            env=self.environment(hook, address, **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE,
        )
        whole, said = time.monotonic() - started, done.stdout.decode("utf-8", "replace")
        spent = [line for line in said.splitlines() if line.startswith("SPENT ")]
        return done.returncode, said, whole, float(spent[-1].split()[1]) if spent else 0.0

    def given(self, tool):
        """Returns what a tool was given, as bytes."""
        path = self.folder / (tool + ".log")
        return path.read_bytes() if path.exists() else b""
