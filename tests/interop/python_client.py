#!/usr/bin/env python3
"""Runs the tests of clients/python against a running server.

usage: python_client.py HOST:PORT

BELLWETHER_BINARY names the server for the tests that restart it, or that need TLS or tokens. Without it they are
skipped, and with CI set that is a failure.
"""

import os
import sys
import unittest
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "clients" / "python" / "tests"


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    if sys.version_info < (3, 8):
        print("!!! SKIPPED: Python 3.8 or newer is missing", file=sys.stderr)
        sys.exit(1 if os.environ.get("CI") else 77)
    sys.dont_write_bytecode = True
    os.environ["BELLWETHER_ADDRESS"] = sys.argv[1]
    sys.path.insert(0, str(TESTS))
    suite = unittest.defaultTestLoader.discover(str(TESTS))
    result = unittest.TextTestRunner().run(suite)
    if not result.wasSuccessful() or result.testsRun == 0:
        sys.exit("the tests of clients/python failed")
    for test, why in result.skipped:
        print("!!! SKIPPED: {}: {}".format(test, why), file=sys.stderr)
    if result.skipped:
        sys.exit(1 if os.environ.get("CI") else 77)


if __name__ == "__main__":
    main()
