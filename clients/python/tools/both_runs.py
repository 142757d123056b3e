"""Runs the tests of others as they are, and again with the package in place."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

TOOLS = Path(__file__).resolve().parent
sys.path.insert(0, str(TOOLS.parent / "src"))

from bellwether_client import testing

SHOWN_MAX = 5
#: Commands by which a charm changes its machine. Here they do nothing: the tests run on yours.
COMMANDS = ("update-ca-certificates",)
SKIPPED = shutil.ignore_patterns(".git", ".venv", "venv", "__pycache__")


def run(python, checkout, tests, results, plugin=None, **variables):
    """Runs the tests, and returns the outcome of each."""
    paths = [checkout / "src", checkout / "lib", checkout, TOOLS.parent / "src", TOOLS]
    environment = dict(os.environ, JUJU_VERSION="3.6.0", **variables)
    environment["PYTHONPATH"] = ":".join(str(path) for path in paths)
    command = [python, "-m", "pytest", "-q", "--continue-on-collection-errors"]
    command += ["-p", "no:cacheprovider", "--junitxml", str(results), *tests]
    if plugin:
        command += ["-p", plugin]
    done = subprocess.run(
        command,
        cwd=str(checkout),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if not results.exists():
        # For example, PYTHON lacks a package that the tests import.
        sys.exit("pytest did not run the tests:\n" + done.stdout.decode("utf-8", "replace"))
    outcomes = {}
    for case in xml.etree.ElementTree.parse(str(results)).iter("testcase"):
        name = "{}::{}".format(case.get("classname"), case.get("name"))
        bad = case.find("failure") is not None or case.find("error") is not None
        skipped = case.find("skipped") is not None
        outcomes[name] = "failed" if bad else "skipped" if skipped else "passed"
    return outcomes


def add_commands(folder):
    """Puts commands that do nothing before those of the system."""
    folder.mkdir()
    for name in COMMANDS:
        path = folder / name
        path.write_text("#!/bin/sh\n", encoding="utf-8")
        path.chmod(0o755)
    os.environ["PATH"] = "{}:{}".format(folder, os.environ["PATH"])


def main(usage, plugin, name, prepare=lambda checkout: None):
    """Runs the tests of the arguments twice, prints what differs, and exits with 1 if any does.

    `plugin` compares after each hook, with a line of JSON in BELLWETHER_COMPARED. `name` says what
    the second run has, and `prepare` changes its copy of the checkout.
    """
    if len(sys.argv) < 3:
        sys.exit(usage)
    given, python, tests = Path(sys.argv[1]), sys.argv[2], sys.argv[3:] or ["tests/unit"]
    with tempfile.TemporaryDirectory() as folder, testing.Server() as server:
        plain, changed = Path(folder) / "plain", Path(folder) / "changed"
        shutil.copytree(given, plain, ignore=SKIPPED)
        shutil.copytree(given, changed, ignore=SKIPPED)
        prepare(changed)
        add_commands(Path(folder) / "bin")
        address = os.environ.pop("BELLWETHER_SERVER")
        before = run(python, plain, tests, Path(folder) / "plain.xml")
        compared = Path(folder) / "compared"
        after = run(
            python,
            changed,
            tests,
            Path(folder) / "changed.xml",
            plugin,
            BELLWETHER_SERVER=address,
            BELLWETHER_STATE_DIR=server.state_dir,
            BELLWETHER_COMPARED=str(compared),
        )
        for title, outcomes in (("as it is", before), (name, after)):
            counts = [list(outcomes.values()).count(kind) for kind in ("passed", "failed")]
            print("{:16} {} tests passed, {} failed".format(title, *counts))
        different = sorted(one for one in before if before[one] != after.get(one))
        print("different       ", len(different), *different, sep="\n" if different else " ")
        lines = compared.read_text().splitlines() if compared.exists() else []
        notes = [json.loads(line) for line in lines]
        count = sum(note["comparisons"] for note in notes)
        agree = sum(note["agree"] for note in notes)
        print("hooks reported   {}, comparisons {}, agree {}".format(len(notes), count, agree))
        # A few of them show what is wrong.
        wrong = [line for line, note in zip(lines, notes) if note["agree"] < note["comparisons"]]
        print("\n".join(wrong[:SHOWN_MAX]))
        sys.exit(bool(different or wrong or not notes))
