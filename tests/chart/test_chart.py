"""Holds the objects that the chart makes to what it promises, and to the schemas of several Kubernetes versions."""

import pathlib
import re
import shutil
import tempfile
import unittest

import kubernetes_validate
from chart import (
    CHART,
    DATA,
    HELMS,
    KUBERNETES,
    REDIS,
    SCENARIOS,
    chart_yaml,
    container_of,
    default_values,
    one,
    pod_of,
    render,
    run,
    workload,
)


class Scenarios(unittest.TestCase):
    """What ci/ has, rendered everywhere."""

    def test_lint_has_nothing_to_say(self):
        for helm in HELMS:
            for values in SCENARIOS:
                with self.subTest(helm=helm, values=values.name):
                    run(helm, "lint", "--strict", CHART, "--values", values, "--kube-version", "1.34.0")

    def test_every_object_is_what_kubernetes_takes(self):
        self.assertGreaterEqual(len(SCENARIOS), 5)
        for kubernetes in KUBERNETES:
            for values in SCENARIOS:
                with self.subTest(kubernetes=kubernetes, values=values.name):
                    objects = render("helm4", "--values", values, kubernetes=kubernetes)
                    self.assertGreaterEqual(len(objects), 3)
                    for made in objects:
                        kubernetes_validate.validate(made, kubernetes, strict=True)
                    older = render("helm3", "--values", values, kubernetes=kubernetes)
                    self.assertEqual(objects, older, "Helm 3 renders something else")

    def test_a_wrong_object_would_be_seen(self):
        deployment = workload(render("helm4", **REDIS))
        container = deployment["spec"]["template"]["spec"]["containers"][0]
        container["readinessProb"] = container.pop("readinessProbe")
        for kubernetes in KUBERNETES:
            with self.assertRaisesRegex(kubernetes_validate.ValidationError, "readinessProb"):
                kubernetes_validate.validate(deployment, kubernetes, strict=True)

    def test_pods_are_restricted(self):
        for values in SCENARIOS:
            with self.subTest(values=values.name):
                self.assertEqual(unrestricted(pod_of(render("helm4", "--values", values))), [])

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


GUARDED = {
    "automountServiceAccountToken", "runAsNonRoot", "runAsUser", "runAsGroup", "seccompProfile",
    "allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities",
}  # fmt: skip


def unrestricted(pod):
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
            "runAsUser": both.get("runAsUser") == 65532,
            "runAsGroup": both.get("runAsGroup") == 65532,
            "seccompProfile": both.get("seccompProfile") == {"type": "RuntimeDefault"},
            "allowPrivilegeEscalation": own.get("allowPrivilegeEscalation") is False,
            "privileged": not own.get("privileged"),
            "readOnlyRootFilesystem": own.get("readOnlyRootFilesystem") is True,
            "capabilities": own.get("capabilities") == {"drop": ["ALL"]},
        }
        wrong += [f"{container['name']}: {key}" for key, holds in expected.items() if not holds]
    return wrong


