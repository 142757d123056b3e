"""The example charm with the real server: BELLWETHER_BINARY names it."""

import socket
import sys
import time
import unittest
from pathlib import Path

CHARM = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(CHARM / "src"), str(CHARM.parents[1] / "clients" / "python" / "src")]

import charm  # noqa: E402
from bellwether_client import testing  # noqa: E402
from ops import testing as scenario  # noqa: E402

MODEL = "market"


class ShopCase(unittest.TestCase):
    def setUp(self):
        self.server = testing.Server(durable=True)
        self.server.__enter__()
        self.addCleanup(self.server.__exit__)
        self.page = "active"
        self.interrupt_at = None
        self.steps = []
        case = self

        class Charm(charm.ShopCharm):
            def check_page(self):
                return getattr(self.status, case.page)("page", "page is {}".format(case.page))

            def run_step(self, step):
                case.steps.append(step)
                if step == case.interrupt_at:
                    raise SystemExit(1)

        self.charm = Charm

    def context(self, unit):
        return scenario.Context(
            self.charm, app_name="shop", unit_id=unit, charm_root=None, **scenario_files()
        )

    def run_hook(self, event="update_status", unit=0, leader=False, **config):
        context = self.context(unit)
        happens = getattr(context.on, event)
        happens = happens() if callable(happens) else happens
        state = scenario.State(leader=leader, config=config, model=scenario.Model(name=MODEL))
        return context.run(happens, state)

    def run_action(self, name, unit=0):
        context = self.context(unit)
        context.run(context.on.action(name), scenario.State(model=scenario.Model(name=MODEL)))
        return context.action_results

    def shown(self):
        return self.server.application("shop", MODEL)["status"]

    def messages(self, unit=0):
        found = self.server.statuses("shop/{}".format(unit), MODEL)
        return {one["component"]: one["message"] for one in found}


def scenario_files():
    """Returns the parts of charmcraft.yaml, because the class under test is not in its folder."""
    import yaml

    parts = yaml.safe_load((CHARM / "charmcraft.yaml").read_text())
    meta = {name: parts[name] for name in ("name", "requires", "peers")}
    return {"meta": meta, "config": parts["config"], "actions": parts["actions"]}


