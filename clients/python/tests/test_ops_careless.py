"""What careless charms do: it works all the same, or it is refused where it is written."""

import inspect
import tempfile
import unittest

from charm import MODEL, OpsCase, charm, ops, run

from bellwether_client import Client, _state
from bellwether_client.ops import SETTINGS


class Adapters(OpsCase):
    """What adapters of real charms got wrong is no way of the package."""

    def test_a_status_of_an_earlier_hook_does_not_stay(self):
        # As a push, "Scaling down" of one hook stayed for ever.
        server = self.start()
        for status in (ops.MaintenanceStatus("Scaling down"), ops.ActiveStatus("")):
            run(charm(lambda charm, _, said=status: setattr(charm.unit, "status", said)))
        self.assertEqual(self.unit(server), [("", "", "active", "")])
        [one] = server.statuses("web/0", MODEL)
        self.assertEqual(one["kind"], "STATUS_KIND_PULL")

    def test_what_the_leader_says_of_the_application_wins_a_tie_with_its_unit(self):
        # As one more contribution it lost to the unit of the leader, whose message is empty.
        def body(charm, _):
            charm.unit.status = ops.WaitingStatus("")
            charm.app.status = ops.WaitingStatus("for the remote application")

        server = self.start()
        run(charm(body), leader=True)
        self.assertEqual(self.shown(server), ("waiting", "for the remote application"))

    def test_the_first_words_of_a_leader_are_taken(self):
        # A claim of leadership before the first report is refused, and so was what followed.
        def body(charm, _):
            charm.app.status = ops.BlockedStatus("no licence")
            charm.status.data.update({"url": "http://shop"})

        server = self.start()
        run(charm(body), "install", leader=True)
        application = server.application("web", MODEL)
        self.assertEqual((application["leader"], self.shown(server)[1]), ("web/0", "no licence"))
        with server.client() as client:
            data = client.get_app_data(application="web", namespace=MODEL)["app_data"]["data"]
        self.assertEqual(data, {"url": b"http://shop"})
        # Juju elects another unit, which says so by its writes alone.
        run(charm(body), leader=True, unit=1)
        self.assertEqual(server.application("web", MODEL)["leader"], "web/1")


class Extremes(OpsCase):
    def test_names_in_other_alphabets_stay_different(self):
        names = ["数据库", "缓存", "Größe", "Grüße", "###", "!!!", "a" * 254 + "1", "a" * 254 + "2"]

        def body(charm, _):
            for name in names:
                charm.status.push(name, ops.WaitingStatus(name[-3:]))

        server = self.start()
        run(charm(body))
        run(charm())
        kept = [one[3] for one in self.unit(server) if one[0]]
        self.assertEqual(sorted(kept), sorted(name[-3:] for name in names))
        run(charm(lambda charm, _: [charm.status.clear(name) for name in names[1:]]))
        self.assertEqual([one[3] for one in self.unit(server) if one[0]], ["数据库"])

    def test_a_large_set_pushes_no_other_call_out(self):
        with tempfile.TemporaryDirectory() as folder:
            state = _state.State(folder + "/state")
            state.put(["register"], "register_unit", {})
            state.put(["clear", "hook"], "clear_status", {})
            state.put(["pull"], "replace_statuses", {"statuses": "x" * 3_000_000})
            state.put(["resolve", "hook"], "resolve_error", {})
        waiting = [entry["identity"][0] for entry in state.spool]
        self.assertEqual(waiting, ["register", "clear", "pull", "resolve"])

    def test_a_set_with_long_texts_is_whole(self):
        def collect(charm, event):
            for number in range(500):
                text = "{}: {}".format(number, "x" * 10_000)
                event.add_status(charm.status.waiting("part-{}".format(number), text))

        server = self.start()
        run(charm(collect_unit=collect))
        self.assertEqual(len(self.unit(server)), 500)

    def test_a_set_with_escaped_characters_fits_into_a_call(self):
        def collect(charm, event):
            for number in range(1200):
                event.add_status(charm.status.waiting("part-{}".format(number), text))

        for text in ("\x01" * 5000, "\u2028" * 5000, "\ud800" * 5000):
            with self.subTest(text[0].encode("unicode-escape")):
                server = self.start()
                run(charm(collect_unit=collect))
                self.assertEqual(len(self.unit(server)), 1000)


