"""Holds what people read of the chart, and what other files of the project say, to what it does."""

import base64
import pathlib
import re
import tomllib
import unittest

import yaml
from chart import (
    CHART,
    DATA,
    HELMS,
    OPEN,
    REDIS,
    ROOT,
    SCENARIOS,
    SECURED,
    chart_yaml,
    container_of,
    default_values,
    notes_of,
    one,
    pod_of,
    render,
)


class Words(unittest.TestCase):
    def has(self, expected, absent=(), **values):
        for helm in HELMS:
            notes = notes_of(helm, **values)
            for text in expected:
                self.assertIn(text, notes)
            for text in absent:
                self.assertNotIn(text, notes)

    def test_notes_say_how_to_reach_it_on_loopback(self):
        expected = (
            "kubectl -n prod rollout status statefulset/test-bellwether",
            "kubectl -n prod port-forward statefulset/test-bellwether 50051:50051",
            "bellwether report web/0 --level active",
            "claim data-test-bellwether-0",
            "The pod serves its own loopback address only",
            "There is no\n  service for it, and other pods cannot call it.",
            "kubectl -n prod exec statefulset/test-bellwether -- /usr/local/bin/bellwether status",
            "To serve other pods: trial.enabled=true for a trial, or else tls and auth, or insecure=true",
        )
        self.has(expected, ("headless", "BELLWETHER_SERVER", "WARNING", "helm test"))

    def test_notes_say_what_is_insecure(self):
        expected = (
            "kubectl -n prod port-forward service/test-bellwether 50051:50051",
            "BELLWETHER_SERVER=http://test-bellwether.prod.svc:50051",
            "Prometheus metrics: http://test-bellwether-metrics.prod.svc:9090/metrics",
            "helm test test -n prod --logs",
            "TLS: OFF. Proof of callers: OFF. NetworkPolicy: off.",
            "WARNING: insecure is true. Every client that reaches port 50051 can read and change every status.",
            "crosses the network in plain text.",
            "networkPolicy.enabled=true.",
        )
        self.has(expected, **OPEN)
        partly = {**OPEN, "tls__existingSecret": "tls", "networkPolicy__enabled": True}
        self.has(("TLS: on. Proof of callers: OFF. NetworkPolicy: on.",), ("plain text", "=true."), **partly)

    def test_notes_say_how_to_reach_it_with_tls(self):
        expected = (
            "bellwether --server https://localhost:50051 --ca ca.crt status",
            "BELLWETHER_SERVER=https://test-bellwether.prod.svc:50051",
            "https://test-bellwether-metrics.prod.svc:9090/metrics",
            "TLS: on. Proof of callers: on.",
            "`helm test` is left out, because it has no proof of who it is",
        )
        self.has(expected, ("WARNING", "OFF"), **SECURED)

    def test_notes_are_right_for_each_type_of_service(self):
        self.has(("at a port of every node", "nodePort}"), ("load balancer",), service__type="NodePort", **OPEN)
        self.has(("port 50051 of the load balancer",), ("of every node",), service__type="LoadBalancer", **OPEN)
        self.has((), ("From outside of the cluster",), **OPEN)

    def test_notes_say_what_is_kept(self):
        self.has(("WARNING: nothing outlives the pod",), persistence__enabled=False)
        self.has(("on the claim mine.",), persistence__existingClaim="mine")
        self.has(("WARNING: leaveDataBehind is true",), leaveDataBehind=True)
        self.has(("WARNING: nothing outlives the pod of the trial Valkey (test-bellwether-valkey).",),
                 trialValkey__enabled=True)  # fmt: skip
        expected = (
            "the URL of secret redis.",
            "rollout restart deployment/test-bellwether",
            "dns:///test-bellwether-headless.prod.svc:50051",
        )
        self.has(expected, replicas=2, **OPEN, **REDIS)
        self.has(("in Redis, at redis://r:6379/0.",), ("Pods read the secret",), redis__enabled=True, redis__host="r")

    def test_notes_name_old_values(self):
        warning = "WARNING: redis.existingSecret is called redis.urlSecret since 0.2; the old name works until 0.4."
        self.has((warning,), redis__enabled=True, redis__existingSecret__name="a")
        self.has((), (warning,), **REDIS)
        renamed = re.findall(r"`([\w.]+)` is called `([\w.]+)`", (CHART / "UPGRADING.md").read_text())
        self.assertEqual(renamed, [("redis.existingSecret", "redis.urlSecret")])
        self.assertIn(f"## To {chart_yaml()['version']}\n", (CHART / "UPGRADING.md").read_text())

    def test_the_commands_of_the_readme_work(self):
        text = (CHART / "README.md").read_text().replace("\\\n", " ")
        self.assertIn(f"helm push bellwether-{chart_yaml()['version']}.tgz oci://", text)
        self.assertIn(f"/bellwether --version {chart_yaml()['version']} ", text)
        commands = re.findall(r"^helm upgrade --install (\w+) \./helm-chart (.*)$", text, re.MULTILINE)
        self.assertEqual(len(commands), 4)
        for helm in HELMS:
            for release, arguments in commands:
                self.assertTrue(render(helm, *arguments.split(), release=release))

    def test_the_readme_begins_with_what_most_people_set(self):
        _, rest = (CHART / "README.md").read_text().split("<!-- values: made by tools/chart-readme -->")
        values, _ = rest.split("<!-- end of values -->")
        groups = re.split(r"^### (.*)$", values, flags=re.MULTILINE)[1:]
        names = [re.findall(r"^- `([\w.]+)`", text, re.MULTILINE) for text in groups[1::2]]
        self.assertEqual(groups[0], "The values that most people set")
        self.assertEqual(len(names[0]), 15)
        listed = [name for group in names[1:] for name in group]
        self.assertEqual(len(listed), len(set(listed)))
        self.assertLessEqual(set(names[0]), set(listed))
        self.assertGreater(len(names), 10)

    def test_the_files_of_the_chart_are_those_of_the_project(self):
        self.assertEqual((CHART / "LICENSE").read_text(), (ROOT / "LICENSE").read_text())
        for helm, folder in (("3.14", "go-helm3-oldest"),):
            self.assertIn(f"helm.sh/helm/v3 v{helm}.", (ROOT / "tools" / folder / "go.mod").read_text())
            self.assertIn(f"Helm {helm}", (CHART / "README.md").read_text())

    def test_the_scorecard_names_tests_that_exist(self):
        text = (ROOT / "tests/chart/scorecard.md").read_text()
        self.assertEqual(re.findall(r"^(\d+)\. ", text, re.MULTILINE), [str(number) for number in range(1, 45)])
        tests = "".join(file.read_text() for file in pathlib.Path(__file__).parent.glob("test_*.py"))
        defined = set(re.findall(r"^    def (test_\w+)\(", tests, re.MULTILINE))
        self.assertLessEqual(set(re.findall(r"`(test_\w+)`", text)), defined)
        for item in re.split(r"^\d+\. ", text, flags=re.MULTILINE)[1:]:
            self.assertRegex(item, r"Held by\s+`", item)
        self.assertGreater(tests.count("self.assert"), 60)

    def test_artifact_hub_finds_what_it_shows(self):
        chart = chart_yaml()
        notes = {key.removeprefix("artifacthub.io/"): value for key, value in chart["annotations"].items()}
        self.assertEqual(notes["license"], "Apache-2.0")
        images = {image["name"]: image["image"] for image in yaml.safe_load(notes["images"])}
        made = render("helm4", trialValkey__enabled=True)
        self.assertEqual(images["bellwether"], container_of(made)["image"])
        (valkey,) = one(made, "Deployment", "-valkey")["spec"]["template"]["spec"]["containers"]
        self.assertEqual(images["valkey"], valkey["image"])
        kinds = {"added", "changed", "deprecated", "removed", "fixed", "security"}
        for change in yaml.safe_load(notes["changes"]):
            self.assertIn(change["kind"], kinds)
            self.assertTrue(change["description"])
        self.assertTrue(chart["maintainers"] and chart["keywords"])
        kind, data = chart["icon"].split(",")
        self.assertEqual(kind, "data:image/svg+xml;base64")
        self.assertIn(b"<svg ", base64.b64decode(data))

    def test_the_version_is_the_crate_s(self):
        manifest = tomllib.loads((ROOT / "Cargo.toml").read_text())
        crate = manifest["package"]
        self.assertEqual(chart_yaml()["appVersion"], manifest["workspace"]["package"]["version"])
        self.assertEqual(chart_yaml()["description"], crate["description"])
        self.assertNotIn("dependencies", chart_yaml())

    def test_the_server_knows_the_flags_and_variables(self):
        files = ["mod.rs", "store.rs", "tls.rs", "callers.rs"]
        config = "".join((ROOT / "src/config" / file).read_text() for file in files)
        for scenario in SCENARIOS:
            for argument in container_of(render("helm4", "--values", scenario))["args"][1:]:
                flag = argument.split("=")[0].removeprefix("--").replace("-", "_")
                if flag != "print_addresses":
                    self.assertIn(f"pub {flag}: ", config)
        refused = (CHART / "templates/_wrong_workload.tpl").read_text()
        variables = set(re.findall(r'"(BELLWETHER_\w+)"', refused))
        variables.add("BELLWETHER_ACCEPT_DATA_LOSS")  # for one start after a loss, so no value of the chart sets it
        self.assertEqual(variables, set(re.findall(r'"(BELLWETHER_\w+)"', config)), "extraEnv could set another one")
        deadline = re.search(r"drain_deadline: Duration::from_secs\((\d+)\)", config)
        self.assertEqual(int(deadline[1]), default_values()["settings"]["drainDeadlineSeconds"])

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
        program = pod["containers"][0]["livenessProbe"]["exec"]["command"][0]
        self.assertIn(f'\nENTRYPOINT ["{program}"]\n', containerfile)
