#!/usr/bin/env python3
"""Runs the tests of clients/python and of examples/charm against a running server.

usage: python_client.py HOST:PORT

BELLWETHER_BINARY names the server for the tests that restart it, or that need TLS or tokens. Without it they are
skipped, and with CI set that is a failure. So are those that need the packages of tools/python-requirements.txt.
"""

import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "clients" / "python" / "tests"
EXAMPLE = ROOT / "examples" / "charm" / "tests"
PYTHON = ROOT / ".tools" / "venv" / "bin" / "python"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.version_info < (3, 8):
        print("!!! SKIPPED: Python 3.8 or newer is missing", file=sys.stderr)
        sys.exit(1 if os.environ.get("CI") else 77)
    if PYTHON.exists() and "BELLWETHER_VENV" not in os.environ:
        # The full path, because Python finds its packages by the path of its executable.
        os.environ["BELLWETHER_VENV"] = str(PYTHON.parent.parent)
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
    sys.dont_write_bytecode = True
    os.environ["BELLWETHER_ADDRESS"] = sys.argv[1]
    sys.path.insert(0, str(TESTS))
    suite = unittest.defaultTestLoader.discover(str(TESTS))
    result = unittest.TextTestRunner().run(suite)
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit("the tests of clients/python failed")
    for test, why in result.skipped:
        print("!!! SKIPPED: {}: {}".format(test, why), file=sys.stderr)
    # The modules of the example have names of their own.
    example = [sys.executable, "-m", "unittest", "discover", "-s", str(EXAMPLE)]
    if not result.skipped and subprocess.run(example).returncode != 0:
        sys.exit("the tests of examples/charm failed")
    if result.skipped and os.environ.get("CI"):
        sys.exit("a tool is missing, and in CI nothing is skipped; run tools/install")


if __name__ == "__main__":
    main()
