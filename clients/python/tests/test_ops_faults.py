"""Hooks with a server that is away, slow, full, old or a stranger: none fails, none waits long."""

import json
import os
import tempfile
import unittest
from pathlib import Path

from charm import MODEL, OpsCase, charm, ops, run, testing
from faulty import FAULTS, HOOK_SECONDS, Hooks

#: A state of this version with a status that has nothing.
PARTLY = json.dumps(
    {
        "version": 1,
        "pull": [{}],
        "application": {},
        "pushes": {"kept ": {}},
        "faults": {},
        "operations": {},
        "data": {},
        "hook_failed": None,
        "resolved": [],
        "restored": True,
        "spool": [{}],
    }
)
#: A hook without any call takes 10 ms; a loaded machine may take much longer.
SLACK = 3.0


class Faults(OpsCase):
    def test_no_hook_fails_none_waits_and_all_is_delivered_later(self):
        for fault in FAULTS:
            with self.subTest(fault.__name__), tempfile.TemporaryDirectory() as folder:
                with testing.Server(durable=True) as server:
                    self.check(fault, server, Path(folder))

    def check(self, fault, server, folder):
        hooks = Hooks()
        hooks.run()
        address, repair = fault(server, folder)
        os.environ["BELLWETHER_SERVER"] = address
        try:
            for _ in range(2):
                whole, spent, waiting = hooks.run()
                self.assertLess(spent, HOOK_SECONDS + 0.5)
                self.assertLess(whole, HOOK_SECONDS + SLACK)
                self.assertGreater(waiting, 0)
        finally:
            repair()
        os.environ["BELLWETHER_SERVER"] = server.address
        run(charm(collect_unit=hooks.collect), leader=True)
        text = "run {}".format(hooks.number)
        kept = [one[1:] for one in self.unit(server) if one[0] == "kept"]
        self.assertEqual(kept, [("a", "maintenance", text), ("b", "maintenance", text)])
        self.assertEqual(self.shown(server), ("blocked", text))
        [fault] = server.faults("web", MODEL)
        self.assertEqual(fault["last"]["message"], text)
        with server.client() as client:
            data = client.get_app_data(application="web", namespace=MODEL)["app_data"]["data"]
            listed = client.list_statuses(application="web", namespace=MODEL)["statuses"]
        self.assertEqual(data, {"run": text.encode()})
        self.assertEqual([one["report"]["message"] for one in listed if not one["unit"]], [text])


class Spool(OpsCase):
    def test_a_late_status_has_the_time_at_which_it_was_said(self):
        server = self.start(durable=True)
        run(charm(lambda charm, _: setattr(charm.unit, "status", ops.ActiveStatus())))
        server.kill()
        run(charm(lambda charm, _: setattr(charm.unit, "status", ops.BlockedStatus("x"))))
        [path] = Path(server.state_dir).iterdir()
        state = json.loads(path.read_text())
        for one in state["pull"] + state["spool"][-1]["request"]["statuses"]:
            one["observe_time"] -= 3600
        path.write_text(json.dumps(state))
        server.start()
        run(charm(lambda charm, _: setattr(charm.unit, "status", ops.BlockedStatus("x"))))
        with server.client() as client:
            [one] = client.list_statuses(application="web", namespace=MODEL)["statuses"]
        age = one["update_time"] - one["since_time"]
        self.assertGreater(age.total_seconds(), 3500)

    def test_the_spool_is_bounded_and_keeps_the_present(self):
        def body(charm, _):
            for number in range(400):
                charm.status.push("c{}".format(number), ops.WaitingStatus("x" * 4000))

        os.environ.pop("BELLWETHER_SERVER", None)
        server = self.start()
        server.kill()
        run(charm(body))
        [path] = Path(server.state_dir).iterdir()
        spool = json.loads(path.read_text())["spool"]
        self.assertLessEqual(len(spool), 2048)
        self.assertIn("pull", [one["identity"][0] for one in spool])
        pushed = [one["identity"] for one in spool if one["identity"][0] == "push"]
        self.assertEqual(pushed[-1], ["push", "c399", ""])
        self.assertLess(sum(len(json.dumps(one)) for one in spool), 1_100_000)

    def test_a_damaged_state_and_a_folder_that_cannot_be_written_fail_no_hook(self):
        server = self.start()
        kind = charm(lambda charm, _: charm.status.push("kept", ops.WaitingStatus("x")))
        for damage in [
            "{",
            "[]",
            '{"version": 2}',
            '{"version": 1, "pull": 3}',
            "\x00\xff",
            PARTLY,
        ]:
            run(kind)
            [path] = [one for one in Path(server.state_dir).iterdir() if one.suffix == ".json"]
            path.write_bytes(damage.encode("latin-1"))
            run(kind)
        self.assertIn(("kept", "", "waiting", "x"), self.unit(server))
        run(
            charm(
                lambda charm, _: charm.status.push("kept", ops.WaitingStatus("y")),
                state_dir="/proc/none",
            )
        )
        self.assertIn(("kept", "", "waiting", "y"), self.unit(server))

    def test_a_unit_that_leads_no_more_does_not_deliver_its_words(self):
        server = self.start(durable=True)

        def two(charm, _):
            charm.app.status = ops.WaitingStatus(charm.unit.name)
            charm.status.data.update({"leader": charm.unit.name})

        run(charm(two), leader=True)
        server.kill()
        run(charm(two), leader=True)
        server.start()
        run(charm(two), leader=True, unit=1)
        run(charm())
        self.assertEqual(self.shown(server), ("waiting", "web/1"))
        self.assertEqual(server.application("web", MODEL)["leader"], "web/1")


class Alone(OpsCase):
    def test_without_a_server_the_library_is_complete(self):
        hooks = Hooks()
        with tempfile.TemporaryDirectory() as folder:
            before = os.environ.pop("BELLWETHER_SERVER", None)
            try:
                hooks.settings["state_dir"] = folder
                whole, spent, _ = hooks.run()
                verdict = hooks.reporter.state.faults["db pg:5432"]["verdict"]
                self.assertEqual(verdict["class"], "ERROR_CLASS_TRANSIENT")
                kept = []
                run(charm(lambda charm, _: kept.extend(charm.status.kept()), state_dir=folder))
                self.assertEqual([one.message for one in kept], ["run 1"] * 3 + [""])
            finally:
                if before:
                    os.environ["BELLWETHER_SERVER"] = before


if __name__ == "__main__":
    unittest.main()
