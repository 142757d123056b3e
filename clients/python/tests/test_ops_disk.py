"""Hooks of a unit whose disk is lost, full, or cannot be written."""

import os
import shutil
import tempfile
import unittest

from charm import MODEL, OpsCase, charm, ops, run

STEPS = 3


def upgrade(charm, _):
    """Upgrades in steps; each hook does one of them, and is killed then."""
    with charm.status.operation("upgrade", "v2", b"image: v2") as work:
        charm.seen.append((work.resumed, work.checkpoint, work.payload))
        step = int(work.checkpoint or b"0") + 1
        work.save(str(step).encode(), "step {}/{}".format(step, STEPS))
        if step < STEPS:
            raise SystemExit(1)


class Disk(OpsCase):
    def upgrading(self, **settings):
        seen = []

        def setup(charm):
            charm.seen = seen

        return charm(upgrade, setup=setup, **settings), seen

    def steps(self, folders):
        """Runs a hook with each folder for the state, and returns what the hooks found."""
        found = []
        for number, folder in enumerate(folders, 1):
            kind, seen = self.upgrading(state_dir=folder)
            if number < STEPS:
                with self.assertRaises(SystemExit):
                    run(kind)
            else:
                run(kind)
            found += seen
        return found

    def operations(self, server):
        with server.client() as client:
            listed = client.list_operations(application="web", namespace=MODEL)["operations"]
        return [(one["state"][len("OPERATION_STATE_") :], one["target_version"]) for one in listed]

    def test_an_operation_survives_the_loss_of_the_units_disk(self):
        # The upgrade of a charm in a pod begins with a new pod.
        server = self.start()
        found = self.steps([server.state_dir + str(number) for number in range(STEPS)])
        self.assertEqual(
            found,
            [(False, b"", b"image: v2"), (True, b"1", b"image: v2"), (True, b"2", b"image: v2")],
        )
        self.assertEqual(self.operations(server), [("SUCCEEDED", "v2")])

    def test_an_operation_of_a_lost_disk_is_listed_before_it_is_entered(self):
        server = self.start()
        kind, _ = self.upgrading()
        with self.assertRaises(SystemExit):
            run(kind)
        found = []
        shutil.rmtree(server.state_dir)
        run(charm(lambda charm, _: found.append(charm.status.operations())))
        run(charm(lambda charm, _: found.append(charm.status.operations())), unit=1)
        self.assertEqual(found, [{"upgrade": "v2"}, {}])

    def test_a_newer_target_after_the_loss_of_the_disk_gives_up_the_older_one(self):
        def newer(charm, _):
            with charm.status.operation("upgrade", "v3") as work:
                found.append((work.resumed, work.checkpoint))

        found = []
        server = self.start()
        kind, _ = self.upgrading()
        with self.assertRaises(SystemExit):
            run(kind)
        shutil.rmtree(server.state_dir)
        run(charm(newer))
        self.assertEqual(found, [(False, b"")])
        self.assertEqual(self.operations(server), [("SUCCEEDED", "v3"), ("ABANDONED", "v2")])

    def test_a_folder_that_cannot_be_written_fails_no_hook(self):
        server = self.start()
        # Nothing can be created below a device, by the superuser too.
        found = self.steps(["/dev/null/state"] * STEPS)
        self.assertEqual([one[:2] for one in found], [(False, b""), (True, b"1"), (True, b"2")])
        self.assertEqual(self.operations(server), [("SUCCEEDED", "v2")])
        kept = ops.MaintenanceStatus("runs")
        refusing = {"state_dir": "/dev/null/state"}
        run(charm(lambda charm, _: charm.status.push("backup", kept), **refusing))
        run(charm(**refusing))
        self.assertIn(("backup", "", "maintenance", "runs"), self.unit(server))

    @unittest.skipUnless(os.path.exists("/dev/full"), "the system has no /dev/full")
    def test_a_full_disk_leaves_no_parts_of_files(self):
        with tempfile.TemporaryDirectory() as folder:

            def body(charm, _):
                # The file that is written next is on a disk without space.
                path = "{}.{}".format(charm.status.state.path, os.getpid())
                os.symlink("/dev/full", path)
                charm.status.push("backup", ops.MaintenanceStatus("runs"))
                charm.status.flush()
                names.append(sorted(os.listdir(folder)))

            names = []
            server = self.start()
            run(charm(body, state_dir=folder))
            self.assertEqual(names, [[".bellwether-shop-web-0.json.log"]])
            self.assertEqual(len(os.listdir(folder)), 1)
            self.assertIn(("backup", "", "maintenance", "runs"), self.unit(server))

    @unittest.skipUnless(os.path.exists("/dev/full"), "the system has no /dev/full")
    def test_a_journal_that_cannot_be_written_fails_no_hook(self):
        with tempfile.TemporaryDirectory() as folder:

            def body(charm, _):
                os.symlink("/dev/full", charm.status.state.path + ".log")
                charm.status.push("backup", ops.MaintenanceStatus("runs"))

            server = self.start()
            run(charm(body, state_dir=folder))
            self.assertEqual(len(os.listdir(folder)), 1)
            self.assertIn(("backup", "", "maintenance", "runs"), self.unit(server))


if __name__ == "__main__":
    unittest.main()
