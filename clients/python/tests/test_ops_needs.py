"""Needs of a charm: stated with statuses and errors, and the hook that starts when they are met."""

import json
import os
import signal
import tempfile
import unittest
import unittest.mock
from pathlib import Path

from between import between
from charm import MODEL, OpsCase, charm, ops, run, run_action
from hooks import Unit
from server import DEADLINE, wait_for

from bellwether_client import need, outside
from bellwether_client._needs import text_of
from bellwether_client._texts import NEEDS_BYTES_MAX, fit

#: The hooks of a unit for which `attend` has an event, and what the event names.
STARTS = [
    ({"BELLWETHER_EVENT": "need-met", "BELLWETHER_COMPONENT": "db"}, True),
    (
        {
            "BELLWETHER_EVENT": "need-met",
            "BELLWETHER_COMPONENT": "db",
            "BELLWETHER_TARGET": "pg:5432",
        },
        True,
    ),
    ({"JUJU_NOTICE_KEY": "bellwether.dev/need-met"}, True),
    ({"BELLWETHER_EVENT": "need-met", "BELLWETHER_COMPONENT": "tls"}, False),
    (
        {
            "BELLWETHER_EVENT": "need-met",
            "BELLWETHER_COMPONENT": "db",
            "BELLWETHER_TARGET": "other:5432",
        },
        False,
    ),
    ({"BELLWETHER_EVENT": "callback-due", "BELLWETHER_COMPONENT": "db"}, False),
    ({"JUJU_NOTICE_KEY": "bellwether.dev/retry-due"}, False),
    ({}, False),
]


#: The hook writes what started it, and whether the call is due.
NOTES = """
import os
facts = [os.environ.get("BELLWETHER_" + name, "") for name in ("EVENT", "COMPONENT", "TARGET")]
with open("notes", "a") as file:
    file.write("|".join(facts + [str(self.status.due("db", "pg:5432"))]) + "\\n")
"""
FAILS = """
with self.status.attempt("db", "pg:5432", needs="postgresql"):
    raise PermissionError("no")
"""


def folder(test):
    """Returns a folder that ends with the test."""
    temporary = tempfile.TemporaryDirectory()
    test.addCleanup(temporary.cleanup)
    return temporary.name


class Met(OpsCase):
    """The hook that `attend` starts, without a server."""

    def due_after(self, error, needs, hook="update_status"):
        """Returns which hooks make the attempt again that failed with `error`."""
        found = []

        def fail(charm, _):
            with charm.status.attempt("db", "pg:5432", needs=needs):
                raise error

        def ask(charm, _):
            for variables, _ in STARTS:
                with unittest.mock.patch.dict(os.environ, variables):
                    found.append(charm.status.due("db", "pg:5432"))

        with unittest.mock.patch.dict(os.environ, BELLWETHER_SERVER=""):
            os.environ["BELLWETHER_STATE_DIR"] = folder(self)
            run(charm(fail))
            run(charm(ask), hook)
        return found

    def test_a_call_is_tried_again_when_its_needs_are_met(self):
        expected = [is_met for _, is_met in STARTS]
        for error in (ConnectionRefusedError("refused"), PermissionError("no")):
            self.assertEqual(self.due_after(error, "postgresql"), expected)

    def test_a_notice_is_about_the_calls_that_need_something(self):
        expected = [is_met and "JUJU_NOTICE_KEY" not in one for one, is_met in STARTS]
        self.assertEqual(self.due_after(ConnectionRefusedError("refused"), None), expected)


class Attended(OpsCase):
    def test_attend_starts_a_hook_when_the_needs_are_met_which_tries_again(self):
        server = self.start()
        unit = Unit(Path(folder(self)) / "charm")
        code, said, _, _ = unit.run("config-changed", server.address, BODY=FAILS)
        self.assertEqual(code, 0, said)
        attend = unit.attend(server.address, BODY=NOTES)
        try:
            with server.client() as client:
                client.report_status(
                    namespace=MODEL,
                    application="postgresql",
                    unit="postgresql/0",
                    status={"level": "LEVEL_ACTIVE"},
                )
            notes = unit.folder / "notes"
            wait_for(lambda: notes.exists() and notes.read_text(), "the hook")
            first = notes.read_text().splitlines()[0]
            self.assertEqual(first, "need-met|db|pg:5432|True")
        finally:
            attend.send_signal(signal.SIGTERM)
            self.assertEqual(attend.wait(DEADLINE), 0)


