"""Loads the image into a Docker engine and runs it, alone and with Compose, on a machine of its own.

The engine, Compose and Valkey are those of `tools/install packages`. There is no registry, so the image of Valkey is
made of the program that the other tests use.
"""

import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import unittest

from machine import Failed, Machine, lacks
from test_packages import ARTEFACTS, ROOT, VERSION, first_screen

TOOLS = ROOT / ".tools"
ENGINE = TOOLS / "docker/usr"
COMPOSE = TOOLS / "compose/compose/docker-compose"
VALKEY = TOOLS / "valkey/usr/bin"
IMAGE = f"bellwether:{VERSION}"
HOME = "/root"  # of the client of Docker
# The published image is compiled without protected mode, which refuses other machines.
ENTRY = '#!/bin/sh\nexec /opt/valkey-server "$@" --protected-mode no\n'


def what_is_missing():
    if (why := lacks()) is not None:
        return why
    for tool in [ENGINE / "sbin/dockerd", COMPOSE, VALKEY / "valkey-server"]:
        if not tool.exists():
            return f"{tool.name} is missing (tools/install packages)"
    return None if shutil.which("iptables") else "iptables is missing"


def valkey_image():
    """Returns the tar archive of a root with Valkey, its client and a shell."""
    programs = {"opt/valkey-server": VALKEY / "valkey-server", "usr/bin/valkey-cli": VALKEY / "valkey-cli",
                "bin/sh": pathlib.Path("/bin/dash")}
    lines = subprocess.run(["ldd", *programs.values()], capture_output=True, text=True, check=True).stdout
    libraries = set(re.findall(r"^\s+(?:\S+ => )?(/\S+) \(", lines, re.MULTILINE))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", dereference=True) as tar:
        for name, path in sorted({**programs, **{path.lstrip("/"): path for path in libraries}}.items()):
            tar.add(path, name)
        entry = tarfile.TarInfo("usr/bin/valkey-server")
        entry.mode, entry.size = 0o755, len(ENTRY)
        tar.addfile(entry, io.BytesIO(ENTRY.encode()))
    return packed.getvalue()


class Docker(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if (why := what_is_missing()) is not None:
            assert not os.environ.get("CI"), why
            raise unittest.SkipTest(why)
        machine = cls.machine = cls.enterClassContext(Machine())
        archive = ARTEFACTS / f"bellwether-{VERSION}-x86_64-linux.tar.gz"
        with tarfile.open(archive) as packed:
            program = packed.extractfile(f"bellwether-{VERSION}-x86_64-linux/bellwether").read()
        machine.write("/usr/local/bin/bellwether", program)
        machine.run("chmod", "755", "/usr/local/bin/bellwether")
        path = f"--setenv=PATH={ENGINE}/bin:{ENGINE}/sbin:/usr/sbin:/usr/bin"
        # Layers are copied, because the root of the machine is an overlay already.
        machine.run("systemd-run", "--unit=docker", path, ENGINE / "sbin/dockerd", "--storage-driver=vfs",
                    "--data-root=/run/docker-data")
        machine.wait(cls.answers)
        cls.loaded = cls.docker("load", content=(ARTEFACTS / f"bellwether-{VERSION}-amd64-image.tar").read_bytes())
        cls.docker("import", "--change=WORKDIR /data", "-", "valkey/valkey:8-alpine", content=valkey_image())

    @classmethod
    def answers(cls):
        try:
            return cls.docker("info")
        except Failed:
            return None

    @classmethod
    def docker(cls, *command, content=b""):
        return cls.machine.run("env", f"HOME={HOME}", ENGINE / "bin/docker", *command, content=content)

    def compose(self, *command):
        return self.machine.run("env", f"HOME={HOME}", f"PATH={ENGINE}/bin:/usr/bin", COMPOSE,
                                "--file", "/run/compose.yaml", "--project-name", "test", *command)

    def start(self, *command):
        """Runs a container until the end of the test."""
        self.docker("run", "--detach", "--name=bellwether", *command)
        self.addCleanup(self.docker, "rm", "--force", "--volumes", "bellwether")

    def state(self):
        return json.loads(self.docker("inspect", "--format={{json .State}}", "bellwether"))

    def wait_until_healthy(self):
        self.machine.wait(lambda: True if self.state()["Health"]["Status"] == "healthy" else None)

    def run_first_screen(self):
        said = [self.machine.run("sh", "-ec", command) for command in first_screen()]
        self.assertIn("web is blocked", said[-1])

    def test_the_archive_is_loaded_under_its_name(self):
        self.assertIn(f"Loaded image: {IMAGE}", self.loaded)
        about = json.loads(self.docker("image", "inspect", IMAGE))[0]
        self.assertEqual(about["Config"]["User"], "65532:65532")
        self.assertEqual(about["Config"]["Labels"]["org.opencontainers.image.version"], VERSION)

    def test_the_command_of_the_documentation_serves(self):
        line = re.search(r"^docker run (.*)$", (ROOT / "docs/install.md").read_text(), re.MULTILINE)[1]
        self.start(*line.replace("VERSION", VERSION).split())
        self.wait_until_healthy()
        self.run_first_screen()
        self.docker("stop", "bellwether")
        self.assertEqual(self.state()["ExitCode"], 0)
        self.assertIn('"message":"stopped"', self.docker("logs", "bellwether"))

    def test_without_arguments_it_serves_with_a_root_that_is_read_only_and_keeps_its_data(self):
        bare = ["--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges",
                "--volume=kept:/var/lib/bellwether", "--health-interval=1s"]
        self.addCleanup(self.docker, "volume", "rm", "kept")
        self.start(*bare, IMAGE)
        self.wait_until_healthy()
        inside = ["exec", "bellwether", "bellwether"]
        self.docker(*inside, "report", "web/0", "--level", "active", "-m", "kept")
        self.docker("rm", "--force", "bellwether")
        self.docker("run", "--detach", "--name=bellwether", *bare, IMAGE)
        self.wait_until_healthy()
        self.assertIn("kept", self.docker(*inside, "status"))

    def test_compose_starts_the_server_with_valkey_and_keeps_what_it_stored(self):
        self.machine.write("/run/compose.yaml", (ARTEFACTS / f"bellwether-{VERSION}-compose.yaml").read_bytes())
        self.compose("config", "--quiet")
        self.addCleanup(self.compose, "down", "--volumes")
        self.compose("up", "--detach", "--wait")
        self.run_first_screen()
        self.compose("down")
        with self.assertRaises(Failed):
            self.machine.run("bellwether", "health")
        self.compose("up", "--detach", "--wait")
        self.assertIn("web is blocked", self.machine.run("bellwether", "why", "web"))


if __name__ == "__main__":
    unittest.main()
