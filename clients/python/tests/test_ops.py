"""The ops layer with a healthy server: what a charm says is what the server shows."""

import json
import time
import unittest
import unittest.mock

from charm import MODEL, OpsCase, charm, ops, run, run_action, scenario, testing

from bellwether_client.ops import NotLeader


class Statuses(OpsCase):
    def test_a_collected_set_is_reported_in_its_order(self):
        def collect(_, event):
            event.add_status(ops.ActiveStatus("fine"))
            event.add_status(ops.BlockedStatus("second"))
            event.add_status(ops.BlockedStatus("a later one"))

        server = self.start()
        state = run(charm(collect_unit=collect))
        self.assertEqual(state.unit_status, scenario.BlockedStatus("second"))
        self.assertEqual(self.shown(server), ("blocked", "second"))
        self.assertEqual(len(self.unit(server)), 3)

    def test_a_status_keeps_its_start_when_one_before_it_goes(self):
        texts = ["a", "b"]

        def collect(_, event):
            for text in texts:
                event.add_status(ops.BlockedStatus(text))

        server = self.start()
        run(charm(collect_unit=collect))
        before = {text: key for _, key, _, text in self.unit(server)}
        texts.remove("a")
        run(charm(collect_unit=collect))
        self.assertEqual(self.unit(server), [("", before["b"], "blocked", "b")])
        with server.client() as client:
            events = client.list_status_events(application="web", namespace=MODEL)["events"]
        about_b = [one for one in events if one["status"] and one["message"] == "b"]
        self.assertEqual(len(about_b), 1)

    def test_a_status_that_is_set_directly_is_the_one_slot(self):
        def body(charm, _):
            charm.unit.status = charm.status.blocked("db", "no database", action="add a relation")

        server = self.start()
        run(charm(lambda charm, _: setattr(charm.unit, "status", ops.WaitingStatus("x"))))
        self.assertEqual(self.unit(server), [("", "", "waiting", "x")])
        state = run(charm(body))
        self.assertEqual(self.unit(server), [("db", "", "blocked", "no database")])
        status = server.application("web", MODEL)["status"]
        self.assertEqual((status["action"], status["action_count"]), ("add a relation", 1))
        # The next hook sets nothing: Juju has the text only, and the details stay.
        run(charm(), unit_status=state.unit_status)
        self.assertEqual(self.unit(server), [("db", "", "blocked", "no database")])
        self.assertEqual(server.application("web", MODEL)["status"]["action"], "add a relation")

    def test_the_leader_reports_the_application(self):
        def collect(_, event):
            event.add_status(ops.WaitingStatus("for peers"))

        server = self.start()
        run(charm(collect_app=collect), leader=True)
        self.assertEqual(self.shown(server), ("waiting", "for peers"))
        self.assertEqual(server.application("web", MODEL)["leader"], "web/0")
        # Juju makes another unit the leader, and then the first one again.
        run(
            charm(lambda charm, _: setattr(charm.app, "status", ops.BlockedStatus("two"))),
            leader=True,
            unit=1,
        )
        self.assertEqual(self.shown(server), ("blocked", "two"))
        run(charm(collect_app=collect), leader=True)
        self.assertEqual(self.shown(server), ("waiting", "for peers"))

    def test_the_application_has_a_whole_set_in_its_order(self):
        texts = ["first", "second", "first"]

        def collect(charm, event):
            for text in texts:
                event.add_status(charm.status.blocked("", text, action="do " + text))
            event.add_status(ops.ActiveStatus("fine"))

        def own():
            with server.client() as client:
                listed = client.list_statuses(application="web", namespace=MODEL)["statuses"]
            return [one for one in listed if not one["unit"]]

        server = self.start()
        run(charm(lambda charm, _: setattr(charm.unit, "status", ops.BlockedStatus("unit"))))
        state = run(charm(collect_app=collect), leader=True)
        self.assertEqual(state.app_status, scenario.BlockedStatus("first"))
        status = server.application("web", MODEL)["status"]
        self.assertEqual((status["message"], status["action"]), ("first", "do first"))
        self.assertEqual((status["action_count"], len(own())), (3, 4))
        begun = {one["report"]["message"]: one["since_time"] for one in own()}
        # One goes: the others keep their start.
        texts.remove("first")
        run(charm(collect_app=collect), leader=True)
        after = {one["report"]["message"]: one["since_time"] for one in own()}
        self.assertEqual((len(own()), after["second"]), (3, begun["second"]))

    def test_an_override_is_the_one_status_that_juju_shows(self):
        def collect(_, event):
            event.add_status(ops.ActiveStatus("fine"))
            event.add_status(ops.WaitingStatus("for peers"))

        server = self.start()
        blocked = charm(lambda charm, _: setattr(charm.unit, "status", ops.BlockedStatus("unit")))
        run(blocked, unit=1)
        run(charm(collect_app=collect, application_status="override"), leader=True)
        self.assertEqual(self.shown(server), ("waiting", "for peers"))

    def test_what_a_unit_says_while_it_stops_does_not_outlive_it(self):
        def last_words(charm, _):
            charm.status.push("relation", ops.BlockedStatus("Please add relationship"))
            charm.unit.status = ops.BlockedStatus("no relation")
            with charm.status.attempt("database", "pg:5432"):
                raise ConnectionRefusedError("refused")

        found = []
        for folder in ("", "-new"):
            with self.subTest(folder or "the same disk"):
                server = self.start()
                run(charm(lambda one, _: one.status.push("backup", ops.MaintenanceStatus("runs"))))
                run(charm(last_words), "stop")
                self.assertIn("Please add relationship", [one[3] for one in self.unit(server)])
                names = {"application": "web", "namespace": MODEL}
                with server.client() as client:
                    [unit] = client.list_units(**names)["units"]
                self.assertIsNotNone(unit["stopping_time"])
                del found[:]
                body = charm(
                    lambda one, _: found.extend(one.status.kept()),
                    state_dir=server.state_dir + folder,
                )
                run(body, "start")
                self.assertEqual([one.message for one in found], ["runs"])
                said = {one[0]: one[3] for one in self.unit(server)}
                self.assertEqual(said, {"": "", "backup": "runs"})
                self.assertEqual(server.faults("web", MODEL), [])
                with server.client() as client:
                    [unit] = client.list_units(**names)["units"]
                self.assertIsNone(unit["stopping_time"])
                self.assertEqual(unit["freshness"], "FRESHNESS_FRESH")

    def test_a_stop_without_a_server_is_announced_before_its_words(self):
        def last_words(charm, _):
            charm.status.push("relation", ops.BlockedStatus("Please add relationship"))

        server = self.start(durable=True)
        run(charm())
        server.kill()
        run(charm(last_words), "stop")
        server.start()
        run(charm(), "start")
        self.assertEqual([one[0] for one in self.unit(server)], [""])

    def test_too_long_texts_and_wrong_names_are_mended(self):
        def collect(charm, event):
            event.add_status(
                charm.status.blocked(
                    "/my component é",
                    "é" * 9000,
                    action="x" * 9000,
                    check="c" * 9000,
                    short="s" * 90,
                    labels={"l" * 200: "v" * 200},
                    key="a b",
                    reason="R" * 999,
                )
            )
            for _ in range(3):
                event.add_status(charm.status.waiting("same", "again"))
            event.add_status(ops.WaitingStatus("\x00\x1b[31m\n"))

        server = self.start()
        run(charm(collect_unit=collect))
        found = self.unit(server)
        self.assertEqual(len(found), 5)
        long = next(one for one in found if one[0].startswith("my-component-"))
        self.assertEqual(long[1], "a-b")
        self.assertTrue(4090 < len(long[3].encode()) <= 4096 and long[3].endswith("..."))

    def test_a_set_of_thousands_is_cut_and_the_worst_is_shown(self):
        def collect(_, event):
            for number in range(2500):
                event.add_status(ops.ActiveStatus("{} {}".format(number, "x" * 3000)))
            event.add_status(ops.BlockedStatus("the last"))

        server = self.start()
        run(charm(collect_unit=collect))
        self.assertEqual(self.shown(server), ("blocked", "the last"))

    def test_a_kept_status_stays_until_it_is_cleared(self):
        server = self.start()
        run(charm(lambda charm, _: charm.status.push("backup", ops.MaintenanceStatus("runs"))))
        run(charm())
        self.assertIn(("backup", "", "maintenance", "runs"), self.unit(server))
        run(charm(lambda charm, _: charm.status.clear("backup")))
        self.assertEqual([one[0] for one in self.unit(server)], [""])

    def test_a_kept_status_is_shown_in_juju_on_request(self):
        def collect(charm, event):
            event.add_status(ops.ActiveStatus())
            for status in charm.status.kept():
                event.add_status(status)

        server = self.start()
        kind = charm(
            lambda charm, _: charm.status.push("backup", ops.MaintenanceStatus("runs"), ttl=60),
            collect_unit=collect,
        )
        state = run(kind)
        self.assertEqual(state.unit_status, scenario.MaintenanceStatus("runs"))
        self.assertEqual(
            sorted(one[:1] + one[2:] for one in self.unit(server)),
            [("", "active", ""), ("backup", "maintenance", "runs")],
        )

    def test_a_kept_status_survives_the_loss_of_the_units_disk(self):
        server = self.start()
        run(charm(lambda charm, _: charm.status.push("backup", ops.MaintenanceStatus("runs"))))
        found = []
        run(
            charm(
                lambda charm, _: found.extend(charm.status.kept()),
                state_dir=server.state_dir + "-new",
            )
        )
        self.assertEqual([one.message for one in found], ["runs"])

    def test_a_removed_unit_is_gone(self):
        server = self.start()
        run(charm())
        run(charm(), unit=1)
        run(charm(), "remove")
        with server.client() as client:
            units = client.list_units(application="web", namespace=MODEL)["units"]
        self.assertEqual([one["name"] for one in units], ["web/1"])

    def test_a_unit_that_comes_back_on_the_same_disk_is_reported_at_once(self):
        server = self.start()

        def keep(charm, _):
            charm.status.push("backup", ops.MaintenanceStatus("runs"))
            with charm.status.attempt("db", "pg:5432"):
                raise PermissionError("no")

        run(charm(keep))
        run(charm(), "remove")
        found = []

        def come(charm, _):
            found.extend(charm.status.kept())
            charm.unit.status = ops.ActiveStatus("new")

        run(charm(come), "install")
        self.assertEqual(self.unit(server), [("", "", "active", "new")])
        self.assertEqual(found, [])

    def test_the_option_of_the_charm_has_the_address(self):
        server = self.start()
        address, server.address = server.address, "http://127.0.0.1:1"
        with unittest.mock.patch.dict("os.environ", {"BELLWETHER_SERVER": "http://127.0.0.1:1"}):
            run(charm(), config={"bellwether-address": address})
        server.address = address
        self.assertEqual([one[2] for one in self.unit(server)], ["unknown"])

    def test_status_detail_has_everything(self):
        def body(charm, _):
            charm.status.push("backup", ops.MaintenanceStatus("runs"))
            with charm.status.attempt("db", "pg:5432"):
                raise PermissionError("no")

        self.start()
        run(charm(body))
        results = run_action(charm(), "status-detail")
        self.assertIn("backup", results["table"])
        answer = json.loads(results["json"])
        self.assertEqual([one["target"] for one in answer["errors"]], ["pg:5432"])
        self.assertEqual(results["delivered"], "yes")


