"""Installs the chart on a kube-apiserver: server-side dry runs of every scenario, and the life of a release."""

import copy
import os
import pathlib
import tempfile
import unittest

import cluster
from chart import (
    CHART,
    HELMS,
    OPEN,
    REDIS,
    SCENARIOS,
    SECURED,
    Refused,
    as_json,
    files_of,
    one,
    render,
    reporter_of,
    workload,
    workloads,
)
from server import Server, arguments_in, run

AT = "1.37"  # of tools/go-kube-apiserver


def sets(values):
    return [part for key, value in values.items() for part in ("--set-json", as_json(key, value))]


class InCluster(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not cluster.can_run():
            if os.environ.get("BELLWETHER_CLUSTER"):
                raise AssertionError("kube-apiserver or etcd is missing; tools/install kube says why")
            raise unittest.SkipTest("kube-apiserver is not compiled; make check-long does it")
        cls.cluster = cls.enterClassContext(cluster.Cluster())


class Objects(InCluster):
    def test_the_api_server_takes_every_object_of_every_scenario(self):
        taken = 0
        for values in SCENARIOS:
            for made in render("helm4", "--values", values, kubernetes=AT):
                with self.subTest(values=values.name, kind=made["kind"], name=made["metadata"]["name"]):
                    self.cluster.post(made, dry=True)
                    taken += 1
        self.assertGreater(taken, 100)

    def test_a_namespace_that_enforces_restricted_takes_the_pods(self):
        for values in SCENARIOS:
            for name, pod in workloads(render("helm4", "--values", values, kubernetes=AT)):
                with self.subTest(values=values.name, name=name):
                    self.cluster.post(pod_with(pod), dry=True)

    def test_what_is_wrong_is_refused(self):
        objects = render("helm4", kubernetes=AT)
        (_, good), = workloads(objects)
        for change, expected in (
            (lambda pod: pod["containers"][0]["securityContext"].update(readOnlyRootFilesytem=True), "unknown field"),
            (lambda pod: pod["containers"][0]["ports"][0].update(containerPort=500510), "must be between"),
            (lambda pod: pod["securityContext"].update(runAsNonRoot=False), "violates PodSecurity"),
            (lambda pod: pod["containers"][0]["securityContext"].pop("capabilities"), "violates PodSecurity"),
            (lambda pod: pod.pop("securityContext"), "violates PodSecurity"),
        ):
            pod = copy.deepcopy(good)
            change(pod)
            with self.assertRaisesRegex(cluster.Denied, expected):
                self.cluster.post(pod_with(pod), dry=True)
        values = {"gateway__grpcRoute__enabled": True, "gateway__parentRefs": [{"name": "a"}], **OPEN}
        route = one(render("helm4", **values), "GRPCRoute")
        route["spec"]["rules"][0]["backendRefs"][0]["port"] = 0
        with self.assertRaisesRegex(cluster.Denied, "port"):
            self.cluster.post(route, dry=True)


def pod_with(spec):
    """A pod of its own; the volume that a StatefulSet adds is added here."""
    known = {volume["name"] for volume in spec.get("volumes", [])}
    mounted = {mount["name"] for container in spec["containers"] for mount in container.get("volumeMounts", [])}
    added = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in sorted(mounted - known)]
    spec = {**spec, "volumes": [*spec.get("volumes", []), *added]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "prod"}, "spec": spec}


