"""Holds the objects that the chart makes to what it promises, and to the schemas of several Kubernetes versions."""

import copy
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import unittest

import jsonschema
from chart import (
    CHART,
    DATA,
    HELMS,
    KUBERNETES,
    OPEN,
    REDIS,
    ROOT,
    SCENARIOS,
    SECURED,
    chart_yaml,
    container_of,
    one,
    pod_of,
    render,
    run,
    workload,
    workloads,
)
from registry import Registry, digest
from schemas import validate


# Where all Helms have to render the same.
COMPARED = (KUBERNETES[0], "1.31", KUBERNETES[-1])


class Scenarios(unittest.TestCase):
    """What ci/ has, rendered everywhere."""

    def test_lint_has_nothing_to_say(self):
        for helm in HELMS:
            for values in SCENARIOS:
                with self.subTest(helm=helm, values=values.name):
                    run(helm, "lint", "--strict", CHART, "--values", values, "--kube-version", "1.34.0")

    def test_every_object_is_what_kubernetes_takes(self):
        self.assertGreaterEqual(len(SCENARIOS), 15)
        for kubernetes in KUBERNETES:
            for values in SCENARIOS:
                with self.subTest(kubernetes=kubernetes, values=values.name):
                    objects = render("helm4", "--values", values, kubernetes=kubernetes)
                    self.assertGreaterEqual(len(objects), 3)
                    for made in objects:
                        validate(made, kubernetes)
                    for helm in HELMS.keys() - {"helm4"} if kubernetes in COMPARED else ():
                        other = render(helm, "--values", values, kubernetes=kubernetes)
                        self.assertEqual(shown(objects), shown(other), f"{helm} renders something else")

    def test_a_wrong_object_would_be_seen(self):
        deployment = workload(render("helm4", **REDIS))
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["readinessProb"] = container.pop("readinessProbe")
        for kubernetes in KUBERNETES:
            with self.assertRaisesRegex(Exception, "readinessProb"):
                validate(deployment, kubernetes)
        monitor = one(render("helm4", serviceMonitor__enabled=True, **OPEN), "ServiceMonitor")
        monitor["spec"]["endpoints"][0]["intervall"] = "15s"
        with self.assertRaisesRegex(jsonschema.ValidationError, "intervall"):
            validate(monitor, "1.34")

    def test_pods_are_restricted(self):
        for values in SCENARIOS:
            with self.subTest(values=values.name):
                user = None if values.name.startswith("openshift") else 65532
                for name, pod in workloads(render("helm4", "--values", values)):
                    self.assertEqual(unrestricted(pod, user), [], name)

    def test_what_is_not_restricted_would_be_seen(self):
        pod = pod_of(render("helm4"))
        container = pod["containers"][0]
        for part in (pod, pod["securityContext"], container["securityContext"]):
            for key in ("automountServiceAccountToken", *part):
                if key in part and key in GUARDED:
                    broken = part.pop(key)
                    self.assertNotEqual(unrestricted(pod), [], key)
                    part[key] = broken
        pod["initContainers"] = [{"name": "bare"}]
        self.assertIn("bare: allowPrivilegeEscalation", unrestricted(pod))

    def test_a_chart_that_is_packaged_has_what_it_needs(self):
        for helm in HELMS:
            with tempfile.TemporaryDirectory() as folder:
                run(helm, "package", CHART, "--destination", folder)
                packaged = f"{folder}/bellwether-{chart_yaml()['version']}.tgz"
                self.assertEqual(render(helm, chart=packaged), render(helm))
                with tarfile.open(packaged) as archive:
                    names = {name.removeprefix("bellwether/") for name in archive.getnames()}
                for expected in ("LICENSE", "README.md", "UPGRADING.md", "values.schema.json", "files/alerts.yaml"):
                    self.assertIn(expected, names)
                self.assertFalse([name for name in names if name.startswith("ci/")])

    def test_a_package_is_reproducible(self):
        with tempfile.TemporaryDirectory() as folder:
            made = []
            for name in ("a", "b"):
                copied = pathlib.Path(shutil.copytree(CHART, f"{folder}/{name}/bellwether"))
                for file in copied.rglob("*"):
                    os.utime(file, (1_000_000_000, 1_000_000_000 + len(made)))
                command = [ROOT / "tools/chart-package", f"{folder}/{name}", copied]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
                made.append(pathlib.Path(f"{folder}/{name}/bellwether-{chart_yaml()['version']}.tgz"))
            self.assertEqual(made[0].read_bytes(), made[1].read_bytes())
            self.assertEqual(render("helm3", chart=made[0]), render("helm3"))


    def test_a_registry_keeps_the_package_as_it_is(self):
        version = chart_yaml()["version"]
        for helm in HELMS:
            with self.subTest(helm=helm), tempfile.TemporaryDirectory() as folder, Registry() as registry:
                command = [ROOT / "tools/chart-package", folder]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
                packaged = pathlib.Path(folder, f"bellwether-{version}.tgz")
                at = f"oci://{registry.address}/charts"
                run(helm, "push", packaged, at, "--plain-http")
                self.assertIn(digest(packaged.read_bytes()), registry.blobs)
                pulled = render(helm, "--version", version, "--plain-http", chart=f"{at}/bellwether")
                self.assertEqual(pulled, render(helm))