class Stated(OpsCase):
    def needs(self, server, name="web"):
        """Returns what an application states, as texts, with the component that states it."""
        listed = server.application(name, MODEL)["needs"]
        return {text_of(one["need"]): one["stated_by"]["component"] for one in listed}

    def test_each_status_of_a_set_has_its_needs(self):
        def collect(charm, event):
            event.add_status(charm.status.waiting("db", "no database", needs="postgresql"))
            event.add_status(
                charm.status.blocked(
                    "quota",
                    "no room",
                    action="raise the quota",
                    needs=["infra/dns=active,waiting", outside("quota cpu, password=abc")],
                )
            )

        server = self.start()
        run(charm(collect_unit=collect))
        expected = {
            "shop/postgresql": "db",
            "infra/dns=active,waiting": "quota",
            "quota cpu, password=***": "quota",
        }
        self.assertEqual(self.needs(server), expected)
        states = {one["state"] for one in server.blockers(MODEL)}
        self.assertIn("CAUSE_STATE_NOT_KNOWN", states)

    def test_a_status_that_is_set_keeps_its_needs_until_another_one(self):
        def body(charm, _):
            charm.unit.status = charm.status.waiting("db", "no database", needs="postgresql")

        server = self.start()
        state = run(charm(body))
        # The next hook sets nothing: Juju has the text only.
        run(charm(), unit_status=state.unit_status)
        self.assertEqual(self.needs(server), {"shop/postgresql": "db"})
        run(charm(lambda charm, _: setattr(charm.unit, "status", ops.ActiveStatus(""))))
        self.assertEqual(self.needs(server), {})

    def test_the_leader_states_needs_of_the_application(self):
        def collect(charm, event):
            event.add_status(charm.status.waiting("tls", "no certificate", needs=need("ca")))

        server = self.start()
        run(charm(collect_app=collect), leader=True)
        self.assertEqual(self.needs(server), {"shop/ca": "tls"})

    def test_a_pushed_status_keeps_its_needs_and_gets_them_back(self):
        def push(charm, _):
            status = charm.status.waiting("", "for the schema", needs=["postgresql"])
            charm.status.push("schema", status)

        found = []

        def body(charm, _):
            charm.status.restore()
            found.extend(charm.status.state.pushes.values())

        server = self.start()
        run(charm(push))
        run(charm())
        self.assertEqual(self.needs(server), {"shop/postgresql": "schema"})
        run(charm(body, state_dir=server.state_dir + "-new"))
        [kept] = [one["needs"] for one in found if one["component"] == "schema"]
        self.assertEqual([text_of(one) for one in kept], ["shop/postgresql"])

    def test_an_error_states_needs_until_a_success(self):
        def fail(charm, _):
            with charm.status.attempt("db", "pg:5432", needs="postgresql"):
                raise ConnectionRefusedError("refused")

        def work(charm, _):
            with charm.status.attempt("db", "pg:5432"):
                pass

        server = self.start()
        run(charm(fail))
        # A damped fault is shown from its third report on.
        run(charm(lambda charm, _: [fail(charm, _) for _ in range(3)]))
        self.assertEqual(self.needs(server), {"shop/postgresql": "db"})
        [stated] = server.application("web", MODEL)["needs"]
        self.assertEqual(stated["stated_by"]["target"], "pg:5432")
        run(charm(work))
        self.assertEqual(self.needs(server), {})

    def test_status_detail_says_what_is_needed(self):
        def body(charm, _):
            charm.status.push("schema", charm.status.waiting("", "", needs="infra/dns=active"))
            with charm.status.attempt("db", "pg:5432", needs=outside("quota cpu")):
                raise PermissionError("no")

        self.start()
        run(charm(body))
        lines = run_action(charm(), "status-detail")["table"].splitlines()
        self.assertTrue(lines[0].endswith("NEEDS"))
        ends = [line.rpartition("  ")[2] for line in lines[1:]]
        self.assertEqual(sorted(ends), ["-", "infra/dns=active", "quota cpu"])

    def test_what_waited_for_the_server_keeps_its_needs(self):
        def body(charm, _):
            charm.unit.status = charm.status.waiting("db", "no database", needs="postgresql")
            charm.status.push("schema", charm.status.waiting("", "", needs="infra/dns"))
            charm.status.report_error("s3", "bucket", PermissionError("no"), needs="minio")

        server = self.start(durable=True)
        run(charm())
        server.kill()
        run(charm(body))
        server.start()
        run(charm(), unit_status=ops.testing.WaitingStatus("no database"))
        expected = {
            "shop/postgresql": "db",
            "infra/dns": "schema",
            "shop/minio": "s3",
        }
        self.assertEqual(self.needs(server), expected)


