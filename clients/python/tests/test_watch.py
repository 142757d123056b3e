"""Watches on the real server: snapshot, changes, lost connections, expired tokens, digests."""

import json
import os
import struct
import tempfile
import threading
import time
import unittest

from server import DEADLINE, Listener, Server, ServerCase, wait_for

import bellwether_client as bellwether
from bellwether_client import Client
from bellwether_client._watch import Copy, _hash


def report(client, application, level, namespace=""):
    unit = application + "/0"
    client.report_status(
        namespace=namespace, application=application, unit=unit, status={"level": level}
    )


def until(watch, kind, name=None):
    """Reads up to an event, and returns the words of all events on the way."""
    words, end = [], time.monotonic() + DEADLINE
    for event in watch:
        words.append(event.kind + (" " + event.name if event.name else ""))
        if event.kind == kind and name in (None, event.name):
            return words
        if time.monotonic() > end:
            raise AssertionError("no {} in {}".format(kind, words))
    raise AssertionError("the watch has ended: {}".format(words))


class Changes(ServerCase):
    def test_a_watch_has_the_snapshot_and_then_changes(self):
        client = self.client()
        report(client, "web", "LEVEL_ACTIVE", "python-watch")
        with client.watch(namespace="python-watch", include_units=True) as watch:
            first = next(watch)
            self.assertEqual((first.kind, first.name), ("upserted", "web"))
            self.assertEqual(first.application["status"]["level"], "LEVEL_ACTIVE")
            self.assertEqual([unit["name"] for unit in first.units], ["web/0"])
            self.assertEqual(until(watch, "current"), ["current"])
            report(client, "db", "LEVEL_WAITING", "python-watch")
            until(watch, "upserted", "db")
            # The bookmark comes only if the digest of the server is that of the copy.
            self.assertEqual(until(watch, "bookmark"), ["bookmark"])
            client.delete_application(namespace="python-watch", application="db")
            until(watch, "removed", "db")

    def test_a_wrong_filter_is_an_error(self):
        with self.assertRaises(bellwether.InvalidArgument):
            next(self.client().watch(namespace="not a name"))

    def test_close_ends_the_read_of_another_thread(self):
        watch = self.client().watch(namespace="python-empty")
        until(watch, "current")
        read = []
        thread = threading.Thread(target=lambda: read.extend(watch))
        thread.start()
        watch.close()
        thread.join(DEADLINE)
        self.assertFalse(thread.is_alive())
        self.assertNotIn("disconnected", [event.kind for event in read])


class AppData(ServerCase):
    def test_a_watch_of_data_has_what_is_stored_and_then_changes(self):
        namespace = "python-data-" + os.urandom(8).hex()
        client, app = self.client(), {"namespace": namespace, "application": "web"}
        with client.watch_app_data(**app) as watch:
            self.assertEqual(next(watch).app_data["data"], {})
            config = {"external_leader": {"unit": "web/0"}}
            client.configure_application(config=config, update_mask=["external_leader"], **app)
            client.update_app_data(unit="web/0", set={"a": b"1"}, **app)
            self.assertEqual(until(watch, "data"), ["data web"])
            client.update_app_data(unit="web/0", set={"a": b"1"}, **app)
            client.update_app_data(unit="web/0", set={"a": b"2"}, **app)
            event = next(watch)
            self.assertEqual((event.kind, event.app_data["data"]), ("data", {"a": b"2"}))
            self.assertEqual(event.app_data["etag"], client.get_app_data(**app)["app_data"]["etag"])

    def test_a_wrong_name_is_an_error(self):
        with self.assertRaises(bellwether.InvalidArgument):
            next(self.client().watch_app_data(application="not a name"))


class Restarts(unittest.TestCase):
    def test_a_watch_of_data_continues_after_a_restart_without_repeats(self):
        with tempfile.TemporaryDirectory() as folder:
            data = ("--data-dir", os.path.join(folder, "data"))
            first = self.start(*data)
            client = Client(first.address, timeout=DEADLINE, retries=1000)
            self.addCleanup(client.close)
            config = {"external_leader": {"unit": "web/0"}}
            client.configure_application(application="web", config=config)
            client.update_app_data(application="web", unit="web/0", set={"a": b"1"})
            watch = client.watch_app_data(application="web")
            self.addCleanup(watch.close)
            self.assertEqual(next(watch).app_data["data"], {"a": b"1"})
            first.stop()
            until(watch, "disconnected")
            second = self.start(*data, port=first.port)
            client.update_app_data(application="web", unit="web/0", set={"a": b"2"})
            event = next(one for one in watch if one.kind == "data")
            self.assertEqual(event.app_data["data"], {"a": b"2"})
            second.stop()

    def start(self, *arguments, **more):
        server = Server(*arguments, **more)
        self.addCleanup(server.stop)
        return server

    def test_a_watch_resumes_across_a_restart(self):
        with tempfile.TemporaryDirectory() as folder:
            data = ("--data-dir", os.path.join(folder, "data"))
            first = self.start(*data)
            client = Client(first.address, timeout=DEADLINE, retries=1000)
            self.addCleanup(client.close)
            report(client, "web", "LEVEL_ACTIVE")
            report(client, "db", "LEVEL_ACTIVE")
            watch = client.watch()
            self.addCleanup(watch.close)
            until(watch, "bookmark")
            first.stop()
            until(watch, "disconnected")
            second = self.start(*data, port=first.port)
            report(client, "web", "LEVEL_BLOCKED")
            client.delete_application(application="db")
            words = until(watch, "current")
            changes = [word for word in words if "disconnected" not in word]
            self.assertEqual(sorted(changes), ["current", "removed db", "upserted web"])
            second.stop()

    def test_a_token_of_another_store_starts_with_a_snapshot(self):
        first = self.start("--ephemeral")
        client = Client(first.address, timeout=DEADLINE, retries=1000)
        self.addCleanup(client.close)
        report(client, "web", "LEVEL_ACTIVE")
        report(client, "db", "LEVEL_ACTIVE")
        watch = client.watch()
        self.addCleanup(watch.close)
        until(watch, "bookmark")
        first.stop()
        self.start("--ephemeral", port=first.port)
        report(client, "web", "LEVEL_ACTIVE")
        words = until(watch, "bookmark")
        self.assertIn("removed db", words)
        self.assertEqual(words[-2:], ["current", "bookmark"])


