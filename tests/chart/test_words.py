"""Holds what people read of the chart, and what other files of the project say, to what it does."""

import pathlib
import re
import shutil
import tempfile
import tomllib
import unittest

from chart import CHART, DATA, HELMS, REDIS, ROOT, chart_yaml, container_of, one, pod_of, render


class Words(unittest.TestCase):
    def notes(self, helm, **values):
        """Notes as an object, because Helm 3 prints them only where there is a cluster."""
        template = (CHART / "templates/NOTES.txt").read_text()
        object_of_notes = (
            '{{- define "notes" -}}' + template + "{{- end -}}\n"
            'kind: Notes\nmetadata: {name: notes}\ntext: {{ include "notes" . | toJson }}\n'
        )
        with tempfile.TemporaryDirectory() as folder:
            chart = pathlib.Path(shutil.copytree(CHART, f"{folder}/chart"))
            (chart / "templates/notes.yaml").write_text(object_of_notes)
            return one(render(helm, chart=chart, **values), "Notes")["text"]

    def test_notes_say_how_to_reach_it_and_what_is_insecure(self):
        for helm in HELMS:
            notes = self.notes(helm)
            for expected in (
                "kubectl -n prod rollout status statefulset/test-bellwether",
                "kubectl -n prod port-forward service/test-bellwether 50051:50051",
                "bellwether report web/0 --level active",
                "BELLWETHER_SERVER=http://test-bellwether.prod.svc:50051",
                "claim data-test-bellwether-0",
                "WARNING: there is no TLS and no authentication yet.",
                "--insecure",
            ):
                self.assertIn(expected, notes)
            self.assertNotIn("headless", notes)

    def test_notes_say_what_is_kept(self):
        for helm in HELMS:
            self.assertIn("WARNING: nothing outlives the pod", self.notes(helm, persistence__enabled=False))
            self.assertIn("on the claim mine.", self.notes(helm, persistence__existingClaim="mine"))
            redis = self.notes(helm, replicas=2, **REDIS)
            for expected in (
                "secret redis has under url",
                "rollout restart deployment/test-bellwether",
                "dns:///test-bellwether-headless.prod.svc:50051",
            ):
                self.assertIn(expected, redis)

    def test_the_commands_of_the_readme_work(self):
        text = (CHART / "README.md").read_text().replace("\\\n", " ")
        commands = re.findall(r"^helm upgrade --install (\w+) \./helm-chart (.*)$", text, re.MULTILINE)
        self.assertEqual(len(commands), 2)
        for helm in HELMS:
            for release, arguments in commands:
                self.assertTrue(render(helm, *arguments.split(), release=release))

    def test_the_version_is_the_crate_s(self):
        manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
        crate = manifest["package"]
        self.assertEqual(chart_yaml()["appVersion"], manifest["workspace"]["package"]["version"])
        self.assertEqual(chart_yaml()["description"], crate["description"])
        self.assertNotIn("dependencies", chart_yaml())

    def test_the_server_knows_what_it_is_told(self):
        files = ["src/config/mod.rs", "src/config/store.rs"]
        config = "".join((ROOT / file).read_text() for file in files)
        for values in ({}, REDIS):
            for argument in container_of(render("helm4", **values))["args"][1:]:
                flag = argument.split("=")[0].removeprefix("--").replace("-", "_")
                self.assertIn(f"pub {flag}: ", config)
        validate = (CHART / "templates/validate.yaml").read_text()
        for variable in re.findall(r'"(BELLWETHER_\w+)"', validate):
            self.assertIn(f'env = "{variable}"', config)
        deadline = re.search(r"drain_deadline: Duration::from_secs\((\d+)\)", config)
        self.assertIn(f"$drain := {deadline[1]} ", validate)

    def test_the_image_is_what_the_pod_expects(self):
        containerfile = (ROOT / "Containerfile").read_text()
        toolchain = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
        self.assertIn(f"/rust:{toolchain}-", containerfile)
        pod = pod_of(render("helm4"))
        user = pod["securityContext"]
        self.assertIn(f"\nUSER {user['runAsUser']}:{user['runAsGroup']}\n", containerfile)
        self.assertIn(f"--chown={user['runAsUser']}:{user['runAsGroup']} /out/data {DATA}\n", containerfile)
        ports = " ".join(str(port["containerPort"]) for port in pod["containers"][0]["ports"])
        self.assertIn(f"\nEXPOSE {ports}\n", containerfile)
        self.assertIn("\nSTOPSIGNAL SIGTERM\n", containerfile)
        self.assertRegex(containerfile, r'\nENTRYPOINT \["[^"]*/bellwether"\]\n')