class Shop(ShopCase):
    def test_blocked_says_what_to_do(self):
        state = self.run_hook()
        self.assertEqual(state.unit_status, scenario.BlockedStatus("no database"))
        shown = self.shown()
        self.assertEqual(shown["message"], "no database")
        self.assertEqual(shown["action"], "juju config shop database=HOST:PORT")

    def test_a_kept_status_survives_a_new_start_of_everything(self):
        self.run_action("backup")
        self.server.restart()
        state = self.run_hook(database="127.0.0.1:1")
        self.assertEqual(state.unit_status, scenario.MaintenanceStatus("backup runs"))
        self.assertEqual(self.messages()["backup"], "backup runs")
        self.run_action("backup-done")
        self.assertNotIn("backup", self.messages())

    def test_a_check_that_fails_now_and_then_is_latched(self):
        with socket.create_server(("127.0.0.1", 0)) as database:
            config = {"database": "127.0.0.1:{}".format(database.getsockname()[1])}
            self.run_hook(leader=True, **config)
            with self.server.client() as client:
                latches = [{"component": "page", "good_count": 3}]
                client.configure_application(
                    application="shop", namespace=MODEL, config={"latches": latches}
                )
            levels = []
            for self.page in ("waiting", "active", "active", "active"):
                self.run_hook(leader=True, **config)
                levels.append(self.shown()["level"])
        self.assertEqual(levels, ["LEVEL_WAITING"] * 3 + ["LEVEL_ACTIVE"])

    def test_a_transient_error_is_retried_and_then_resolved(self):
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            target = "127.0.0.1:{}".format(reserved.getsockname()[1])
            self.run_hook(leader=True, database=target)
            [fault] = self.server.faults("shop", MODEL)
            self.assertEqual((fault["component"], fault["target"]), ("database", target))
            self.assertGreater(fault["count"], 1)
            self.assertEqual(self.shown()["fault_count"], 1)
            reserved.listen(4)
            # The next attempt is due at the time of the verdict; Juju comes later than that.
            end = time.monotonic() + testing.DEADLINE
            while self.server.faults("shop", MODEL):
                self.assertLess(time.monotonic(), end)
                self.run_hook(leader=True, database=target)
        self.assertEqual(self.shown()["level"], "LEVEL_ACTIVE")

    def test_a_removal_is_never_blocked(self):
        self.run_hook(database="127.0.0.1:1")
        self.run_hook(unit=1, database="127.0.0.1:1")
        self.server.kill()
        self.run_hook("stop", database="127.0.0.1:1")
        self.server.start()
        self.run_hook("remove", database="127.0.0.1:1")
        with self.server.client() as client:
            units = client.list_units(application="shop", namespace=MODEL)["units"]
        self.assertEqual([one["name"] for one in units], ["shop/1"])

    def test_the_complaint_of_a_stop_does_not_pass_to_the_next_start(self):
        self.run_action("backup")
        self.run_hook("stop", database="127.0.0.1:1")
        self.assertEqual(self.messages()["relation"], "no relation")
        self.assertTrue(self.server.faults("shop", MODEL))
        state = self.run_hook("start", database="127.0.0.1:1")
        self.assertEqual(state.unit_status, scenario.MaintenanceStatus("backup runs"))
        self.assertNotIn("relation", self.messages())
        self.assertEqual(self.server.faults("shop", MODEL), [])

    def test_the_leader_shows_all_statuses_of_the_application(self):
        self.run_hook(leader=True)
        with self.server.client() as client:
            listed = client.list_statuses(application="shop", namespace=MODEL)["statuses"]
        own = {one["report"]["component"]: one["report"] for one in listed if not one["unit"]}
        self.assertEqual(sorted(own), ["database", "shop"])
        self.assertEqual(own["database"]["action"], "juju config shop database=HOST:PORT")

    def test_a_unit_waits_for_the_data_of_the_leader(self):
        self.run_hook(unit=1, database="127.0.0.1:1")
        self.assertEqual(self.messages(1)["schema"], "waits for the leader's choice")
        self.run_hook("leader_elected", leader=True, database="127.0.0.1:1")
        self.run_hook(unit=1, database="127.0.0.1:1")
        self.assertNotIn("schema", self.messages(1))
        # Another leader finds the choice and does not choose again.
        self.run_hook("leader_elected", unit=1, leader=True, database="127.0.0.1:1")
        with self.server.client() as client:
            data = client.get_app_data(application="shop", namespace=MODEL)["app_data"]["data"]
        self.assertEqual(data, {"database.name": b"shop"})

    def test_each_unit_continues_its_interrupted_upgrade(self):
        for unit in (0, 1):
            self.interrupt_at = "migrate"
            with self.assertRaises(SystemExit):
                self.run_hook("upgrade_charm", unit=unit, version="2")
            self.assertIn("failed", self.messages(unit)["hook"])
        self.assertEqual(self.steps, ["stop", "migrate"] * 2)
        # Each unit has an operation of its own, beside that of the other.
        with self.server.client() as client:
            begun = client.list_operations(application="shop", namespace=MODEL)["operations"]
        shown = sorted((one["unit"], one["target_version"], one["progress"]) for one in begun)
        self.assertEqual(shown, [("shop/{}".format(unit), "2", "step 1/3") for unit in (0, 1)])
        self.assertNotIn("operation", self.messages(1))
        self.interrupt_at = None
        for unit in (0, 1):
            del self.steps[:]
            self.run_hook(unit=unit, version="2")
            self.assertEqual(self.steps, ["migrate", "start"])
        self.assertNotIn("operation", self.messages(1))
        with self.server.client() as client:
            done = client.list_operations(application="shop", namespace=MODEL)["operations"]
        self.assertEqual([one["state"] for one in done], ["OPERATION_STATE_SUCCEEDED"] * 2)

    def test_the_action_shows_everything(self):
        self.run_hook(database="127.0.0.1:1")
        table = self.run_action("status-detail")["table"]
        self.assertIn("127.0.0.1:1", table)
        self.assertIn("page", table)


if __name__ == "__main__":
    unittest.main()
