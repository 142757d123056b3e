"""Every method is called once on the real server; answers have the types of the messages."""

import datetime
import hashlib
import os
import unittest

from server import ServerCase

from bellwether_client import NotFound, errors
from bellwether_client._table import METHODS

# A namespace of its own, so that the tests can run again on the same server.
YESTERDAY = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(days=1)
APP = {"namespace": "python-" + os.urandom(8).hex(), "application": "web"}
UNIT = dict(APP, unit="web/0")
ANOTHER = dict(APP, unit="web/2")
PAYLOAD = b"bundle of v2\x00"
OPERATION = dict(ANOTHER, operation_id="up-v2")
NEXT = dict(APP, operation_id="up-v3")
ERROR = {
    "component": "db",
    "target": "pg",
    "system": "grpc",
    "origin": "ERROR_ORIGIN_PEER",
    "code": "UNAVAILABLE",
    "retry_after": 1.5,
}
FATAL = dict(ERROR, code="DATA_LOSS", retry_after=None)
MARK = {"mark_id": "m", "kind": "MARK_KIND_PLANNED", "reason": "new disks"}

# Method, request, and fields of the answer. The order matters: a later call needs the earlier ones.
STEPS = [
    ("get_server_info", {}, {}),
    ("register_unit", dict(UNIT, ttl=600), {"incarnation": 1, "retained": []}),
    ("announce_stop", UNIT, {"changed": True}),
    ("request_callback", dict(UNIT, key="volume", after=30, reason="attaches"), {"changed": True}),
    ("request_callback", dict(UNIT, key="volume"), {"changed": True}),
    (
        "report_status",
        dict(UNIT, status={"level": "LEVEL_BLOCKED", "ttl": 90, "end_after": 600}),
        {"changed": True},
    ),
    (
        "replace_statuses",
        dict(UNIT, statuses=[{"component": "http", "level": "LEVEL_ACTIVE"}]),
        {"changed": True, "removed_count": 0},
    ),
    ("get_application", APP, {}),
    ("list_applications", {"namespace": APP["namespace"], "levels": ["LEVEL_BLOCKED"]}, {}),
    ("explain_application", APP, {"beaten_count": 1}),
    ("list_blockers", {"namespace": APP["namespace"]}, {"next_page_token": ""}),
    ("list_namespaces", {"page_size": 1000}, {"next_page_token": ""}),
    ("list_statuses", UNIT, {"next_page_token": ""}),
    ("list_units", dict(APP, page_size=1), {"next_page_token": ""}),
    ("list_status_events", APP, {}),
    ("get_uptime", dict(APP, start=YESTERDAY), {"episode_count": 1}),
    (
        "list_past",
        dict(namespace=APP["namespace"], start_time=YESTERDAY, slot=3600, slot_count=24),
        {"next_page_token": ""},
    ),
    (
        "configure_application",
        dict(
            APP,
            config={"external_leader": {"unit": "web/0"}, "ttls": {"lost_after": 120}},
            update_mask=["external_leader"],
        ),
        {},
    ),
    (
        "set_application_status",
        dict(
            UNIT,
            level="LEVEL_MAINTENANCE",
            mode="APPLICATION_STATUS_MODE_OVERRIDE",
            observe_time=datetime.datetime.now(datetime.timezone.utc),
        ),
        {"changed": True},
    ),
    ("clear_application_status", UNIT, {"changed": True}),
    (
        "replace_application_statuses",
        dict(UNIT, statuses=[{"component": "tls", "level": "LEVEL_WAITING"}]),
        {"changed": True},
    ),
    ("clear_status", dict(UNIT, component=""), {"cleared_count": 1}),
    ("configure_application", dict(APP, config={}, update_mask=["external_leader"]), {}),
    ("claim_leadership", UNIT, {}),
    ("renew_leadership", dict(UNIT, lease_epoch=1), {}),
    ("get_leader", APP, {"lease_epoch": 1}),
    ("update_app_data", dict(UNIT, lease_epoch=1, set={"key": b"\x00\xff"}), {"changed": True}),
    ("get_app_data", APP, {}),
    ("release_leadership", dict(UNIT, lease_epoch=1), {"changed": True}),
    ("transfer_leadership", dict(APP, to_unit="web/0"), {}),
    ("collect_application", dict(APP, deadline=1), {"answered_count": 0}),
    ("register_unit", ANOTHER, {}),
    (
        "begin_operation",
        dict(OPERATION, target_version="v2", payload=PAYLOAD, max_interruptions=3),
        {"begun": True},
    ),
    ("heartbeat_operation", dict(OPERATION, fence=1, checkpoint=b"3", progress="3/7"), {}),
    ("release_operation", dict(OPERATION, fence=1), {}),
    ("acquire_operation", dict(OPERATION, verify=True), {}),
    ("verify_operation", dict(OPERATION, fence=2, observed="OBSERVED_NOT_APPLIED"), {}),
    (
        "fail_operation",
        dict(OPERATION, fence=2, error={"class": "ERROR_CLASS_BLOCKED", "message": "forbidden"}),
        {},
    ),
    ("retry_operation", dict(APP, operation_id="up-v2"), {}),
    ("acquire_operation", OPERATION, {}),
    ("complete_operation", dict(OPERATION, fence=3), {}),
    ("begin_operation", dict(NEXT, target_version="v3"), {"begun": True}),
    ("cancel_operation", NEXT, {}),
    ("get_operation", dict(APP, operation_id="up-v2"), {}),
    ("list_operations", APP, {}),
    ("report_error", dict(UNIT, error=ERROR), {}),
    ("resolve_error", dict(UNIT, component="db"), {"resolved_count": 1}),
    ("report_error", dict(UNIT, error=FATAL), {}),
    ("list_faults", {"namespace": APP["namespace"], "group_by_target": True}, {"faults": []}),
    ("list_faults", APP, {}),
    (
        "resolve_hold",
        dict(UNIT, component="db", resolution="HOLD_RESOLUTION_SKIP"),
        {"released_count": 1},
    ),
    ("set_mark", dict(APP, mark=MARK, during=3600), {"changed": True}),
    ("list_marks", APP, {}),
    ("remove_mark", dict(APP, mark_id="m"), {}),
    ("remove_unit", ANOTHER, {}),
    ("delete_application", APP, {}),
]