class Refused(OpsCase):
    def test_a_wrong_need_is_refused_where_it_is_written(self):
        found = []

        def body(charm, _):
            for kind, words, given in [
                (ValueError, "names no application: write NAME", "quota cpu of prod"),
                (ValueError, "itself: name another", "web"),
                (ValueError, "itself: name another", MODEL + "/web=active"),
                (ValueError, "at most 8 needs", ["app-{}".format(n) for n in range(9)]),
                (TypeError, "a need is a text", [5]),
            ]:
                for make in (
                    lambda: charm.status.waiting("db", "none", needs=given),
                    lambda: charm.status.blocked("db", "none", action="do", needs=given),
                    lambda: charm.status.attempt("db", "pg", needs=given),
                    lambda: charm.status.report_error("db", "pg", OSError(), needs=given),
                ):
                    with self.assertRaisesRegex(kind, words):
                        make()
                    found.append(words)

        with unittest.mock.patch.dict(os.environ, BELLWETHER_SERVER=""):
            run(charm(body, state_dir=folder(self)))
        self.assertEqual(len(found), 20)

    def test_a_large_set_keeps_the_needs_of_its_worst_statuses(self):
        wide = [outside("{}-{}".format(n, "x" * 240)) for n in range(8)]
        statuses = [
            {"component": str(n), "level": level, "message": "", "needs": list(wide)}
            for n in range(500)
            for level in ("LEVEL_WAITING", "LEVEL_BLOCKED")
        ]
        kept = [one for one in fit(statuses) if "needs" in one]
        self.assertEqual({one["level"] for one in kept}, {"LEVEL_BLOCKED"})
        size = sum(len(json.dumps(one["needs"])) for one in kept)
        self.assertTrue(0.9 * NEEDS_BYTES_MAX < size <= NEEDS_BYTES_MAX, size)


def without_needs(path, request):
    """Answers as a server that has no needs."""
    said = json.dumps(request)
    for name in ("needs", "endAfter"):
        # It names the first field that it does not know.
        if '"{}"'.format(name) in said:
            text = "the request is no message in JSON: unrecognized field name '{}'".format(name)
            return {"code": "invalid_argument", "message": text}
    return path


class Older(OpsCase):
    def test_an_older_server_gets_everything_but_the_needs(self):
        def body(charm, _):
            charm.unit.status = charm.status.waiting("db", "no database", needs="postgresql")
            status = charm.status.waiting("", "later", needs="postgresql")
            charm.status.push("job", status, ttl=600)
            with charm.status.attempt("db", "pg:5432", needs="postgresql"):
                raise PermissionError("no")

        server = self.start()
        older = between(self, server.address, without_needs)
        os.environ["BELLWETHER_SERVER"] = older
        run(charm(body))
        said = [(one[0], one[3]) for one in self.unit(server)]
        self.assertEqual(sorted(said), [("db", "no database"), ("job", "later")])
        [fault] = server.faults("web", MODEL)
        self.assertEqual((fault["component"], fault["target"]), ("db", "pg:5432"))


if __name__ == "__main__":
    unittest.main()
