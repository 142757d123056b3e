"""The package as one file, which passes the tests of the package; and the wheel and the sdist."""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

from server import ROOT, binary

VENDOR = ROOT / "tools" / "vendor.py"
SAME = ["test_methods", "test_calls", "test_needs", "test_watch", "test_security"]
SAME += ["test_ops"] if importlib.util.find_spec("ops") else []


def run(*command, cwd=ROOT / "tests", **variables):
    environment = dict(os.environ, **variables)
    # The same tests have run on the shared server, with the same names.
    environment.pop("BELLWETHER_ADDRESS", None)
    done = subprocess.run(
        [sys.executable, *command],
        cwd=str(cwd),
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")


class Vendored(unittest.TestCase):
    def test_a_command_without_a_file_says_what_to_give(self):
        for given in [(), ("--check",), ("a.py", "b.py")]:
            code, said = run(str(VENDOR), *given)
            self.assertEqual(code, 1, said)
            self.assertIn("usage: vendor.py FILE", said)

    def test_the_file_passes_the_tests_of_the_package(self):
        binary()
        with tempfile.TemporaryDirectory() as folder:
            # The file alone: nothing of the package can be found beside it.
            alone = Path(folder) / "lib" / "bellwether_client.py"
            self.assertEqual(run(str(VENDOR), str(alone)), (0, ""))
            given = {"BELLWETHER_PACKAGE": str(alone.parent), "PYTHONDONTWRITEBYTECODE": "1"}
            where = "import server, bellwether_client; print(bellwether_client.__file__)"
            self.assertEqual(run("-c", where, **given), (0, "{}\n".format(alone)))
            code, said = run("-m", "unittest", *SAME, **given)
        self.assertEqual(code, 0, said)
        self.assertIn("\nOK", said)


class Distribution(unittest.TestCase):
    def test_the_wheel_and_the_sdist_have_everything(self):
        with tempfile.TemporaryDirectory() as folder:
            if run("-c", "import hatchling")[0] != 0:
                raise unittest.SkipTest("hatchling is missing")
            code, said = run("-m", "hatchling", "build", "-d", folder, cwd=ROOT)
            self.assertEqual(code, 0, said)
            [wheel] = Path(folder).glob("*.whl")
            [sdist] = Path(folder).glob("*.tar.gz")
            self.assertEqual(wheel.name, "bellwether_client-0.1.0-py3-none-any.whl")
            with zipfile.ZipFile(str(wheel)) as file:
                inside = set(file.namelist())
                metadata = file.read("bellwether_client-0.1.0.dist-info/METADATA").decode()
            for path in (ROOT / "src" / "bellwether_client").iterdir():
                if path.name != "__pycache__":
                    self.assertIn("bellwether_client/" + path.name, inside)
            self.assertNotIn("Requires-Dist", metadata)
            code, said = run(
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--no-index",
                "--no-build-isolation",
                "--target",
                folder + "/into",
                str(sdist),
            )
            self.assertEqual(code, 0, said)
            code, said = run(
                "-c",
                "import bellwether_client.ops as o; print(o.__file__)",
                PYTHONPATH=folder + "/into",
            )
            self.assertEqual((code, said.startswith(folder)), (0, True), said)


if __name__ == "__main__":
    unittest.main()
