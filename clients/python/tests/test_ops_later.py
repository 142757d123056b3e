"""A hook that a charm requests for later: hooks as processes, and `attend` starts one of them."""

import json
import signal
import tempfile
import time
import unittest
from pathlib import Path

from between import between
from charm import MODEL, OpsCase
from hooks import Unit
from server import DEADLINE, wait_for

NAMES = {"application": "web", "namespace": MODEL, "unit": "web/0"}
METHOD = "/bellwether.v1.WorkerService/RequestCallback"
#: The hook writes the facts of the event that started it.
NOTES = """
facts = [os.environ.get("BELLWETHER_" + name, "") for name in ("EVENT", "KEY", "REASON")]
with open("notes", "a") as file:
    file.write("|".join(facts) + "\\n")
"""


class Later(OpsCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.charm = Unit(Path(temporary.name) / "charm")

    def hook(self, address, body="", hook="config-changed", **variables):
        code, said, _, _ = self.charm.run(hook, address, BODY=body, **variables)
        self.assertEqual(code, 0, said)

    def state(self):
        [path] = self.charm.folder.glob(".bellwether-*.json")
        return json.loads(path.read_text())

    def change(self, name, change):
        """Changes what the unit remembers."""
        [path] = self.charm.folder.glob(".bellwether-*.json")
        state = json.loads(path.read_text())
        change(state[name])
        path.write_text(json.dumps(state))

    def is_over(self, name, seconds=3600.0):
        """Lets the time of a callback pass, as the unit sees it."""

        def passed(callbacks):
            callbacks[name]["due"] -= seconds

        self.change("callbacks", passed)

    def is_requested(self, server, key):
        """Returns whether the server has a callback, and cancels it."""
        with server.client() as client:
            return client.request_callback(key=key, **NAMES)["changed"]

    def between(self, server, has_callbacks=True):
        """Returns a list of the requests of callbacks, and the address of the proxy that fills it."""
        seen = []

        def note(path, request):
            if path != METHOD:
                return path
            seen.append(request)
            # What a server without the method answers.
            return path if has_callbacks else path + "ToCome"

        return seen, between(self, server.address, note)

    def test_attend_starts_the_requested_hook_which_ends_the_request(self):
        server = self.start(durable=True)
        self.hook(server.address, 'self.status.later(1, "the volume attaches", "volume")')
        attend = self.charm.attend(server.address, BODY=NOTES)
        try:
            wait_for(lambda: self.state()["callbacks"] == {}, "the end of the request")
            notes = (self.charm.folder / "notes").read_text()
            self.assertEqual(notes, "callback-due|volume|the volume attaches\n")
            self.assertFalse(self.is_requested(server, "volume"))
        finally:
            attend.send_signal(signal.SIGTERM)
            self.assertEqual(attend.wait(DEADLINE), 0)

    def test_the_first_good_hook_after_the_time_ends_it_and_no_other(self):
        server = self.start()
        request = 'self.status.later(3600, "again", "k")'
        self.hook(server.address, request)
        self.hook(server.address, hook="update-status")
        self.assertEqual(list(self.state()["callbacks"]), ["k"], "before its time")
        self.is_over("k")
        code, said, _, _ = self.charm.run("start", server.address)
        self.assertNotEqual(code, 0, said)
        self.assertEqual(list(self.state()["callbacks"]), ["k"], "by a hook that fails")
        self.hook(server.address, request)
        self.assertEqual(list(self.state()["callbacks"]), ["k"], "by one that requests it again")
        self.assertGreater(self.state()["callbacks"]["k"]["due"], time.time() + 3000)
        self.assertTrue(self.is_requested(server, "k"))
        self.hook(server.address, request)
        self.is_over("k")
        self.hook(server.address, hook="update-status")
        self.assertEqual(self.state()["callbacks"], {})
        self.assertFalse(self.is_requested(server, "k"))

    def test_a_unit_that_lost_its_record_ends_what_started_the_hook(self):
        server = self.start()
        facts = {"BELLWETHER_EVENT": "callback-due", "BELLWETHER_KEY": "k"}
        for more, is_left in [({}, False), ({"BELLWETHER_COMPONENT": "db"}, True)]:
            self.hook(server.address, 'self.status.later(3600, "again", "k")')
            [path] = self.charm.folder.glob(".bellwether-*.json")
            path.unlink()
            self.hook(server.address, hook="update-status", **dict(facts, **more))
            self.assertEqual(self.is_requested(server, "k"), is_left)

    def test_a_hook_that_was_started_by_a_request_may_request_again(self):
        server = self.start()
        facts = {"BELLWETHER_EVENT": "callback-due", "BELLWETHER_KEY": "k"}
        self.hook(server.address, 'self.status.later(3600, "again", "k")', **facts)
        self.assertEqual(list(self.state()["callbacks"]), ["k"])
        self.assertTrue(self.is_requested(server, "k"))

    def test_a_request_that_waited_is_due_when_it_was_said_to(self):
        server = self.start(durable=True)
        self.hook(server.address)
        server.kill()
        self.hook(server.address, 'self.status.later(3600, "password=abc \\x00", "k")')

        def sooner(spool):
            for one in spool:
                one["said"] -= 600

        self.change("spool", sooner)
        server.start()
        seen, address = self.between(server)
        self.hook(address)
        [one] = seen
        self.assertAlmostEqual(float(one["after"][:-1]), 3000, delta=60)
        self.assertEqual((one["key"], one["reason"]), ("k", "password=*** \ufffd"))
        self.assertEqual(self.state()["spool"], [])

    def test_an_end_takes_the_place_of_a_request_that_waits(self):
        server = self.start(durable=True)
        self.hook(server.address)
        server.kill()
        self.hook(server.address, 'self.status.later(3600, "again", "k")')
        self.is_over("k")
        server.start()
        seen, address = self.between(server)
        self.hook(address)
        self.assertEqual([one.get("after") for one in seen], [None])

    def test_an_older_server_makes_a_hook_neither_fail_nor_complain(self):
        server = self.start()
        seen, address = self.between(server, has_callbacks=False)
        for _ in range(2):
            self.hook(address, 'self.status.later(30, "again")')
        self.assertEqual(len(seen), 2)
        self.assertEqual(self.state()["spool"], [])
        lines = self.charm.given("juju-log").decode().splitlines()
        said = [line for line in lines if "callback" in line]
        self.assertTrue(said)
        self.assertEqual([line for line in said if not line.startswith("--log-level DEBUG")], [])

    def test_times_are_kept_within_their_bounds(self):
        server = self.start()
        seen, address = self.between(server)
        body = "for number in (-1, 0.2, 1e12, float('inf')): self.status.later(number, key='k')"
        self.hook(address, body)
        self.assertEqual([one["after"] for one in seen], ["1s", "1s", "604800s", "604800s"])
        body = "try: self.status.later(float('nan'))\nexcept ValueError: pass\nelse: raise KeyError"
        self.hook(address, body)
        self.assertEqual(len(seen), 4)


if __name__ == "__main__":
    unittest.main()