class Releases(InCluster):
    """Each test has a release of its own, named after it."""

    def setUp(self):
        self.release = self._testMethodName.replace("_", "-")[-40:].strip("-")
        self.full = f"{self.release}-bellwether"
        self.addCleanup(self.uninstall)

    def uninstall(self):
        self.cluster.helm("helm4", "uninstall", self.release, "--ignore-not-found")

    def upgrade(self, helm="helm4", **values):
        # Without `--reset-values` an upgrade without values takes those of before.
        return self.cluster.helm(helm, "upgrade", "--install", "--reset-values", self.release, CHART, *sets(values))

    def refused(self, expected, **values):
        with self.assertRaises(Refused) as refused:
            self.upgrade(**values)
        self.assertIn(expected, str(refused.exception))

    def workload(self, kind):
        return self.cluster.object(kind, self.full, "apps/v1")

    def has(self, kind):
        try:
            return self.workload(kind) is not None
        except cluster.Denied as error:
            self.assertIn("not found", str(error))
            return False

    def test_install_upgrade_rollback_uninstall(self):
        for helm in HELMS:
            with self.subTest(helm=helm):
                store = {"redis__enabled": True, "redis__urlSecret__name": "redis"}
                notes = self.upgrade(helm, **store)
                self.assertIn("The pod serves its own loopback address only", notes)
                self.assertEqual(self.workload("Deployment")["spec"]["replicas"], 1)
                self.upgrade(helm, replicas=3, networkPolicy__enabled=True, preStopSleepSeconds=5, **store, **SECURED)
                made = self.workload("Deployment")["spec"]
                self.assertEqual(made["replicas"], 3)
                container = made["template"]["spec"]["containers"][0]
                self.assertEqual(container["lifecycle"]["preStop"]["sleep"]["seconds"], 5)
                self.assertEqual(container["livenessProbe"]["httpGet"]["scheme"], "HTTPS")
                self.assertNotIn("exec", container["livenessProbe"], "the probe of before was left")
                self.cluster.helm(helm, "rollback", self.release, "1")
                made = self.workload("Deployment")["spec"]
                self.assertEqual(made["replicas"], 1)
                self.assertIn("exec", made["template"]["spec"]["containers"][0]["livenessProbe"])
                self.cluster.helm(helm, "uninstall", self.release)
                self.assertFalse(self.has("Deployment"))

    def test_every_scenario_installs(self):
        for values in SCENARIOS:
            with self.subTest(values=values.name):
                self.cluster.helm("helm4", "install", self.release, CHART, "--values", values)
                self.cluster.helm("helm4", "upgrade", self.release, CHART, "--values", values)
                self.uninstall()

    def test_an_equal_upgrade_restarts_nothing(self):
        for helm in HELMS:
            self.upgrade(helm)
            before = self.workload("StatefulSet")["metadata"]["generation"]
            self.upgrade(helm)
            self.assertEqual(self.workload("StatefulSet")["metadata"]["generation"], before)

    def test_what_is_on_a_claim_is_not_left_behind(self):
        self.upgrade()
        held = f"the statuses of this release are on the claim data-{self.full}-0, which the pods would no longer use"
        self.refused(held, **REDIS)
        self.refused(held, trialValkey__enabled=True)
        self.refused(held, persistence__enabled=False)
        self.refused(held, persistence__existingClaim="other")
        self.assertTrue(self.has("StatefulSet"))
        notes = self.upgrade(leaveDataBehind=True, **REDIS)
        self.assertIn("WARNING: leaveDataBehind is true", notes)
        self.assertFalse(self.has("StatefulSet"))
        in_redis = "the statuses of this release are in Redis, which the pods would no longer use"
        self.refused(in_redis)
        self.assertTrue(self.has("Deployment"))
        self.upgrade(leaveDataBehind=True)
        self.assertTrue(self.has("StatefulSet"))

    def test_a_claim_of_the_user_is_not_left_behind(self):
        self.upgrade(persistence__existingClaim="mine")
        self.refused("are on the claim mine, which", persistence__existingClaim="other")
        self.upgrade(persistence__existingClaim="mine", replicas=0)

    def test_a_pod_without_a_claim_has_nothing_to_leave(self):
        self.upgrade(persistence__enabled=False)
        self.upgrade(**REDIS)
        self.assertTrue(self.has("Deployment"))

    def test_a_claim_that_cannot_change_is_refused_with_a_sentence(self):
        self.upgrade(persistence__size="1.5Gi")
        sentence = "Kubernetes does not let the claim of a StatefulSet change (it has 1536Mi"
        self.refused(sentence, persistence__size="2Gi")
        self.refused(sentence, persistence__size="1.5Gi", persistence__storageClass="fast")
        self.refused(sentence, persistence__size="1.5Gi", persistence__accessModes=["ReadWriteMany"])
        self.refused(sentence, persistence__size="1.5Gi", persistence__annotations={"a": "b"})
        for equal in ("1.5Gi", "1536Mi", "1572864Ki", "1610612736"):
            self.upgrade(persistence__size=equal)

    def test_services_come_with_the_protection(self):
        def services():
            made = self.cluster.get("/api/v1/namespaces/prod/services")["items"]
            return sorted(one["metadata"]["name"] for one in made if one["metadata"]["name"].startswith(self.full))

        for helm in HELMS:
            self.upgrade(helm)
            self.assertEqual(services(), [])
            self.upgrade(helm, trial__enabled=True)
            self.assertEqual(services(), [self.full, f"{self.full}-headless", f"{self.full}-metrics"])
            self.upgrade(helm)
            self.assertEqual(services(), [])

    def secrets(self):
        """The secrets of a trial as the cluster has them."""
        return [self.cluster.object("Secret", f"{self.full}-trial-{of}") for of in ("server", "client", "operator")]

    def test_a_second_pod_reports_to_a_trial(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        notes = self.upgrade(trial__enabled=True)
        maps = [self.cluster.object("ConfigMap", f"{self.full}-{name}") for name in ("config", "access")]
        stateful = self.workload("StatefulSet")
        objects = [stateful, *maps, *self.secrets()]
        files = files_of(objects)
        # The namespace enforces "restricted", so this is a pod that it takes.
        pod = self.cluster.post(reporter_of(notes))
        self.addCleanup(self.cluster.call, "DELETE", f"{self.cluster.path(pod)}/{pod['metadata']['name']}")
        (container,) = self.cluster.object("Pod", f"{self.full}-reporter")["spec"]["containers"]
        # No kubelet runs here, so the test follows the service, and starts both programs with what the cluster has.
        address = {variable["name"]: variable["value"] for variable in container["env"]}["BELLWETHER_SERVER"]
        service = self.cluster.object("Service", self.full)
        self.assertEqual(address, f"https://{self.full}.prod.svc:50051")
        self.assertIn(50051, [port["port"] for port in service["spec"]["ports"]])
        labels = stateful["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(service["spec"]["selector"].items(), labels.items())
        _, *arguments = arguments_in(objects, f"{folder}/server")
        listening = [argument for argument in arguments if "-listen=" in argument]
        self.assertEqual(listening, ["--grpc-listen=0.0.0.0:50051", "--ops-listen=0.0.0.0:9090"])
        with Server(*(argument for argument in arguments if argument not in listening)) as server:
            server.run_as_pod(pod["spec"], files, f"{folder}/reporter")
            credentials = pathlib.Path(folder, "people")
            credentials.mkdir()
            for name, text in files[f"{self.full}-trial-operator"].items():
                (credentials / name).write_text(text)
            at = ("--server", f"https://{server.addresses['grpc']}", "--ca", credentials / "ca.crt")
            code, text = run(*at, "--token-file", credentials / "token", "why", "hello")
            self.assertEqual(code, 0, text)
            self.assertIn("from a second pod", text)
            self.assertNotEqual(run(*at, "why", "hello")[0], 0, "a stranger reads")

    def test_a_trial_keeps_its_credentials_until_they_end(self):
        def contents():
            return [made["data"] for made in self.secrets()]

        for helm in HELMS:
            self.upgrade(helm, trial__enabled=True)
            first = contents()
            self.upgrade(helm, trial__enabled=True)
            self.upgrade(helm, trial__enabled=True, settings__log="warn")
            self.assertEqual(contents(), first)
            for made in self.secrets():
                made["metadata"]["annotations"]["bellwether/ends"] = "2026-01-01T00:00:00Z"
                self.cluster.apply_as_helm(made)
            self.upgrade(helm, trial__enabled=True)
            second = contents()
            self.cluster.call("DELETE", f"{self.cluster.path(made)}/{made['metadata']['name']}")
            self.upgrade(helm, trial__enabled=True)
            for before, after in ((first, second), (second, contents())):
                for old, new in zip(before, after, strict=True):
                    self.assertEqual([key for key in old if old[key] == new[key]], [], "one of before is left")
            self.uninstall()
            with self.assertRaisesRegex(cluster.Denied, "not found"):
                self.secrets()

    def test_secrets_of_a_trial_may_come_from_a_rendering(self):
        rendered = render("helm4", "--set", f"fullnameOverride={self.full}", release=self.release, trial__enabled=True)
        made = [self.cluster.post(one) for one in rendered if one["kind"] == "Secret"]
        for helm in HELMS:
            self.upgrade(helm, trial__enabled=True, trial__makeSecrets=False)
            self.upgrade(helm, trial__enabled=True, trial__makeSecrets=False, settings__log="warn")
            self.uninstall()
            kept = [self.cluster.object("Secret", one["metadata"]["name"])["data"] for one in made]
            self.assertEqual(kept, [one["data"] for one in made])
        for one in made:
            self.cluster.call("DELETE", f"{self.cluster.path(one)}/{one['metadata']['name']}")
        self.upgrade(trial__enabled=True)
        sentence = "trial.makeSecrets is false, but this release has made the secrets, so Helm would delete them"
        self.refused(sentence, trial__enabled=True, trial__makeSecrets=False)
        self.assertEqual(len(self.secrets()), 3)

    def test_a_new_password_of_redis_restarts_the_pods(self):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "redis"}}
        made = self.cluster.post({**secret, "stringData": {"url": "redis://a"}})
        path = f"{self.cluster.path(secret)}/redis"
        self.addCleanup(self.cluster.call, "DELETE", path)
        self.upgrade(**REDIS)
        before = self.workload("Deployment")["metadata"]["generation"]
        self.upgrade(**REDIS)
        self.assertEqual(self.workload("Deployment")["metadata"]["generation"], before)
        self.cluster.call("PUT", path, {**made, "data": {"url": "cmVkaXM6Ly9i"}})
        self.upgrade(**REDIS)
        self.assertGreater(self.workload("Deployment")["metadata"]["generation"], before)
        annotations = self.workload("Deployment")["spec"]["template"]["metadata"]["annotations"]
        self.assertRegex(annotations["checksum/secret"], "^[0-9a-f]{64}$")