GUARDED = {
    "automountServiceAccountToken", "runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile",
    "allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities",
}  # fmt: skip


def unrestricted(pod, user=65532):
    """What breaks the Pod Security Standard "restricted", or what we promise beyond it."""
    shared = pod.get("securityContext", {})
    wrong = [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
    wrong += [f"volume {volume['name']}" for volume in pod.get("volumes", []) if "hostPath" in volume]
    if pod.get("automountServiceAccountToken") is not False:
        wrong.append("automountServiceAccountToken")
    for container in pod["containers"] + pod.get("initContainers", []):
        own = container.get("securityContext", {})
        both = {**shared, **own}
        expected = {
            "runAsNonRoot": both.get("runAsNonRoot") is True,
            "runAsUser": both.get("runAsUser") == user,
            "runAsGroup": both.get("runAsGroup") == user,
            "seccompProfile": both.get("seccompProfile") == {"type": "RuntimeDefault"},
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "privileged": not own.get("privileged"),
            "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is True,
            "capabilities": own.get("capabilities") == {"drop": ["ALL"]},
        }
        wrong += [f"{container['name']}: {key}" for key, holds in expected.items() if not holds]
    return wrong


def shown(objects):
    """Objects without what is random at each rendering: the contents of secrets and their end."""
    made = copy.deepcopy(objects)
    for secret in (one for one in made if one["kind"] == "Secret"):
        secret["data"] = sorted(secret["data"])
        secret["metadata"]["annotations"]["bellwether/ends"] = "later"
    return made


class Objects(unittest.TestCase):
    def test_the_embedded_store_is_one_pod_with_a_claim(self):
        objects = render("helm4")
        self.assertEqual(kinds(objects), ["ConfigMap", "ServiceAccount", "StatefulSet"])
        stateful = workload(objects)
        self.assertEqual(stateful["spec"]["replicas"], 1)
        self.assertEqual(stateful["spec"]["serviceName"], "test-bellwether-headless")
        (claim,) = stateful["spec"]["volumeClaimTemplates"]
        self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOnce"])
        self.assertEqual(claim["spec"]["resources"], {"requests": {"storage": "1Gi"}})
        self.assertNotIn("storageClassName", claim["spec"])
        container = container_of(objects)
        self.assertIn({"name": claim["metadata"]["name"], "mountPath": DATA}, container["volumeMounts"])
        self.assertIn(f"--data-dir={DATA}", container["args"])
        self.assertNotIn("env", container)

    def test_a_cluster_may_give_the_users_and_groups(self):
        ranges = {f"podSecurityContext__{key}": None for key in ("runAsUser", "runAsGroup", "fsGroup")}
        for helm in HELMS:
            objects = render(helm, trialValkey__enabled=True, **ranges, **OPEN)
            self.assertEqual(len(dict(workloads(objects))), 3)
            for name, pod in workloads(objects):
                expected = {"runAsNonRoot": True, "fsGroupChangePolicy": "OnRootMismatch",
                            "seccompProfile": {"type": "RuntimeDefault"}}  # fmt: skip
                self.assertEqual(pod["securityContext"], expected, name)
            without = render(helm, podSecurityContext=None, securityContext=None, trialValkey__enabled=True, **OPEN)
            for name, pod in workloads(without):
                self.assertNotIn("securityContext", pod, name)
                self.assertNotIn("securityContext", pod["containers"][0], name)

    def test_security_contexts_are_those_of_every_pod(self):
        added = {"podSecurityContext__supplementalGroups": [7], "securityContext__runAsUser": 1234}
        for name, pod in workloads(render("helm4", trialValkey__enabled=True, **added, **OPEN)):
            self.assertEqual(pod["securityContext"]["supplementalGroups"], [7], name)
            for container in pod["containers"] + pod.get("initContainers", []):
                self.assertEqual(container["securityContext"]["runAsUser"], 1234, name)
                self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]}, name)

    def test_pods_are_replaced_as_asked_for(self):
        for helm in HELMS:
            stateful, deployment = workload(render(helm))["spec"], workload(render(helm, **REDIS))["spec"]
            self.assertEqual(deployment["strategy"]["rollingUpdate"], {"maxUnavailable": 0, "maxSurge": 1})
            for spec in (stateful, deployment):
                self.assertNotIn("updateStrategy", spec)
                self.assertNotIn("revisionHistoryLimit", spec)
            chosen = {"updateStrategy": {"type": "OnDelete"}, "revisionHistoryLimit": 0}
            stateful = workload(render(helm, **chosen))["spec"]
            self.assertEqual({key: stateful[key] for key in chosen}, chosen)
            chosen = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}}
            deployment = workload(render(helm, updateStrategy=chosen, revisionHistoryLimit=2, **REDIS))["spec"]
            self.assertEqual((deployment["strategy"], deployment["revisionHistoryLimit"]), (chosen, 2))

    def test_a_pod_can_start_and_write(self):
        for values in ({}, {**OPEN, **REDIS}, SECURED):
            pod = pod_of(render("helm4", **values))
            self.assertEqual(pod["securityContext"]["fsGroup"], 65532, "the volume would be root's")
            self.assertIs(pod["enableServiceLinks"], False)
            names = [volume["name"] for volume in pod["volumes"]]
            names += [claim["metadata"]["name"] for claim in claims_of(render("helm4", **values))]
            mounted = [mount["name"] for mount in pod["containers"][0]["volumeMounts"]]
            self.assertEqual(sorted(names), sorted(mounted))

    def test_the_claim_is_as_asked_for(self):
        wanted = {"persistence__size": "20Gi", "persistence__storageClass": "fast"}
        (claim,) = workload(render("helm4", **wanted))["spec"]["volumeClaimTemplates"]
        self.assertEqual(claim["spec"]["storageClassName"], "fast")
        self.assertEqual(claim["spec"]["resources"]["requests"]["storage"], "20Gi")
        volumes = pod_of(render("helm4", persistence__existingClaim="mine"))["volumes"]
        self.assertIn({"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}, volumes)
        (claim,) = claims_of(render("helm4", persistence__annotations={"a": "b"}))
        self.assertEqual(claim["metadata"]["annotations"], {"a": "b"})

    def test_without_persistence_the_volume_goes_with_the_pod(self):
        objects = render("helm4", persistence__enabled=False)
        self.assertNotIn("volumeClaimTemplates", workload(objects)["spec"])
        self.assertIn({"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}, pod_of(objects)["volumes"])

    def test_only_several_replicas_are_spread_and_kept_from_eviction(self):
        several = render("helm4", replicas=2, podDisruptionBudget__maxUnavailable="50%", **OPEN, **REDIS)
        self.assertEqual(one(several, "PodDisruptionBudget")["spec"]["maxUnavailable"], "50%")
        spread = pod_of(several)["topologySpreadConstraints"]
        keys = [constraint["topologyKey"] for constraint in spread]
        self.assertEqual(keys, ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
        for constraint in spread:
            self.assertEqual(constraint["matchLabelKeys"], ["pod-template-hash"], "old pods would count in a roll-out")
            self.assertEqual(constraint["whenUnsatisfiable"], "ScheduleAnyway")
        anti = pod_of(several)["affinity"]["podAntiAffinity"]
        self.assertEqual(list(anti), ["preferredDuringSchedulingIgnoredDuringExecution"], "one node must be enough")
        single = render("helm4", **REDIS)
        self.assertNotIn("affinity", pod_of(single))
        self.assertNotIn("PodDisruptionBudget", kinds(single))
        self.assertNotIn("topologySpreadConstraints", pod_of(single))
        without = render("helm4", replicas=2, podDisruptionBudget__enabled=False, **OPEN, **REDIS)
        self.assertNotIn("PodDisruptionBudget", kinds(without))

    def test_every_selector_finds_the_pods(self):
        values = {"commonLabels": {"team": "a"}, "networkPolicy__enabled": True}
        trial = {"trialValkey__enabled": True}
        for name, store, suffix in (("status", REDIS, ""), ("status", trial, "-valkey"), ("a" * 63, trial, "-valkey")):
            objects = render("helm4", replicas=2, nameOverride=name, **OPEN, **store, **values)
            own = workload(objects)["spec"]["template"]["metadata"]["labels"].items()
            valkey = [made for made in objects if made["kind"] == "Deployment" and suffix and "-valkey" in str(made)]
            other = valkey[-1]["spec"]["template"]["metadata"]["labels"].items() if suffix else ()
            for made in objects:
                self.assertEqual(made["metadata"]["labels"]["team"], "a", made["kind"])
                self.assertEqual(made["metadata"]["namespace"], "prod")
                spec = made.get("spec", {})
                selector = spec.get("selector") or spec.get("podSelector")
                if not selector or made["kind"] == "Pod":
                    continue
                wanted = selector.get("matchLabels", selector).items()
                self.assertEqual(len(wanted), 2)
                of_valkey = suffix and made["metadata"]["name"].endswith(suffix)
                self.assertLessEqual(wanted, other if of_valkey else own)
                self.assertFalse(of_valkey and wanted <= own, "two kinds of pods share a selector")

    def test_probes_ask_the_port_that_knows(self):
        container = container_of(render("helm4", probes__startup__failureThreshold=7, **OPEN))
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.assertEqual(ports, {"grpc": 50051, "metrics": 9090})
        # Clients that take all connections of the port `grpc` must not get the pod killed.
        self.assertEqual(container["livenessProbe"]["httpGet"], {"path": "/livez", "port": "metrics"})
        self.assertEqual(container["startupProbe"]["httpGet"], {"path": "/livez", "port": "metrics"})
        self.assertEqual(container["startupProbe"]["failureThreshold"], 7)
        self.assertEqual(container["readinessProbe"]["httpGet"], {"path": "/readyz", "port": "metrics"})
        for flag, port in (("grpc-listen", ports["grpc"]), ("ops-listen", ports["metrics"])):
            self.assertIn(f"--{flag}=0.0.0.0:{port}", container["args"])

    def test_services_name_their_ports(self):
        wanted = {"grpc": "grpc", "http": "http", "metrics": None}
        objects = render("helm4", service__appProtocol__grpc="grpc", service__appProtocol__http="http", **OPEN)
        service, headless = one(objects, "Service", "wether"), one(objects, "Service", "-headless")
        metrics = one(objects, "Service", "-metrics")
        ports = {port["name"]: port.get("appProtocol") for made in (service, metrics) for port in made["spec"]["ports"]}
        self.assertEqual(ports, wanted)
        self.assertEqual(headless["spec"]["clusterIP"], "None")
        self.assertEqual([port["name"] for port in headless["spec"]["ports"]], ["grpc"])
        web = {port["name"]: port["port"] for port in service["spec"]["ports"]}
        self.assertEqual(web, {"grpc": 50051, "http": 80})
        secured = one(render("helm4", **SECURED), "Service", "wether")
        self.assertEqual(secured["spec"]["ports"][1]["port"], 443)

    def test_a_digest_wins(self):
        digest = f"sha256:{'0' * 64}"
        cases = [
            ({}, f"bellwether:{chart_yaml()['appVersion']}"),
            ({"image__tag": "edge"}, "bellwether:edge"),
            ({"image__registry": "r:5000", "image__repository": "a/b"}, f"r:5000/a/b:{chart_yaml()['appVersion']}"),
            ({"image__tag": "edge", "image__digest": digest}, f"bellwether@{digest}"),
            ({"global__imageRegistry": "mirror"}, f"mirror/bellwether:{chart_yaml()['appVersion']}"),
            ({"global__imageRegistry": "mirror", "image__registry": "r"}, f"r/bellwether:{chart_yaml()['appVersion']}"),
        ]
        for values, expected in cases:
            self.assertEqual(container_of(render("helm4", **values))["image"], expected)

    def test_a_pod_has_time_to_drain(self):
        pod = pod_of(render("helm4", preStopSleepSeconds=5))
        self.assertEqual(pod["containers"][0]["lifecycle"]["preStop"], {"sleep": {"seconds": 5}})
        for kubernetes in ("1.31", "1.37"):
            made = workload(render("helm4", preStopSleepSeconds=5, kubernetes=kubernetes))
            validate(made, kubernetes)
        self.assertGreater(pod["terminationGracePeriodSeconds"], 15)
        self.assertNotIn("lifecycle", container_of(render("helm4")))

    def test_names_are_short_enough_for_what_kubernetes_appends(self):
        for release in ("a" * 53, "status", "bellwether"):
            objects = render("helm4", release=release)
            self.assertLessEqual(len(workload(objects)["metadata"]["name"]), 52)
        self.assertEqual(workload(objects)["metadata"]["name"], "bellwether")

    def test_a_new_version_of_the_chart_changes_nothing_that_cannot_change(self):
        with tempfile.TemporaryDirectory() as folder:
            newer = pathlib.Path(shutil.copytree(CHART, f"{folder}/chart"))
            text = re.sub("(?m)^version: .*", "version: 99.0.0", (CHART / "Chart.yaml").read_text())
            (newer / "Chart.yaml").write_text(text)
            before, after = workload(render("helm4")), workload(render("helm4", chart=newer))
        self.assertNotEqual(before["metadata"]["labels"], after["metadata"]["labels"])
        self.assertEqual(before["spec"], after["spec"], "pods would be restarted, or the upgrade refused")
        labelled = workload(render("helm4", commonLabels={"team": "b"}, podLabels={"a": "b"}))
        for key in ("selector", "volumeClaimTemplates"):
            self.assertEqual(before["spec"][key], labelled["spec"][key])


def claims_of(objects):
    return workload(objects)["spec"].get("volumeClaimTemplates", [])


def kinds(objects):
    return sorted(made["kind"] for made in objects)
