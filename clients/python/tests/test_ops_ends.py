"""A pushed status with a ttl ends: at the unit, at the server, and at an older one as it can."""

import json
import os
import time
import unittest
import urllib.error
import urllib.request
from datetime import timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

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


class Older(BaseHTTPRequestHandler):
    """A server that has no end of a status, in front of one that has it."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if b"endAfter" in body:
            detail = {"code": "invalid_argument", "message": REFUSAL}
            return self.give(400, json.dumps(detail).encode())
        call = urllib.request.Request(self.server.behind + self.path, body)
        call.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(call) as answer:
                self.give(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            self.give(error.code, error.read())

    def give(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


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
        older = ThreadingHTTPServer(("127.0.0.1", 0), Older)
        older.behind = os.environ["BELLWETHER_SERVER"]
        Thread(target=older.serve_forever, daemon=True).start()
        self.addCleanup(older.server_close)
        self.addCleanup(older.shutdown)
        run(pushes(1))
        run_with = "http://127.0.0.1:{}".format(older.server_port)
        os.environ["BELLWETHER_SERVER"] = run_with
        self.addCleanup(os.environ.pop, "BELLWETHER_SERVER", None)
        run(pushes(600))
        report = self.job(server)["report"]
        self.assertEqual((report["ttl"], report["end_after"]), (600.0, None))


if __name__ == "__main__":
    unittest.main()