class Objects(unittest.TestCase):
    def test_the_embedded_store_is_one_pod_with_a_claim(self):
        objects = render("helm4")
        self.assertEqual(kinds(objects), ["Service", "Service", "StatefulSet"])
        stateful = workload(objects)
        self.assertEqual(stateful["spec"]["replicas"], 1)
        self.assertEqual(stateful["spec"]["serviceName"], "test-bellwether-headless")
        (claim,) = stateful["spec"]["volumeClaimTemplates"]
        self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOnce"])
        self.assertEqual(claim["spec"]["resources"], {"requests": {"storage": "1Gi"}})
        self.assertNotIn("storageClassName", claim["spec"])
        container = container_of(objects)
        self.assertEqual(container["volumeMounts"], [{"name": claim["metadata"]["name"], "mountPath": DATA}])
        self.assertIn(f"--data-dir={DATA}", container["args"])
        self.assertNotIn("env", container)

    def test_a_pod_can_start_and_write(self):
        for values in ({}, REDIS):
            pod = pod_of(render("helm4", **values))
            self.assertIn("--insecure", pod["containers"][0]["args"], "it would refuse to listen on the pod's address")
            self.assertEqual(pod["securityContext"]["fsGroup"], 65532, "the volume would be root's")
            self.assertIs(pod["enableServiceLinks"], False)

    def test_the_claim_is_as_asked_for(self):
        wanted = {"persistence__size": "20Gi", "persistence__storageClass": "fast"}
        (claim,) = workload(render("helm4", **wanted))["spec"]["volumeClaimTemplates"]
        self.assertEqual(claim["spec"]["storageClassName"], "fast")
        self.assertEqual(claim["spec"]["resources"]["requests"]["storage"], "20Gi")
        volumes = pod_of(render("helm4", persistence__existingClaim="mine"))["volumes"]
        self.assertEqual(volumes, [{"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}])

    def test_without_persistence_the_volume_goes_with_the_pod(self):
        objects = render("helm4", persistence__enabled=False)
        self.assertNotIn("volumeClaimTemplates", workload(objects)["spec"])
        self.assertEqual(pod_of(objects)["volumes"], [{"name": "data", "emptyDir": {"sizeLimit": "1Gi"}}])

    def test_replicas_share_redis_by_a_secret(self):
        objects = render("helm4", replicas=3, redis__existingSecret__key="uri", **REDIS)
        self.assertEqual(kinds(objects), ["Deployment", "PodDisruptionBudget", "Service", "Service"])
        self.assertEqual(workload(objects)["spec"]["replicas"], 3)
        self.assertEqual(workload(objects)["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0)
        container = container_of(objects)
        secret = {"secretKeyRef": {"name": "redis", "key": "uri"}}
        self.assertEqual(container["env"], [{"name": "BELLWETHER_STORE", "valueFrom": secret}])
        self.assertFalse([argument for argument in container["args"] if re.match("--(store|data-dir)", argument)])
        self.assertNotIn("volumes", pod_of(objects))
        self.assertNotIn("volumeMounts", container)

    def test_only_several_replicas_are_spread_and_kept_from_eviction(self):
        several = render("helm4", replicas=2, podDisruptionBudget__maxUnavailable="50%", **REDIS)
        self.assertEqual(one(several, "PodDisruptionBudget")["spec"]["maxUnavailable"], "50%")
        spread = pod_of(several)["topologySpreadConstraints"]
        keys = [constraint["topologyKey"] for constraint in spread]
        self.assertEqual(keys, ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
        for constraint in spread:
            self.assertEqual(constraint["matchLabelKeys"], ["pod-template-hash"], "old pods would count in a roll-out")
            self.assertEqual(constraint["whenUnsatisfiable"], "ScheduleAnyway")
        single = render("helm4", **REDIS)
        self.assertNotIn("PodDisruptionBudget", kinds(single))
        self.assertNotIn("topologySpreadConstraints", pod_of(single))
        without = render("helm4", replicas=2, podDisruptionBudget__enabled=False, **REDIS)
        self.assertNotIn("PodDisruptionBudget", kinds(without))

    def test_every_selector_finds_the_pods(self):
        objects = render("helm4", replicas=2, nameOverride="status", commonLabels={"team": "a"}, **REDIS)
        labels = workload(objects)["spec"]["template"]["metadata"]["labels"].items()
        for made in objects:
            selector = made["spec"]["selector"]
            wanted = selector.get("matchLabels", selector).items()
            self.assertEqual(len(wanted), 2)
            self.assertLessEqual(wanted, labels)
            self.assertEqual(made["metadata"]["labels"]["team"], "a")
            self.assertEqual(made["metadata"]["namespace"], "prod")

    def test_probes_ask_the_port_that_knows(self):
        container = container_of(render("helm4", probes__startup__failureThreshold=7))
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
        objects = render("helm4", service__appProtocol__grpc="grpc", service__annotations={"a": "b"})
        service, headless = one(objects, "Service", "wether"), one(objects, "Service", "-headless")
        ports = {port["name"]: port.get("appProtocol") for port in service["spec"]["ports"]}
        self.assertEqual(ports, {"grpc": "grpc", "metrics": None})
        self.assertEqual(service["metadata"]["annotations"], {"a": "b"})
        self.assertEqual(headless["spec"]["clusterIP"], "None")
        self.assertEqual([port["name"] for port in headless["spec"]["ports"]], ["grpc"])

    def test_a_digest_wins(self):
        digest = f"sha256:{'0' * 64}"
        cases = [
            ({}, f"bellwether:{chart_yaml()['appVersion']}"),
            ({"image__tag": "edge"}, "bellwether:edge"),
            ({"image__registry": "r:5000", "image__repository": "a/b"}, f"r:5000/a/b:{chart_yaml()['appVersion']}"),
            ({"image__tag": "edge", "image__digest": digest}, f"bellwether@{digest}"),
        ]
        for values, expected in cases:
            self.assertEqual(container_of(render("helm4", **values))["image"], expected)

    def test_a_pod_has_time_to_drain(self):
        pod = pod_of(render("helm4", preStopSleepSeconds=5))
        self.assertEqual(pod["containers"][0]["lifecycle"]["preStop"], {"sleep": {"seconds": 5}})
        for kubernetes in ("1.31", "1.37"):
            made = workload(render("helm4", preStopSleepSeconds=5, kubernetes=kubernetes))
            kubernetes_validate.validate(made, kubernetes, strict=True)
        self.assertGreater(pod["terminationGracePeriodSeconds"], 15)
        self.assertNotIn("lifecycle", container_of(render("helm4")))

    def test_what_the_user_adds_is_there(self):
        added = {
            "extraEnv": [{"name": "A", "value": "1"}],
            "resources": {"limits": {"cpu": "1"}},
            "podAnnotations": {"a": "true"},
            "nodeSelector": {"disk": "1"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAffinity": {}},
            "priorityClassName": "high",
            "imagePullSecrets": [{"name": "registry"}],
            "topologySpreadConstraints": [{"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        }
        objects = render("helm4", **added)
        pod, container = pod_of(objects), container_of(objects)
        self.assertEqual(container["env"], added["extraEnv"])
        self.assertEqual(container["resources"]["limits"]["cpu"], "1")
        self.assertEqual(workload(objects)["spec"]["template"]["metadata"]["annotations"], added["podAnnotations"])
        for key in added.keys() - {"extraEnv", "resources", "podAnnotations"}:
            self.assertEqual(pod[key], added[key], key)

    def test_every_value_changes_something(self):
        # What the value is changed to, and what must be set beside it.
        changed = {
            "nameOverride": ("other", {}), "fullnameOverride": ("other", {}), "commonLabels": ({"a": "b"}, {}),
            "image.registry": ("r", {}), "image.repository": ("r", {}), "image.tag": ("t", {}),
            "image.digest": (f"sha256:{'0' * 64}", {}), "image.pullPolicy": ("Never", {}),
            "imagePullSecrets": ([{"name": "a"}], {}), "replicas": (0, {}),
            "persistence.enabled": (False, {}), "persistence.size": ("2Gi", {}),
            "persistence.storageClass": ("a", {}), "persistence.accessModes": (["ReadWriteOncePod"], {}),
            "persistence.existingClaim": ("a", {}),
            "redis.enabled": (True, {"redis__existingSecret__name": "a"}),
            "redis.existingSecret.name": ("b", REDIS), "redis.existingSecret.key": ("b", REDIS),
            "listenAddress": ("[::]", {}), "extraEnv": ([{"name": "A"}], {}),
            "service.annotations": ({"a": "b"}, {}), "service.appProtocol.grpc": ("a", {}),
            "service.appProtocol.metrics": ("a", {}), "resources": ({"limits": {"cpu": "9"}}, {}),
            "probes.liveness": ({"periodSeconds": 99}, {}), "probes.readiness": ({"periodSeconds": 99}, {}),
            "probes.startup": ({"periodSeconds": 99}, {}), "terminationGracePeriodSeconds": (99, {}),
            "preStopSleepSeconds": (1, {}), "podDisruptionBudget.enabled": (False, {**REDIS, "replicas": 2}),
            "podDisruptionBudget.maxUnavailable": (2, {**REDIS, "replicas": 3}), "podAnnotations": ({"a": "b"}, {}),
            "topologySpreadConstraints": ([{"topologyKey": "a"}], {}), "nodeSelector": ({"a": "b"}, {}),
            "tolerations": ([{"key": "a"}], {}), "affinity": ({"podAffinity": {}}, {}), "priorityClassName": ("a", {}),
        }  # fmt: skip
        self.assertEqual(list(changed), list(leaves(default_values())))
        for path, (value, beside) in changed.items():
            before = {} if path == "redis.enabled" else beside
            after = {**beside, path.replace(".", "__"): value}
            self.assertNotEqual(render("helm4", **before), render("helm4", **after), path)

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
        labelled = workload(render("helm4", commonLabels={"team": "b"}))
        for key in ("selector", "volumeClaimTemplates"):
            self.assertEqual(before["spec"][key], labelled["spec"][key])


def leaves(values, path=()):
    """Paths of the values that have a comment: the listing of the README refuses any other."""
    for key, value in values.items():
        here = (*path, key)
        if isinstance(value, dict) and value and key not in ("resources", "liveness", "readiness", "startup"):
            yield from leaves(value, here)
        else:
            yield ".".join(here)


def kinds(objects):
    return sorted(made["kind"] for made in objects)
