"""The adapter for advanced_statuses, with objects that have its attributes."""

import types
import unittest

from charm import MODEL, OpsCase, charm, run


def status(level, message, **more):
    fields = dict.fromkeys(("short_message", "check", "action", "running"))
    fields.update(approved_critical_component=False, status=level, message=message)
    return types.SimpleNamespace(**dict(fields, **more))


def manager(name, unit, app=()):
    given = {"unit": unit, "app": app}
    return types.SimpleNamespace(name=name, get_statuses=lambda scope: given[scope])


class Advanced(OpsCase):
    def shown_for(self, *managers):
        server = self.start()
        run(charm(setup=lambda one: one.status.use_advanced_statuses(*managers)), leader=True)
        return server

    def test_every_field_has_a_home(self):
        given = status(
            "blocked",
            "no certificate",
            short_message="no cert",
            check="openssl verify",
            action="juju integrate",
            running="async",
            approved_critical_component=True,
        )
        server = self.shown_for(manager("tls", [given]))
        [one] = server.statuses("web/0", MODEL)
        names = ("component", "level", "message", "short_message", "check", "action", "precedence")
        self.assertEqual(
            [one[name] for name in names],
            ["tls", "LEVEL_BLOCKED", "no certificate", "no cert", "openssl verify"]
            + ["juju integrate", 1],
        )
        self.assertEqual(one["labels"], {"running": "async"})

    def test_components_and_critical_statuses_decide_the_order(self):
        server = self.shown_for(
            manager("zebra", [status("active", "z"), status("blocked", "first")]),
            manager("apple", [status("blocked", "second", action="do"), status("waiting", "w")]),
        )
        shown = server.application("web", MODEL)["status"]
        self.assertEqual(shown["message"], "first")
        self.assertEqual((shown["action_count"], shown["more_count"]), (1, 2))
        critical = status("waiting", "critical", approved_critical_component=True)
        server = self.shown_for(manager("a", [status("blocked", "b")]), manager("b", [critical]))
        self.assertEqual(self.shown(server), ("waiting", "critical"))

    def test_the_application_has_the_worst_status_of_its_scope(self):
        blocked = status("blocked", "quota", action="raise it", check="quota", short_message="q")
        server = self.shown_for(manager("a", [], [status("active", ""), blocked]))
        shown = server.application("web", MODEL)["status"]
        self.assertEqual((shown["message"], shown["action"]), ("quota", "raise it"))
        self.assertEqual(shown["short_message"], "q")
        self.assertTrue(shown["leader_set"])
        with server.client() as client:
            listed = client.list_statuses(application="web", namespace=MODEL)["statuses"]
        own = [one["report"] for one in listed if not one["unit"]]
        found = sorted((one["component"], one["level"], one["check"]) for one in own)
        self.assertEqual(found, [("a", "LEVEL_ACTIVE", ""), ("a", "LEVEL_BLOCKED", "quota")])


if __name__ == "__main__":
    unittest.main()