class Methods(ServerCase):
    def test_every_method_is_called(self):
        answers = self.answers()
        self.assertEqual(sorted(set(METHODS) - {name for name, _, _ in STEPS}), [])
        self.check_types(answers)
        with self.assertRaises(NotFound):
            self.client().get_application(**APP)

    def answers(self):
        client, answers = self.client(), {}
        for name, request, expected in STEPS:
            try:
                answer = getattr(client, name)(**request)
            except errors.Error as error:
                self.fail("{}: {}".format(name, error))
            for field, value in expected.items():
                self.assertEqual(answer[field], value, "{}: {}".format(name, answer))
            answers[name] = answer
        return answers

    def check_types(self, answers):
        application = answers["get_application"]["application"]
        self.assertEqual(application["status"]["level"], "LEVEL_BLOCKED")
        self.assertEqual(application["status"]["action"], "")
        self.assertIsInstance(application["revision"], int)
        age = datetime.datetime.now(datetime.timezone.utc) - application["update_time"]
        self.assertLess(abs(age.total_seconds()), 60)
        self.assertEqual(answers["list_applications"]["applications"][0]["name"], "web")
        statuses = {one["report"]["component"]: one for one in answers["list_statuses"]["statuses"]}
        self.assertEqual(statuses[""]["report"]["ttl"], 90.0)
        self.assertEqual(statuses[""]["report"]["end_after"], 600.0)
        self.assertIsNotNone(statuses[""]["end_time"])
        self.assertEqual(statuses["http"]["report"]["kind"], "STATUS_KIND_PULL")
        self.assertEqual(answers["get_app_data"]["app_data"]["data"], {"key": b"\x00\xff"})
        operation = answers["get_operation"]["operation"]
        self.assertEqual(operation["state"], "OPERATION_STATE_SUCCEEDED")
        self.assertEqual(operation["checkpoint"], b"3")
        digest = hashlib.sha256(PAYLOAD).hexdigest()
        self.assertEqual(operation["payload_digest"], "sha256:" + digest)
        self.assertTrue(answers["report_error"]["verdict"]["held"])
        self.assertEqual(answers["list_faults"]["faults"][0]["class"], "ERROR_CLASS_FATAL")
        self.assertIn("units_max", answers["get_server_info"]["limits"])


if __name__ == "__main__":
    unittest.main()