class Mistakes(OpsCase):
    def refused(self, kind, words, body):
        """Checks that a hook raises, and that the next one finds the record of the unit intact."""

        def check(charm, event):
            with self.assertRaisesRegex(kind, words):
                body(charm, event)

        server = self.start()
        run(charm(lambda charm, _: charm.status.push("backup", ops.MaintenanceStatus("runs"))))
        run(charm(check))
        run(charm())
        self.assertIn(("backup", "", "maintenance", "runs"), self.unit(server))

    def test_a_blocked_status_without_an_action(self):
        self.refused(TypeError, "action", lambda charm, _: charm.status.blocked("db", "none"))

    def test_a_misspelt_detail(self):
        def body(charm, _):
            charm.status.waiting("db", "no database", acton="wait")

        self.refused(TypeError, "no detail 'acton'; it has key, action", body)

    def test_a_detail_of_another_type(self):
        # The end of the hook would find it, and report none of the statuses.
        for name, value in (("priority", "high"), ("precedence", 0.5), ("labels", ["shard"])):
            with self.subTest(name):

                def body(charm, _, given={name: value}):
                    charm.status.waiting("db", "no database", **given)

                self.refused(TypeError, name + " of a status .* not", body)

    def test_a_time_to_live_that_is_no_number(self):
        def body(charm, _):
            charm.status.push("a", ops.ActiveStatus(), ttl=float("nan"))

        self.refused(ValueError, "number of seconds", body)

    def test_a_number_as_data_of_the_leader(self):
        def body(charm, _):
            for values in ({"port": 5432}, {"port": None}, {1: "port"}):
                with self.assertRaisesRegex(TypeError, "values text or bytes, not"):
                    charm.status.data.update(values)
            charm.status.data.update({"port": "5432"})

        server = self.start()
        run(charm(body), leader=True)
        with server.client() as client:
            data = client.get_app_data(application="web", namespace=MODEL)["app_data"]["data"]
        self.assertEqual(data, {"port": b"5432"})

    def test_a_text_as_a_status(self):
        self.refused(TypeError, "no status of ops", lambda charm, _: charm.status.push("a", "b"))

    def test_a_text_as_a_payload_or_a_checkpoint(self):
        def payload(charm, _):
            charm.status.operation("upgrade", "v2", "image: v2")

        def checkpoint(charm, _):
            with charm.status.operation("upgrade", "v2") as work:
                work.save("3")

        self.refused(TypeError, "the payload is bytes, not 'str'", payload)
        self.refused(TypeError, "the checkpoint is bytes, not 'str'", checkpoint)

    def test_an_operation_that_is_not_entered(self):
        def body(charm, _):
            charm.status.operation("upgrade", "v2").save(b"3")

        self.refused(RuntimeError, "use it in `with`", body)

    def test_a_misspelt_setting(self):
        # The first call would find it, and the unit would report nothing.
        with self.assertRaisesRegex(Exception, "no setting 'token_fil'; it has token, token_file"):
            run(charm(token_fil="/run/token"))

    def test_every_setting_of_the_client_is_one_of_the_reporter(self):
        of_client = set(inspect.signature(Client).parameters) - {"address", "timeout"}
        self.assertEqual(set(SETTINGS), of_client)

    def test_an_unknown_part_of_the_application(self):
        with self.assertRaisesRegex(Exception, "contribute or override"):
            run(charm(application_status="overide"))


if __name__ == "__main__":
    unittest.main()
