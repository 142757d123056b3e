"""Starts the built server, as the pod does, for what only a running server knows."""

import json
import os
import pathlib
import ssl
import subprocess
import urllib.request

from chart import ROOT


def program():
    """The program that `make chart` has built; BELLWETHER_BIN names another one."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = pathlib.Path(os.environ.get("BELLWETHER_BIN", target / "debug/bellwether"))
    if not found.exists():
        raise AssertionError(f"{found} is not built; run make chart, or set BELLWETHER_BIN")
    return found


def run(*arguments, **variables):
    """Runs a command of the program, and returns its exit code and what it printed."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("BELLWETHER_", "OTEL_"))}
    done = subprocess.run(
        [program(), *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False,
        env={**clean, **variables},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


class Server:
    """A server in memory on free ports."""

    def __init__(self, *arguments):
        self.arguments = arguments or ("--ephemeral",)

    def __enter__(self):
        ports = ("--grpc-listen=127.0.0.1:0", "--ops-listen=127.0.0.1:0", "--print-addresses=json")
        self.process = subprocess.Popen(
            [program(), "serve", *self.arguments, *ports], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"the server ended with {self.process.wait(10)}")
        self.addresses = json.loads(line)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        self.process.stdout.close()

    def cli(self, *arguments):
        code, text = run("--server", f"http://{self.addresses['grpc']}", *arguments)
        if code != 0:
            raise AssertionError(text)
        return text

    def get(self, path, scheme="http"):
        """Reads from the ops port; like the kubelet without verifying its certificate."""
        url = f"{scheme}://{self.addresses['ops']}{path}"
        context = ssl._create_unverified_context() if scheme == "https" else None
        with urllib.request.urlopen(url, timeout=10, context=context) as answer:
            return answer.read().decode()
