"""A pushed status with a ttl ends: at the unit, at the server, and at an older one as it can."""

import json
import os
import time
import unittest
from datetime import timezone
from pathlib import Path

from between import between
from charm import MODEL, OpsCase, charm, ops, run
from server import wait_for

REFUSAL = "the request is no ReportStatusRequest in JSON: unrecognized field name 'endAfter'"


def pushes(ttl):
    def body(charm, _):
        charm.unit.status = ops.ActiveStatus("ready")
        charm.status.push("job", ops.WaitingStatus("later"), ttl=ttl)

    return charm(body)


def only_active(charm, _):
    charm.unit.status = ops.ActiveStatus("ready")


def without_ends(path, request):
    """Answers as a server that has no end of a status."""
    is_known = "endAfter" not in json.dumps(request)
    return path if is_known else {"code": "invalid_argument", "message": REFUSAL}


class Ends(OpsCase):
    def job(self, server):
        with server.client() as client:
            listed = client.list_statuses(application="web", namespace=MODEL, unit="web/0")
        found = [one for one in listed["statuses"] if one["report"]["component"] == "job"]
        return found[0] if found else None

    def test_a_pushed_status_ends_at_the_server_without_another_hook(self):
        server = self.start()
        run(pushes(1))
        # It is gone, not only stale, and the next status decides.
        wait_for(lambda: self.job(server) is None, "the end of the status")
        self.assertEqual(self.shown(server), ("active", "ready"))
        with server.client() as client:
            listed = client.list_status_events(application="web", namespace=MODEL)
        self.assertIn("Ended", [one["cause"] for one in listed["events"]])
        run(charm(only_active))
        self.assertIsNone(self.job(server))

    def test_another_push_of_the_same_status_moves_the_end(self):
        server = self.start()
        run(pushes(600))
        first = self.job(server)
        wait_for(lambda: time.time() > first["end_time"].timestamp() - 599.5, "half a second")
        run(pushes(600))
        second = self.job(server)
        self.assertGreater(second["end_time"], first["end_time"])
        self.assertEqual(second["update_time"], first["update_time"])

    def test_a_status_that_waited_ends_when_it_was_said_to(self):
        server = self.start(durable=True)
        run(charm(only_active))
        server.kill()
        run(pushes(3600))
        [path] = Path(server.state_dir).iterdir()
        state = json.loads(path.read_text())
        for one in state["spool"]:
            one["said"] -= 600
        path.write_text(json.dumps(state))
        server.start()
        run(charm(only_active))
        left = self.job(server)["end_time"].astimezone(timezone.utc).timestamp() - time.time()
        self.assertTrue(2800 < left < 3001, left)

    def test_a_status_whose_record_is_lost_comes_back_with_its_end(self):
        server = self.start()
        run(pushes(600))
        found = []

        def body(charm, _):
            charm.status.restore()
            found.extend(charm.status.state.pushes.values())

        run(charm(body, state_dir=server.state_dir + "-new"))
        [one] = [one for one in found if one["component"] == "job"]
        self.assertAlmostEqual(one["expires"], self.job(server)["end_time"].timestamp(), delta=1)

    def test_an_older_server_gets_a_ttl_in_place_of_an_end(self):
        server = self.start()
        older = between(self, os.environ["BELLWETHER_SERVER"], without_ends)
        run(pushes(1))
        os.environ["BELLWETHER_SERVER"] = older
        self.addCleanup(os.environ.pop, "BELLWETHER_SERVER", None)
        run(pushes(600))
        report = self.job(server)["report"]
        self.assertEqual((report["ttl"], report["end_after"]), (600.0, None))


if __name__ == "__main__":
    unittest.main()