class Digests(unittest.TestCase):
    def test_the_hash_is_the_documented_one(self):
        self.assertEqual(_hash(("default", "web"), (12, "LEVEL_BLOCKED")), 0x826A096582552CD7)

    def test_a_copy_that_differs_is_replaced_by_a_snapshot(self):
        requests = []

        def play(connection):
            requests.append(read_framed(connection))
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\n\r\n")
            wrong = len(requests) == 1
            revision = 3 if wrong else 4
            application = {"namespace": "default", "name": "web", "revision": str(revision)}
            application["status"] = {"level": "LEVEL_ACTIVE"}
            digest = "{:016x}".format(_hash(("default", "web"), (4, "LEVEL_ACTIVE")))
            for message in [
                {"upserted": application},
                {"snapshotComplete": {"applicationCount": 1}, "resumeToken": "t"},
                {"bookmark": {"digest": digest, "applicationCount": 1}, "resumeToken": "t"},
            ]:
                connection.sendall(frame(dict(message, storeEpoch="one")))

        listener = Listener(play)
        self.addCleanup(listener.close)
        with Client(listener.address).watch() as watch:
            words = until(watch, "bookmark")
        self.assertEqual(
            words, ["upserted web", "current", "upserted web", "current", "bookmark"]
        )
        self.assertEqual([request.get("resumeToken") for request in requests], [None, None])

    def test_a_change_after_the_token_is_received_again(self):
        copy = Copy()
        applications = [
            {"namespace": "default", "name": name, "revision": 1, "status": {"level": "LEVEL_ACTIVE"}}
            for name in ("db", "web")
        ]
        copy.upsert(applications[0])
        copy.cover()
        copy.upsert(applications[1])
        before = copy.digest()
        copy.resume()
        self.assertNotEqual(copy.digest(), before)
        self.assertEqual([copy.upsert(found) for found in applications], [False, True])
        self.assertEqual(copy.digest(), before)

    def test_the_newest_token_is_sent_until_it_has_expired(self):
        tokens = []
        info = {"type": "google.rpc.ErrorInfo", "debug": {"reason": "RESUME_TOKEN_EXPIRED"}}
        expired = {"error": {"code": "out_of_range", "message": "too old", "details": [info]}}

        def play(connection):
            tokens.append(read_framed(connection).get("resumeToken"))
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\n\r\n")
            number = len(tokens)
            if number == 3:
                connection.sendall(frame(expired, 2))
            elif number == 2:
                # A drain has a token too.
                connection.sendall(frame({"drain": {}, "resumeToken": "t2"}))
            else:
                connection.sendall(frame({"snapshotComplete": {}, "resumeToken": "t1"}))
            connection.close()

        listener = Listener(play)
        self.addCleanup(listener.close)
        with Client(listener.address).watch() as watch:
            wait_for(lambda: next(watch) and len(tokens) == 4, "four connections")
        self.assertEqual(tokens, [None, "t1", "t2", None])

    def test_a_token_ahead_of_the_server_is_tried_at_another_one(self):
        tokens = []
        debug = {"reason": "RESUME_TOKEN_EXPIRED", "metadata": {"cause": "behind"}}
        info = {"type": "google.rpc.ErrorInfo", "debug": debug}
        behind = {"error": {"code": "out_of_range", "message": "behind", "details": [info]}}

        def play(connection):
            tokens.append(read_framed(connection).get("resumeToken"))
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\n\r\n")
            if len(tokens) in (1, 6):
                connection.sendall(frame({"snapshotComplete": {}, "resumeToken": "t1"}))
            else:
                connection.sendall(frame(behind, 2))
            connection.close()

        listener = Listener(play)
        self.addCleanup(listener.close)
        seen = []
        with Client(listener.address).watch() as watch:
            wait_for(lambda: seen.append(next(watch)) or len(tokens) == 6, "six connections")
        self.assertEqual(tokens, [None, "t1", "t1", "t1", "t1", None])
        behind = [event for event in seen if event.error and event.error.reason == debug["reason"]]
        self.assertEqual(len(behind), 3)


def frame(message, flags=0):
    body = json.dumps(message).encode()
    return struct.pack(">BI", flags, len(body)) + body


def read_framed(connection):
    """Reads the request of a watch."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    while len(body) < 5 or len(body) < 5 + struct.unpack(">BI", body[:5])[1]:
        body += connection.recv(65536)
    return json.loads(body[5:].decode())


if __name__ == "__main__":
    unittest.main()
