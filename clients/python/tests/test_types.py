"""The oldest Python that is promised, and types: what a strict checker and a check of the API say."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from server import ROOT

#: The oldest version of `requires-python`, and one of the newest that the pinned checker knows.
VERSIONS = ("3.8", "3.13")


def has(module):
    """Returns whether a tool of tools/python-requirements.txt is installed."""
    found = subprocess.run([sys.executable, "-c", "import " + module], stderr=subprocess.DEVNULL)
    return found.returncode == 0


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=str(ROOT),
    )
    return done.returncode, done.stdout.decode()


class Types(unittest.TestCase):
    def test_a_strict_checker_finds_nothing(self):
        if not has("mypy"):
            self.skipTest("mypy is not installed")
        for version in VERSIONS:
            with self.subTest(version), tempfile.TemporaryDirectory() as cache:
                code, said = run("mypy", "--python-version", version, "--cache-dir", cache)
                self.assertEqual(code, 0, said)
                self.assertIn("no issues found", said)

    def test_syntax_and_library_are_those_of_the_oldest_version(self):
        if not has("vermin"):
            self.skipTest("vermin is not installed")
        # It runs as a program only.
        script = "import sys, vermin; sys.exit(vermin.main())"
        options = ["--no-tips", "-t={}-".format(VERSIONS[0]), "--violations"]
        with tempfile.TemporaryDirectory() as folder:
            one_file = str(Path(folder) / "bellwether_client.py")
            subprocess.run([sys.executable, str(ROOT / "tools" / "vendor.py"), one_file], check=True)
            done = subprocess.run(
                [sys.executable, "-c", script, *options, "src", one_file],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=str(ROOT),
            )
        said = done.stdout.decode()
        self.assertEqual(done.returncode, 0, said)
        self.assertIn("Minimum required versions: 3.8", said)


if __name__ == "__main__":
    unittest.main()