class Errors(OpsCase):
    def test_an_attempt_reports_its_error_and_a_success_ends_it(self):
        seen = []

        def fail(charm, _):
            with charm.status.attempt("db", "http://pg:5432/x?password=1") as attempt:
                raise ConnectionRefusedError("refused")
            seen.append(attempt)

        def work(charm, _):
            with charm.status.attempt("db", "http://pg:5432/x"):
                pass

        server = self.start()
        run(charm(fail))
        self.assertTrue(seen[0].failed)
        self.assertEqual(seen[0].verdict["action"], "VERDICT_ACTION_RETRY")
        self.assertEqual(seen[0].verdict["rule"], "python.not-sent")
        [fault] = server.faults("web", MODEL)
        self.assertEqual((fault["component"], fault["target"]), ("db", "http://pg:5432/x"))
        run(charm(work))
        self.assertEqual(server.faults("web", MODEL), [])

    def test_any_exception_can_be_reported(self):
        class Odd(Exception):
            def __str__(self):
                raise ValueError("no text")

            @property
            def response(self):
                raise KeyError("no response")

        class Long(Exception):
            pass

        Long.__qualname__ = "L" * 5000

        def fail(charm, _):
            for error in (Odd(), Long("\ud800" * 9000), KeyError("\x00\n"), RecursionError()):
                with charm.status.attempt("\x00 db", "\x1b[31m{}\n".format(type(error))):
                    raise error

        server = self.start()
        run(charm(fail))
        self.assertEqual(len(server.faults("web", MODEL)), 4)

    def test_a_decorated_call_is_repeated_and_skipped_as_the_verdict_says(self):
        calls = []

        def flaky():
            calls.append(1)
            if len(calls) < 3:
                raise TimeoutError("slow")
            return "done"

        def hold(charm, _):
            calls.append(charm.status.attempt("disk", "vda")(refuse)())

        def refuse():
            raise ImportError("FATAL for the server")

        results = []
        server = self.start()
        run(
            charm(
                lambda charm, _: results.append(
                    charm.status.attempt("db", "pg", wait=10.0)(flaky)()
                )
            )
        )
        self.assertEqual((len(calls), results), (3, ["done"]))
        self.assertEqual(server.faults("web", MODEL), [])
        run(charm(hold))
        due = []
        run(charm(lambda charm, _: due.append(charm.status.due("disk", "vda"))))
        with server.client() as client:
            client.resolve_hold(
                application="web",
                namespace=MODEL,
                unit="web/0",
                component="disk",
                resolution="HOLD_RESOLUTION_RETRY",
            )
        run(charm(lambda charm, _: due.append(charm.status.due("disk", "vda"))))
        self.assertEqual(due, [False, True])

    def test_everything_works_in_one_call(self):
        def fail(charm, _):
            for component in ("db", "tls"):
                with charm.status.attempt(component, "pg"):
                    raise ConnectionRefusedError("refused")
            with charm.status.attempt("disk", "vda"):
                raise ImportError("FATAL for the server")

        server = self.start()
        run(charm(fail))
        self.assertEqual(len(server.faults("web", MODEL)), 3)
        due = []
        run(
            charm(
                lambda charm, _: (
                    charm.status.resolve_all(),
                    due.append(charm.status.due("disk", "vda")),
                )
            )
        )
        self.assertEqual([one["component"] for one in server.faults("web", MODEL)], ["disk"])
        self.assertEqual(due, [False])

    def test_a_verdict_waits_for_another_hook(self):
        waits = []

        def fail(charm, _):
            with charm.status.attempt("db", "pg") as attempt:
                raise ConnectionRefusedError("refused")
            waits.append(attempt.verdict["retry_after"])

        server = self.start(durable=True)
        run(charm(fail))
        server.kill()
        run(charm(fail))
        self.assertEqual([wait >= 10.0 for wait in waits], [True, True], waits)

    def test_removal_is_never_held(self):
        def refuse(charm, _):
            with charm.status.attempt("disk", "vda"):
                raise ImportError("FATAL for the server")

        due = []
        self.start()
        run(charm(refuse))
        run(charm(lambda charm, _: due.append(charm.status.due("disk", "vda"))), "stop")
        run(charm(lambda charm, _: due.append(charm.status.due("disk", "vda"))), "remove")
        self.assertEqual(due, [True, True])

    def test_a_crash_is_reported_and_the_next_good_hook_ends_it(self):
        def crash(charm, _):
            raise KeyError("password")

        server = self.start()
        with self.assertRaises(Exception):
            run(charm(crash), "config_changed")
        level, message = self.shown(server)
        self.assertEqual((level, message), ("error", "config-changed failed: KeyError: 'password'"))
        [fault] = server.faults("web", MODEL)
        self.assertEqual((fault["component"], fault["target"]), ("hook", "config-changed"))
        run(charm(), "config_changed")
        self.assertEqual(server.faults("web", MODEL), [])
        self.assertEqual([one[0] for one in self.unit(server)], [""])


