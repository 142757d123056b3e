"""What a charm says by an exception, and how its sets, names and credentials are reported."""

import os
import tempfile
import time
import unittest
from pathlib import Path

from charm import MODEL, OpsCase, charm, ops, run, scenario

from bellwether_client import _secrets, _state, _texts
from bellwether_client.ops import StatusError, StatusReporter

MASKED = [
    ("postgresql://app:s3cret@10.0.0.7:5432/db", "postgresql://***@10.0.0.7:5432/db"),
    ("redis://:pw@cache:6379", "redis://***@cache:6379"),
    ("mysql://root@db/x", "mysql://***@db/x"),
    ("pg:secret@10.0.0.1:5432", "***@10.0.0.1:5432"),
    ("host=x user=app password=abc dbname=y", "host=x user=*** password=*** dbname=y"),
    ('{"password": "x y", "host": "a"}', '{"password": "***", "host": "a"}'),
    ("GET https://api/x?token=abcd&page=1", "GET https://api/x?token=***&page=1"),
    ("psql --password hunter2 --host a", "psql --password *** --host a"),
    ("Authorization: Bearer abcdefgh.ijk1", "Authorization: Bearer ***"),
    ("x-api-key: abcdef", "x-api-key: ***"),
    ("PGPASSWORD=x1 psql", "PGPASSWORD=*** psql"),
    ("key AKIAABCDEFGHIJKLMNOP is refused", "key *** is refused"),
]
#: Texts that people need, without a credential.
PLAIN = [
    "10.0.0.7:5432",
    'password authentication failed for user "app"',
    "token: expired",
    "password: the password is wrong",
    "set a new password",
    "run juju config shop password=PASSWORD",
    "image nginx:1.25@sha256:abcd",
    "git@github.com:x/y.git",
    "KeyError: 'token'",
    "basic authentication failed",
]


def works(charm, _):
    charm.unit.status = ops.ActiveStatus("x")


class Credentials(unittest.TestCase):
    def test_credentials_are_masked_and_sentences_are_not(self):
        for given, wanted in MASKED:
            self.assertEqual(_secrets.masked(given), wanted)
        for given in PLAIN:
            self.assertEqual(_secrets.masked(given), given)

    def test_a_private_key_is_masked_when_its_end_is_cut_off(self):
        key = "-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n"
        for text in (key, key + "-----END RSA PRIVATE KEY-----"):
            self.assertNotIn("MIIabc", _secrets.masked(text))

    def test_a_text_that_is_long_takes_no_longer_than_its_length(self):
        for piece in ("a:", "a@", "password", "x=", "://", "-----BEGIN PRIVATE KEY-----", "a.b-"):
            started = time.process_time()
            _secrets.masked(piece * 20_000)
            # A pattern that tries each start anew would take minutes.
            self.assertLess(time.process_time() - started, 10.0, piece)

    def test_control_characters_become_visible(self):
        given, wanted = "a\x00\x1b[1m\u2028\u202e\ud800b\n", "a??[1m???b\n".replace("?", "\ufffd")
        self.assertEqual(_texts.visible(given), wanted)
        self.assertEqual(_texts.line("a\r\n\tb"), "a b")


class Raised(OpsCase):
    def test_a_raised_status_ends_the_handler_and_not_the_hook(self):
        server = self.start()

        def body(charm, _):
            charm.status.push("kept", ops.ActiveStatus("kept"))
            raise StatusError(charm.status.blocked("db", "no password", action="set one"))

        def collect(_, event):
            event.add_status(ops.ActiveStatus("fine"))

        state = run(charm(body, collect_unit=collect), "config_changed")
        self.assertEqual(state.unit_status, ops.BlockedStatus("no password"))
        found = [(one[0], one[2], one[3]) for one in self.unit(server)]
        wanted = [("", "active", "fine"), ("db", "blocked", "no password")]
        self.assertEqual(sorted(found), sorted([*wanted, ("kept", "active", "kept")]))
        self.assertEqual(server.faults("web", MODEL), [])

    def test_a_charm_without_collected_statuses_shows_it_too(self):
        server = self.start()

        def body(charm, _):
            raise StatusError(ops.WaitingStatus("for a relation"), ops.ActiveStatus("else"))

        self.assertEqual(run(charm(body)).unit_status, ops.WaitingStatus("for a relation"))
        self.assertEqual(self.shown(server), ("waiting", "for a relation"))

    def test_a_raised_status_in_collect_is_one_of_the_collected(self):
        server = self.start()

        def collect(_, event):
            event.add_status(ops.ActiveStatus("fine"))
            raise StatusError(ops.BlockedStatus("no"))

        self.assertEqual(run(charm(collect_unit=collect)).unit_status, ops.BlockedStatus("no"))
        self.assertEqual(self.shown(server), ("blocked", "no"))

    def test_the_event_does_not_come_again(self):
        seen = []

        def body(charm, event):
            seen.append(type(event).__name__)
            if len(seen) == 1:
                raise StatusError(ops.BlockedStatus("no"))

        context = scenario.Context(charm(body), meta={"name": "web"})
        state = context.run(context.on.config_changed(), scenario.State())
        context.run(context.on.update_status(), state)
        self.assertEqual(seen, ["ConfigChangedEvent", "UpdateStatusEvent"])

    def test_a_mistake_raises_where_it_is_written(self):
        with self.assertRaises(TypeError):
            StatusError()
        with self.assertRaises(TypeError):
            StatusError("blocked")


