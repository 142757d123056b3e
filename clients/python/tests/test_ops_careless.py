"""What careless charms do: it works all the same, or it is refused where it is written."""

import unittest

from charm import MODEL, OpsCase, charm, ops, run


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

    def test_an_unknown_part_of_the_application(self):
        with self.assertRaisesRegex(Exception, "contribute or override"):
            run(charm(application_status="overide"))


if __name__ == "__main__":
    unittest.main()
