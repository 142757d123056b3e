"""The ops layer on collect cycles of a real charm and generated ones; the cost of its import."""

import json
import logging
import random
import subprocess
import sys
import unittest

from charm import MODEL, OpsCase, charm, ops, run
from server import ROOT

CYCLES = ROOT.parents[1] / "tests" / "data" / "charm-collects" / "prometheus-k8s.jsonl"
#: Milliseconds on top of `import ops`: ten times what it takes, so that a heavy module exceeds it.
IMPORT_MAX = 50.0
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


class Texts(OpsCase):
    def test_the_server_refuses_nothing_that_a_charm_says(self):
        dice = random.Random(5)

        def text():
            size = dice.choice((0, 1, 3, 40, 300, 5000))
            ranges = ((0, 128), (0, 0x3000), (0xD800, 0xE000), (0x1F600, 0x1F601))
            return "".join(chr(dice.randrange(*dice.choice(ranges))) for _ in range(size))

        def collect(charm, event):
            for make in (charm.status.waiting, charm.status.active) * dice.randrange(3):
                names = ("key", "check", "action", "short", "reason")
                more = dict({name: text() for name in names}, labels={text(): text()})
                event.add_status(make(text(), text(), priority=10**9, **more))
                event.add_status(ops.WaitingStatus(text()))

        def body(charm, _):
            ttl = dice.choice((None, 0, 1e12))
            charm.status.push(text(), ops.ActiveStatus(text()), key=text(), ttl=ttl)
            charm.status.clear(text(), dice.choice((None, text())))
            with charm.status.attempt(text(), text(), action=text()):
                raise ValueError(text())
            with charm.status.operation(text(), text(), b"\x00") as operation:
                operation.save(b"1", text())
            charm.app.status = ops.WaitingStatus(text())

        self.start()
        with self.assertLogs("bellwether_client", "ERROR") as logs:
            # assertLogs needs one line.
            logging.getLogger("bellwether_client").error("the only one")
            for _ in range(40):
                run(charm(body, collect_unit=collect), leader=True)
        self.assertEqual([one.getMessage() for one in logs.records], ["the only one"])


class Import(unittest.TestCase):
    def test_the_import_costs_little_on_top_of_ops(self):
        command = [sys.executable, str(ROOT / "tools" / "import-cost"), "10"]
        said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertLessEqual(float(said.splitlines()[-1].split()[0]), IMPORT_MAX, said)


if __name__ == "__main__":
    unittest.main()
