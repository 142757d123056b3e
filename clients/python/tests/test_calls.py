"""Errors, deadlines, retries and threads of single calls."""

import os
import signal
import tempfile
import threading
import time
import unittest

from server import DEADLINE, Listener, Server, ServerCase, free_port, read_request, write_answer

import bellwether_client as bellwether
from bellwether_client import Client

REPORT = {"application": "web", "unit": "web/0", "status": {"level": "LEVEL_ACTIVE"}}
# A loaded machine may be late; without the deadline each of these calls lasts 30 s or longer.
SLACK = 10.0


class Errors(ServerCase):
    def test_an_error_has_its_class_reason_and_facts(self):
        with self.assertRaises(bellwether.NotFound) as caught:
            self.client().get_application(application="nowhere")
        error = caught.exception
        self.assertEqual((error.code, error.reason), ("not_found", "APPLICATION_NOT_FOUND"))
        self.assertEqual(error.metadata, {"namespace": "default", "application": "nowhere"})
        self.assertIsNone(error.retry_after)
        self.assertIn("[APPLICATION_NOT_FOUND]", str(error))
        self.assertIsInstance(error, bellwether.Error)

    def test_each_wrong_field_is_named(self):
        with self.assertRaises(bellwether.InvalidArgument) as caught:
            self.client().report_status(application="a b", unit="web/ 0", status={})
        self.assertEqual(caught.exception.reason, "INVALID_NAME")
        fields = [field for field, _ in caught.exception.violations]
        self.assertEqual(fields, ["application", "unit", "status.level"])

    def test_a_precondition_has_its_reason_and_the_time_to_wait(self):
        client = self.client()
        app = {"namespace": "python-errors", "application": "web"}
        client.report_status(unit="web/0", status={"level": "LEVEL_ACTIVE"}, **app)
        with self.assertRaises(bellwether.FailedPrecondition) as caught:
            client.update_app_data(unit="web/0", lease_epoch=9, set={"a": b""}, **app)
        self.assertEqual(caught.exception.reason, "NOT_LEADER")
        begun = dict(app, unit="web/0", target_version="v1", operation_id="one")
        client.begin_operation(**begun)
        other = dict(app, unit="web/1", target_version="v2", operation_id="two")
        with self.assertRaises(bellwether.Aborted) as held:
            client.begin_operation(**other)
        self.assertEqual(held.exception.reason, "OPERATION_HELD")
        self.assertGreater(held.exception.retry_after, 0)

    def test_a_field_that_does_not_exist_is_refused_before_the_call(self):
        with self.assertRaisesRegex(TypeError, "StatusReport has no field 'mesage'"):
            self.client().report_status(
                application="web", unit="web/0", status={"level": "LEVEL_ACTIVE", "mesage": "x"}
            )

    def test_one_connection_serves_many_calls_and_threads(self):
        client = self.client()
        client.get_server_info()
        kept = client._idle
        self.assertIsNotNone(kept)
        client.get_server_info()
        with self.assertRaises(bellwether.NotFound):
            client.get_application(application="nowhere")
        self.assertIs(client._idle, kept)
        failed = []

        def report(number):
            try:
                for _ in range(20):
                    unit = "threads/{}".format(number)
                    status = {"level": "LEVEL_ACTIVE"}
                    client.report_status(application="threads", unit=unit, status=status)
            except Exception as error:
                failed.append(error)

        threads = [threading.Thread(target=report, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        self.assertEqual(failed, [])
        self.assertEqual(len(client.list_units(application="threads")["units"]), 8)


class Deadlines(unittest.TestCase):
    def played(self, answer):
        listener = Listener(answer)
        self.addCleanup(listener.close)
        return listener

    def assert_ends(self, client, timeout):
        started = time.monotonic()
        with self.assertRaises(bellwether.DeadlineExceeded) as caught:
            client.report_status(**REPORT)
        took = time.monotonic() - started
        self.assertGreaterEqual(took, timeout * 0.9)
        self.assertLess(took, timeout + SLACK)
        self.assertEqual(caught.exception.reason, "NO_ANSWER")

    def test_the_default_is_two_seconds(self):
        listener = self.played(lambda connection: None)
        self.assert_ends(Client(listener.address), 2.0)

    def test_a_server_that_sends_a_byte_at_a_time_cannot_extend_it(self):
        stop = threading.Event()
        self.addCleanup(stop.set)

        def drip(connection):
            read_request(connection)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
            while not stop.wait(0.05):
                connection.sendall(b" ")

        self.assert_ends(Client(self.played(drip).address, timeout=0.5), 0.5)

    def test_it_covers_the_handshake_of_tls(self):
        listener = self.played(lambda connection: None)
        self.assert_ends(Client("https://" + listener.address, timeout=0.5), 0.5)

    def test_it_covers_retries_and_pauses(self):
        def refuse(connection):
            while True:
                read_request(connection)
                write_answer(connection, "503 x", {"code": "unavailable", "message": "away"})
                return connection.close()

        listener = self.played(refuse)
        started = time.monotonic()
        with self.assertRaises(bellwether.Unavailable):
            Client(listener.address, timeout=2.0, retries=1000).report_status(**REPORT)
        self.assertLess(time.monotonic() - started, 2.0 + SLACK)
        self.assertGreater(listener.accepted, 1)

    def test_a_pause_beyond_it_is_not_waited_for(self):
        details = [{"type": "google.rpc.RetryInfo", "debug": {"retryDelay": "60s"}}]
        away = {"code": "unavailable", "message": "away", "details": details}

        def refuse(connection):
            read_request(connection)
            write_answer(connection, "503 x", away)

        started = time.monotonic()
        with self.assertRaises(bellwether.Unavailable) as caught:
            Client(self.played(refuse).address, timeout=DEADLINE).report_status(**REPORT)
        self.assertLess(time.monotonic() - started, SLACK)
        self.assertEqual(caught.exception.retry_after, 60.0)

    def test_no_server_is_an_error_within_it(self):
        address = "127.0.0.1:{}".format(free_port())
        started = time.monotonic()
        with self.assertRaises(bellwether.Unreachable):
            Client(address).report_status(**REPORT)
        self.assertLess(time.monotonic() - started, 2.0 + SLACK)


class Retries(unittest.TestCase):
    def test_a_call_above_a_limit_is_sent_again(self):
        details = [
            {"type": "google.rpc.ErrorInfo", "debug": {"reason": "RATE_LIMITED"}},
            {"type": "google.rpc.RetryInfo", "debug": {"retryDelay": "0.010s"}},
        ]
        limited = {"code": "resource_exhausted", "message": "wait", "details": details}
        answers = [("429 x", limited), ("429 x", limited), ("200 OK", {"revision": "7"})]

        def answer(connection):
            while answers:
                read_request(connection)
                write_answer(connection, *answers.pop(0))

        listener = Listener(answer)
        self.addCleanup(listener.close)
        answer = Client(listener.address, timeout=DEADLINE).report_status(**REPORT)
        self.assertEqual(answer["revision"], 7)

    def test_a_repeat_has_the_same_request_id(self):
        seen = []

        def lose_the_first(connection):
            seen.append(read_request(connection)[1])
            if len(seen) == 1:
                return connection.close()
            write_answer(connection, "200 OK", {"revision": "7", "changed": True})

        listener = Listener(lose_the_first)
        self.addCleanup(listener.close)
        answer = Client(listener.address, timeout=DEADLINE).report_status(**REPORT)
        self.assertEqual((answer["revision"], answer["changed"], answer["advice"]), (7, True, []))
        self.assertEqual(len(seen), 2)
        self.assertEqual(len(seen[0]["requestId"]), 32)
        self.assertEqual(seen[0], seen[1])

    def test_a_call_without_a_request_id_is_sent_once(self):
        def lose(connection):
            read_request(connection)
            connection.close()

        listener = Listener(lose)
        self.addCleanup(listener.close)
        client = Client(listener.address, timeout=DEADLINE)
        with self.assertRaises(bellwether.Unreachable):
            client.renew_leadership(application="web", unit="web/0", lease_epoch=1)
        self.assertEqual(listener.accepted, 1)

    def test_a_call_survives_a_restart_and_is_applied_once(self):
        with tempfile.TemporaryDirectory() as folder:
            first = Server("--data-dir", os.path.join(folder, "data"))
            self.addCleanup(first.stop)
            client = Client(first.address, timeout=DEADLINE, retries=1000)
            self.addCleanup(client.close)
            report = dict(REPORT, request_id="the-same")
            before = client.report_status(**report)
            first.stop()
            answers = []
            thread = threading.Thread(target=lambda: answers.append(client.report_status(**report)))
            thread.start()
            second = Server("--data-dir", os.path.join(folder, "data"), port=first.port)
            self.addCleanup(second.stop)
            thread.join(DEADLINE)
            self.assertEqual(answers, [before])
            self.assertTrue(answers[0]["changed"], "a second application would change nothing")
            second.stop(signal.SIGTERM)


class Settings(unittest.TestCase):
    def test_addresses(self):
        for address, parts in [
            ("127.0.0.1:1", (False, "127.0.0.1", 1)),
            ("https://status.example.com", (True, "status.example.com", 50051)),
            ("http://[::1]:7/", (False, "::1", 7)),
        ]:
            client = Client(address)
            self.assertEqual((client._is_tls, client._host, client._port), parts)
        for address in ["ftp://h:1", "http://", "http://h:x", "http://h:70000", "http://h/p:1"]:
            with self.assertRaises(ValueError, msg=address):
                Client(address)

    def test_the_environment_has_the_defaults(self):
        given = {"BELLWETHER_SERVER": "https://h:1", "BELLWETHER_TOKEN_FILE": "/t"}
        given.update(BELLWETHER_CA="/ca", BELLWETHER_CERT="/c", BELLWETHER_CERT_KEY="/k")
        before = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(given)
        client = Client()
        files = (client._token_file, client._ca, client._cert, client._cert_key)
        self.assertEqual((client._host, files), ("h", ("/t", "/ca", "/c", "/k")))

    def test_secrets_need_tls(self):
        with self.assertRaisesRegex(ValueError, "readable on the network"):
            Client("http://status.example.com", token="secret")
        with self.assertRaisesRegex(ValueError, "need an https address"):
            Client("http://127.0.0.1:1", ca="ca.pem")
        with self.assertRaisesRegex(ValueError, "belong together"):
            Client("https://127.0.0.1:1", cert="cert.pem")


if __name__ == "__main__":
    unittest.main()
