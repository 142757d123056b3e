"""Work that a hook does within the pause that the server imposes after a failed attempt."""

import json
import tempfile
import unittest
from pathlib import Path

from charm import MODEL, OpsCase
from hooks import Unit

#: The attempt fails with a pause of an hour if the hook says so, and is done otherwise.
WORK = """
with self.status.operation("upgrade", "v2") as work:
    work.save(b"1", "step 1/2")
    if os.environ.get("KILLS"):
        os.kill(int(os.environ["KILLS"]), 9)
    if os.environ.get("FAILS"):
        error = ConnectionRefusedError("busy")
        error.retry_after = 3600
        raise error
"""


class Pause(OpsCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.charm = Unit(Path(temporary.name) / "charm")

    def hook(self, server, **variables):
        code, said, _, _ = self.charm.run("config-changed", server.address, BODY=WORK, **variables)
        self.assertEqual(code != 0, "FAILS" in variables, said)

    def operation(self, server):
        with server.client() as client:
            names = {"application": "web", "namespace": MODEL}
            [one] = client.list_operations(unit="web/0", **names)["operations"]
        self.assertEqual(one["unit"], "web/0")
        return one

    def state(self):
        [path] = self.charm.folder.glob(".bellwether-*.json")
        return json.loads(path.read_text())

    def test_a_success_in_the_pause_is_recorded_and_a_failure_is_none(self):
        server = self.start()
        self.hook(server, FAILS="1")
        first = self.operation(server)
        self.assertEqual(first["state"], "OPERATION_STATE_RETRY_WAIT")
        self.hook(server, FAILS="1")
        again = self.operation(server)
        names = ("state", "fence", "attempts_failed", "retry_time")
        self.assertEqual([again[name] for name in names], [first[name] for name in names])
        self.hook(server)
        self.assertEqual(self.operation(server)["state"], "OPERATION_STATE_SUCCEEDED")
        self.assertEqual(self.state()["operations"], {})
        self.assertEqual(self.state()["spool"], [])
        self.assertNotIn("operation", [one[0] for one in self.unit(server)])

    def test_a_failure_that_was_not_delivered_is_replaced_by_the_success(self):
        server = self.start(durable=True)
        # The server goes while the hook works, and has the operation as held.
        self.hook(server, FAILS="1", KILLS=str(server._process.pid))
        server.kill()
        [waits] = [one for one in self.state()["spool"] if one["identity"][0] == "operation"]
        self.assertEqual(waits["method"], "fail_operation")
        self.hook(server)
        self.assertEqual(self.state()["operations"], {})
        server.start()
        code, said, _, _ = self.charm.run("update-status", server.address)
        self.assertEqual(code, 0, said)
        self.assertEqual(self.operation(server)["state"], "OPERATION_STATE_SUCCEEDED")

    def test_a_record_that_was_lost_is_completed_in_the_pause(self):
        server = self.start()
        self.hook(server, FAILS="1")
        [path] = self.charm.folder.glob(".bellwether-*.json")
        path.unlink()
        self.hook(server)
        self.assertEqual(self.operation(server)["state"], "OPERATION_STATE_SUCCEEDED")

    def test_a_record_of_an_earlier_version_is_completed(self):
        server = self.start()
        self.hook(server, FAILS="1")
        [path] = self.charm.folder.glob(".bellwether-*.json")
        state = self.state()
        del state["operations"]["upgrade"]["last_fence"]
        path.write_text(json.dumps(state))
        self.hook(server)
        self.assertEqual(self.operation(server)["state"], "OPERATION_STATE_SUCCEEDED")


if __name__ == "__main__":
    unittest.main()