class Kept(OpsCase):
    def test_a_good_hook_does_not_show_the_failure_of_the_one_before(self):
        self.start()

        def collect(charm, event):
            for one in charm.status.kept():
                event.add_status(one)
            event.add_status(ops.ActiveStatus("works"))

        def fail(charm, _):
            raise KeyError("no")

        with self.assertRaises(Exception):
            run(charm(fail, collect_unit=collect))
        self.assertEqual(run(charm(collect_unit=collect)).unit_status, ops.ActiveStatus("works"))

    def test_two_reporters_of_a_charm_are_one(self):
        server = self.start()

        def setup(charm):
            charm.library = StatusReporter(charm)
            charm.library.push("library", ops.WaitingStatus("for a peer"))

        run(charm(lambda charm, _: self.assertIs(charm.library, charm.status), setup=setup))
        self.assertIn(("library", "", "waiting", "for a peer"), self.unit(server))

    def test_a_namespace_is_that_of_the_argument(self):
        server = self.start()
        run(charm(works, namespace="prod"))
        self.assertEqual(server.application("web", "prod")["status"]["message"], "x")

    def test_an_operation_has_the_words_of_its_kind(self):
        server, found = self.start(), []
        kinds = [("upgrade", None), ("install-db", None), ("backup", None), ("x", "configure")]

        def body(charm, _):
            for name, kind in kinds:
                with charm.status.operation(name, "v2", kind=kind):
                    with server.client() as client:
                        listed = client.list_operations(application="web", namespace=MODEL)
                    for one in listed["operations"]:
                        if one["state"] == "OPERATION_STATE_RUNNING":
                            found.append(one["kind"][len("OPERATION_KIND_") :])

        run(charm(body))
        self.assertEqual(found, ["UPGRADE", "INSTALL", "OTHER", "CONFIGURE"])


class Freshness(OpsCase):
    def ttl(self, server):
        with server.client() as client:
            listed = client.list_statuses(application="web", namespace=MODEL, unit="web/0")
        [one] = [one["report"] for one in listed["statuses"]]
        return one["ttl"]

    def hooks(self, server, distances, **settings):
        """Runs hooks `update-status`, each so many seconds after the one before."""
        kind = charm(works, **settings)
        os.environ["JUJU_DISPATCH_PATH"] = "hooks/update-status"
        self.addCleanup(os.environ.pop, "JUJU_DISPATCH_PATH", None)
        run(kind)
        for distance in distances:
            [path] = Path(server.state_dir).glob(".bellwether-*.json")
            state = _state.State(str(path))
            state.updated = time.time() - distance
            state.save()
            run(kind)
        return self.ttl(server)

    def test_a_set_is_fresh_for_three_distances_of_update_status(self):
        self.assertIsNone(self.hooks(self.start(), []))

    def test_the_least_of_the_last_distances_counts(self):
        self.assertAlmostEqual(self.hooks(self.start(), [600, 100_000]), 1800, delta=60)

    def test_a_set_is_fresh_for_15_minutes_at_least(self):
        self.assertEqual(self.hooks(self.start(), [60]), 900)

    def test_an_argument_sets_it_or_turns_it_off(self):
        self.assertEqual(self.hooks(self.start(), [], set_ttl=120), 120)
        self.assertIsNone(self.hooks(self.start(), [600], set_ttl=0))


class Many(OpsCase):
    def test_many_pushes_arrive_with_few_writes(self):
        server, count = self.start(), 1000
        writes = []
        save = _state.State.save

        def counted(state):
            writes.append(1)
            save(state)

        def body(charm, _):
            for number in range(count):
                charm.status.push("c{}".format(number), ops.WaitingStatus("x" * 100))

        _state.State.save = counted
        self.addCleanup(setattr, _state.State, "save", save)
        run(charm(body))
        self.assertLess(len(writes), 20)
        self.assertEqual(len([one for one in self.unit(server) if one[0] != ""]), count)

    def test_pushes_of_a_killed_hook_are_not_lost(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "state.json")
            state = _state.State(path)
            state.save()
            for number in range(3):
                pushed = {"component": str(number), "key": "", "level": "LEVEL_WAITING"}
                pushed.update(message="x", observe_time=1.0, expires=None, while_stopping=False)
                state.note_push(_state.pair(str(number), ""), pushed, {"unit": "web/0"})
            state.note_done(state.spool[0])
            found = _state.State(path)
            self.assertEqual(sorted(found.pushes), ["0 ", "1 ", "2 "])
            self.assertEqual([one["identity"][1] for one in found.spool], ["1", "2"])
            with open(path + ".log", "a", encoding="utf-8") as file:
                file.write('{"cut')
            self.assertEqual(len(_state.State(path).spool), 2)


if __name__ == "__main__":
    unittest.main()
