"""Holds the arguments and files of every scenario to what the server accepts, and the test pod to passing."""

import pathlib
import tempfile
import unittest

from chart import OPEN, SCENARIOS, SECURED, arguments_of, one, pod_of, render, workloads
from server import Server, run

# Contents for the secrets and ConfigMaps that users bring.
BROUGHT = {
    "tokens.toml": "", "jwks.json": '{"keys": []}', "password": "secret",
    "roles.toml": '[[grant]]\nrole = "reader"\nto = ["token:a"]\nnamespace = "*"\napplication = "*"\n',
}  # fmt: skip


def arguments_in(objects, folder):
    """The arguments of the server, with every file of the pod in a folder; data goes there too."""
    maps = {made["metadata"]["name"]: made.get("data", {}) for made in objects if made["kind"] == "ConfigMap"}
    volumes = {volume["name"]: volume for volume in pod_of(objects)["volumes"]}
    mounts = pod_of(objects)["containers"][0]["volumeMounts"]
    arguments = [argument.replace("=/", f"={folder}/") for argument in arguments_of(objects)]
    for mount in mounts:
        place = pathlib.Path(f"{folder}{mount['mountPath']}")
        place.mkdir(parents=True, exist_ok=True)
        own = maps.get(volumes.get(mount["name"], {}).get("configMap", {}).get("name"), BROUGHT)
        for name, text in own.items():
            (place / name).write_text(text.replace('"/etc/', f'"{folder}/etc/'))
    return arguments


class Configuration(unittest.TestCase):
    def test_the_server_accepts_what_each_scenario_gives_it(self):
        for scenario in SCENARIOS:
            with self.subTest(scenario=scenario.name), tempfile.TemporaryDirectory() as folder:
                objects = render("helm4", "--values", scenario)
                serve, *arguments = arguments_in(objects, folder)
                self.assertEqual(serve, "serve")
                known = [argument for argument in arguments if not argument.startswith("--print")]
                variables = {"BELLWETHER_STORE": "redis://redis"} if "BELLWETHER_STORE" in str(objects) else {}
                code, text = run("config", "check", *known, **variables)
                self.assertEqual(code, 0, text)

    def test_settings_arrive(self):
        settings = {"connections_max": 4321, "waiting_reads_max": 7}
        with tempfile.TemporaryDirectory() as folder:
            objects = render("helm4", settings__limits=settings, settings__drainDeadlineSeconds=12)
            _, *arguments = arguments_in(objects, folder)
            code, text = run("config", "print", "-o", "json", *arguments)
        self.assertEqual(code, 0, text)
        for expected in ("4321", '"drain_deadline_seconds"'):
            self.assertIn(expected, text)

    def test_the_server_would_refuse_the_address_of_the_pod(self):
        with tempfile.TemporaryDirectory() as folder:
            _, *arguments = arguments_in(render("helm4", **OPEN), folder)
            self.assertEqual(run("config", "check", *arguments)[0], 0)
            arguments.remove("--insecure")
            code, text = run("config", "check", *arguments)
            self.assertEqual(code, 2)
            self.assertIn("--grpc-listen 0.0.0.0:50051 can be reached from other machines", text)

    def test_a_secured_pod_needs_all_that_the_chart_gives_it(self):
        with tempfile.TemporaryDirectory() as folder:
            _, *arguments = arguments_in(render("helm4", **SECURED), folder)
            self.assertEqual(run("config", "check", *arguments)[0], 0)
            for part in ("--ops-tls", "--tls-key", "--tokens", "--roles", "--tls-certificate"):
                less = [argument for argument in arguments if not argument.startswith(part)]
                self.assertLess(len(less), len(arguments))
                self.assertEqual(run("config", "check", *less)[0], 2, part)


class Programs(unittest.TestCase):
    def test_the_probe_of_a_pod_on_loopback_passes(self):
        probe = pod_of(render("helm4"))["containers"][0]["livenessProbe"]["exec"]["command"]
        with Server() as server:
            code, text = run(*probe[1:], BELLWETHER_SERVER=f"http://{server.addresses['grpc']}")
            self.assertEqual((code, text), (0, "serving\n"))
        self.assertNotEqual(run(*probe[1:], BELLWETHER_SERVER=f"http://{server.addresses['grpc']}")[0], 0)

    def test_the_steps_of_helm_test_pass_and_leave_nothing(self):
        spec = one(render("helm4", **OPEN), "Pod", "-test")["spec"]
        with Server() as server:
            for step in [*spec["initContainers"], *spec["containers"]]:
                variables = {variable["name"]: variable["value"] for variable in step["env"]}
                variables["BELLWETHER_SERVER"] = f"http://{server.addresses['grpc']}"
                code, text = run(*step["args"], **variables)
                self.assertEqual(code, 0, f"{step['name']}: {text}")
            self.assertNotIn("helm-test", server.cli("status", "-A"))

    def test_the_steps_of_helm_test_fail_without_a_server(self):
        spec = one(render("helm4", **OPEN), "Pod", "-test")["spec"]
        for step in spec["initContainers"]:
            self.assertNotEqual(run(*step["args"], BELLWETHER_SERVER="http://127.0.0.1:1")[0], 0)

    def test_every_container_of_the_chart_is_known(self):
        names = {container["name"] for values in SCENARIOS for _, pod in workloads(render("helm4", "--values", values))
                 for container in pod["containers"]}  # fmt: skip
        self.assertEqual(names, {"bellwether", "valkey", "delete", "proxy"})