class Work(OpsCase):
    def test_an_operation_is_resumed_in_the_next_hook(self):
        steps = []

        def upgrade(charm, _):
            with charm.status.operation("upgrade", "v2", b"image: v2") as operation:
                for step in range(int(operation.checkpoint or b"0"), 3):
                    steps.append((step, operation.resumed, operation.payload))
                    operation.save(str(step + 1).encode(), "step {}/3".format(step + 1))
                    if len(steps) == 2:
                        raise RuntimeError("node drained")

        server = self.start()
        with self.assertRaises(Exception):
            run(charm(upgrade))
        self.assertEqual(self.operation(server)["state"], "OPERATION_STATE_RETRY_WAIT")
        run(charm(upgrade))
        self.assertEqual(
            steps, [(0, False, b"image: v2"), (1, False, b"image: v2"), (2, True, b"image: v2")]
        )
        # The work is done before the server lets a unit try again.
        self.assertEqual(self.operation(server)["state"], "OPERATION_STATE_SUCCEEDED")
        self.assertEqual(self.shown(server)[0], "unknown")

    def test_each_unit_upgrades_itself(self):
        def upgrade(charm, _):
            with charm.status.operation("upgrade", "v2") as operation:
                operation.save(b"1", "step 1/2")
                raise SystemExit(1)

        def finish(charm, _):
            found.append(charm.status.operations())
            with charm.status.operation("upgrade", "v2") as operation:
                found.append(operation.checkpoint)

        found = []
        server = self.start()
        for unit in (0, 1, 2):
            with self.assertRaises(SystemExit):
                run(charm(upgrade), unit=unit)
        with server.client() as client:
            begun = client.list_operations(application="web", namespace=MODEL)["operations"]
        shown = sorted((one["unit"], one["progress"]) for one in begun)
        self.assertEqual(shown, [("web/{}".format(n), "step 1/2") for n in (0, 1, 2)])
        for unit in (0, 1, 2):
            run(charm(finish), unit=unit)
        self.assertEqual(found, [{"upgrade": "v2"}, b"1"] * 3)
        for unit in (0, 1, 2):
            self.assertEqual([one[0] for one in self.unit(server, "web/{}".format(unit))], [""])
        with server.client() as client:
            open_ones = client.list_operations(application="web", namespace=MODEL)["operations"]
        self.assertEqual({one["state"] for one in open_ones}, {"OPERATION_STATE_SUCCEEDED"})

    def operation(self, server):
        with server.client() as client:
            return client.list_operations(application="web", namespace=MODEL)["operations"][0]


class Data(OpsCase):
    def test_units_read_what_the_leader_writes(self):
        def write(charm, _):
            charm.status.data.update({"database.name": "web", "old": "x"})
            charm.status.data.update({"old": ""})

        found = []
        server = self.start()
        run(charm(write), leader=True)
        run(
            charm(
                lambda charm, _: found.append(
                    (charm.status.data.keys(), charm.status.data.get("database.name"))
                )
            ),
            unit=1,
        )
        self.assertEqual(found, [(["database.name"], "web")])
        server.kill()
        run(charm(lambda charm, _: found.append(charm.status.data.get("database.name"))), unit=1)
        self.assertEqual(found[-1], "web")

    def test_only_the_leader_writes(self):
        def write(charm, _):
            with self.assertRaises(NotLeader):
                charm.status.data.update({"a": "b"})

        self.start()
        run(charm(write))


if __name__ == "__main__":
    unittest.main()
