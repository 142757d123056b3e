"""The package: generated files, the example of the README, and the cost of the import."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

from server import ROOT, ServerCase

#: Milliseconds of processor time of the import, beyond http.client: ten times what it takes, so that a heavy module
#: exceeds it, and a busy machine does not.
IMPORT_MAX = 50.0
ROUNDS = 15
MEASURE = """
import sys, time
import http.client
before = set(sys.modules)
started = time.process_time()
import bellwether_client
print(1000 * (time.process_time() - started))
print(" ".join(sorted(set(sys.modules) - before)))
"""


def run(*arguments, **variables):
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "src"), **variables)
    return subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
    )


class Generated(unittest.TestCase):
    def test_the_generated_files_are_what_the_protos_say(self):
        if not (ROOT.parents[1] / "proto").is_dir():
            raise unittest.SkipTest("the protos are not part of the package")
        done = run(str(ROOT / "tools" / "generate.py"), "--check")
        self.assertEqual(done.returncode, 0, done.stdout.decode())


class Example(ServerCase):
    def test_the_first_example_of_the_readme_works(self):
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        example = re.search(r"```python\n(.*?)```", text, re.S).group(1)
        example = example.replace("http://127.0.0.1:50051", "http://" + self.address)
        done = run("-c", example)
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        self.assertIn("LEVEL_BLOCKED: the password is refused", done.stdout.decode())
        self.assertIn("NotFound APPLICATION_NOT_FOUND", done.stdout.decode())


class Import(unittest.TestCase):
    def test_the_import_costs_little(self):
        best, loaded = None, ""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # An installed package has compiled files.
        compiled = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": folder.name}
        for _ in range(ROUNDS):
            done = run("-c", MEASURE, **compiled)
            self.assertEqual(done.returncode, 0, done.stdout.decode())
            spent, loaded = done.stdout.decode().split("\n")[:2]
            best = min(float(spent), best or float(spent))
        self.assertLessEqual(best, IMPORT_MAX, loaded)
        for module in ("typing", "json", "bellwether_client._watch", "bellwether_client.messages"):
            self.assertNotIn(" {} ".format(module), " {} ".format(loaded))


if __name__ == "__main__":
    unittest.main()
