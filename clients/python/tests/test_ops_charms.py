"""The ops layer on collect cycles of a real charm and generated ones; the cost of its import."""

import json
import random
import subprocess
import sys
import unittest

from charm import MODEL, OpsCase, charm, ops, run
from server import ROOT

CYCLES = ROOT.parents[1] / "tests" / "data" / "charm-collects" / "prometheus-k8s.jsonl"
#: Milliseconds on top of `import ops`.
IMPORT_MAX = 5.0
LEVELS = ("active", "waiting", "maintenance", "blocked")
KINDS = {
    "active": ops.ActiveStatus,
    "waiting": ops.WaitingStatus,
    "maintenance": ops.MaintenanceStatus,
    "blocked": ops.BlockedStatus,
}


class Cycles(OpsCase):
    def collected(self, statuses):
        """Runs a hook that collects these, and returns what Juju and the server show."""

        def collect(_, event):
            for level, message in statuses:
                event.add_status(KINDS[level](message))

        status = run(charm(collect_unit=collect)).unit_status
        return (status.name, status.message)

    def test_the_cycles_of_a_real_charm_agree(self):
        if not CYCLES.is_file():
            self.skipTest("the cycles are not part of the package")
        server, agreed = self.start(), 0
        for line in CYCLES.read_text(encoding="utf-8").splitlines():
            cycle = json.loads(line)
            juju = self.collected(cycle["collected"])
            self.assertEqual(juju, tuple(cycle["chosen"]))
            self.assertEqual(self.shown(server), juju)
            agreed += 1
        self.assertEqual(agreed, 130)

    def test_generated_cycles_agree_with_ops(self):
        server, dice = self.start(), random.Random(18)
        for number in range(200):
            texts = ["text {}".format(dice.randrange(4)) for _ in range(dice.randrange(1, 12))]
            statuses = [(dice.choice(LEVELS), text) for text in texts]
            juju = self.collected(statuses)
            self.assertEqual(self.shown(server), juju, "cycle {}: {}".format(number, statuses))
            self.assertEqual(len(server.statuses("web/0", MODEL)), len(statuses))


class Import(unittest.TestCase):
    def test_the_import_costs_little_on_top_of_ops(self):
        command = [sys.executable, str(ROOT / "tools" / "import-cost"), "10"]
        said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertLessEqual(float(said.splitlines()[-1].split()[0]), IMPORT_MAX, said)


if __name__ == "__main__":
    unittest.main()
