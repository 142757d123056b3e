"""Holds each value of the chart to doing something, and what users add to being in the objects."""

import unittest

from chart import OPEN, REDIS, SECURED, container_of, default_values, one, pod_of, render, workload, workloads

SCRAPED = {**OPEN, "serviceMonitor__enabled": True}
POD_SCRAPED = {**OPEN, "podMonitor__enabled": True}
RULED = {"prometheusRule__enabled": True}
CERTIFIED = {**{k: v for k, v in SECURED.items() if k != "tls__existingSecret"}, "tls__certManager__enabled": True,
             "tls__certManager__issuerRef__name": "i"}  # fmt: skip
HOSTED = {**OPEN, "redis__enabled": True, "redis__host": "r"}
LOADED = {**OPEN, "service__type": "LoadBalancer"}
NODES = {**OPEN, "service__type": "NodePort"}
HTTP = {**OPEN, "ingress__http__enabled": True, "ingress__http__hosts": ["a"]}
GRPC = {**OPEN, "ingress__grpc__enabled": True, "ingress__grpc__hosts": ["a"]}
PARENTS = {**OPEN, "gateway__parentRefs": [{"name": "g"}]}
SCALED = {**OPEN, **REDIS, "autoscaling__enabled": True}
POLICY = {**OPEN, "networkPolicy__enabled": True}
TRIAL = {"trialValkey__enabled": True}
CLIENTS = {"tls__existingSecret": "tls", "tls__clientCA__secret": "ca", "auth__roles__secret": "roles"}
ACCOUNTS = {"tls__existingSecret": "tls", "auth__serviceAccounts__jwks": "{}", "auth__roles__secret": "roles"}
ACCOUNT_FILE = {"tls__existingSecret": "tls", "auth__serviceAccounts__configMap": "c", "auth__roles__secret": "roles"}
BACKED = {**SECURED, "gateway__backendTLSPolicy__enabled": True, "gateway__backendTLSPolicy__caConfigMap": "c"}
CLUSTER_KEYS = {**SECURED, "auth__serviceAccounts__enabled": True}
GRANT = {"role": "reader", "to": ["token:a"], "namespace": "*", "application": "*"}
SECURE_SCRAPE = {**SECURED, "serviceMonitor__enabled": True, "scrape__tokenSecret__name": "t"}
TESTED = {**SECURED, "helmTest__tokenSecret": "t"}
RELAYING = {**SECURED, "relay__enabled": True, "relay__tokenSecret": "t"}
NOTIFYING = {**SECURED, "notify__enabled": True, "notify__tokenSecret": "t"}

# What each value is changed to, and what must be set beside it. No entry may be missing.
CHANGES = {
    "nameOverride": ("other", {}), "fullnameOverride": ("other", {}), "namespaceOverride": ("other", {}),
    "commonLabels": ({"a": "b"}, {}), "commonAnnotations": ({"a": "b"}, {}),
    "image.registry": ("r", {}), "image.repository": ("r", {}), "image.tag": ("t", {}),
    "image.digest": (f"sha256:{'0' * 64}", {}), "image.pullPolicy": ("Never", {}),
    "imagePullSecrets": ([{"name": "a"}], {}), "replicas": (0, {}),
    "autoscaling.enabled": (True, {**OPEN, **REDIS}), "autoscaling.minReplicas": (3, SCALED),
    "autoscaling.maxReplicas": (7, SCALED), "autoscaling.targetCPUUtilizationPercentage": (50, SCALED),
    "autoscaling.targetMemoryUtilizationPercentage": (50, SCALED),
    "autoscaling.behavior": ({"scaleUp": {"stabilizationWindowSeconds": 1}}, SCALED),
    "trial.enabled": (True, {}), "trial.makeSecrets": (False, {"trial__enabled": True}),
    "insecure": (True, {}), "tls.existingSecret": ("other", SECURED), "tls.certManager.enabled": (True, None),
    "tls.certManager.issuerRef.name": ("j", CERTIFIED), "tls.certManager.issuerRef.kind": ("ClusterIssuer", CERTIFIED),
    "tls.certManager.issuerRef.group": ("example.com", CERTIFIED), "tls.certManager.duration": ("24h", CERTIFIED),
    "tls.certManager.renewBefore": ("8h", CERTIFIED), "tls.certManager.dnsNames": (["a.example.com"], CERTIFIED),
    "tls.clientCA.secret": ("b", CLIENTS), "tls.clientCA.configMap": ("b", None),
    "tls.clientCA.key": ("b", CLIENTS), "tls.clientCertificates": ("optional", CLIENTS),
    "tls.ops": (False, {**OPEN, "tls__existingSecret": "tls"}), "auth.tokens.secret": ("b", SECURED),
    "auth.tokens.key": ("b", SECURED), "auth.serviceAccounts.jwks": ("{}", SECURED),
    "auth.serviceAccounts.enabled": (True, SECURED),
    "auth.serviceAccounts.configMap": ("b", SECURED), "auth.serviceAccounts.key": ("b", ACCOUNT_FILE),
    "auth.serviceAccounts.issuer": ("https://a", ACCOUNTS), "auth.serviceAccounts.audience": ("a", ACCOUNTS),
    "auth.serviceAccounts.name": ("a", ACCOUNTS),
    "auth.jwt": ([{"name": "a", "issuer": "b", "audience": "c", "configMap": "d", "key": "e"}], SECURED),
    "auth.grants": ([GRANT], None), "auth.roles.configMap": ("b", None),
    "auth.roles.secret": ("b", SECURED), "auth.roles.key": ("b", SECURED),
    "persistence.enabled": (False, {}), "persistence.size": ("2Gi", {}), "persistence.storageClass": ("a", {}),
    "persistence.accessModes": (["ReadWriteOncePod"], {}), "persistence.annotations": ({"a": "b"}, {}),
    "persistence.existingClaim": ("a", {}), "leaveDataBehind": (True, None),
    "redis.enabled": (True, None), "redis.urlSecret.name": ("b", REDIS), "redis.urlSecret.key": ("b", REDIS),
    "redis.url": ("redis://a", None), "redis.host": ("b", HOSTED), "redis.port": (1, HOSTED),
    "redis.database": (1, HOSTED), "redis.username": ("u", {**HOSTED, "redis__passwordSecret__name": "a"}),
    "redis.passwordSecret.name": ("b", HOSTED),
    "redis.passwordSecret.key": ("b", {**HOSTED, "redis__passwordSecret__name": "a"}),
    "redis.tls.enabled": (True, HOSTED), "redis.tls.caSecret": ("b", {**HOSTED, "redis__tls__enabled": True}),
    "redis.tls.caKey": ("b", {**HOSTED, "redis__tls__enabled": True, "redis__tls__caSecret": "a"}),
    "redis.tls.certificateSecret": ("b", {**HOSTED, "redis__tls__enabled": True}),
    "redis.durability": ("replicated:1", HOSTED), "redis.prefix": ("eu-1", HOSTED),
    "redis.buckets": (128, HOSTED), "trialValkey.enabled": (True, {}),
    "trialValkey.image.registry": ("r", TRIAL), "trialValkey.image.repository": ("r", TRIAL),
    "trialValkey.image.tag": ("t", TRIAL), "trialValkey.image.digest": (f"sha256:{'0' * 64}", TRIAL),
    "trialValkey.resources": ({"limits": {"cpu": "9"}}, TRIAL), "settings.drainDeadlineSeconds": (11, {}),
    "settings.limits": ({"connections_max": 5}, {}), "settings.history": ({"events_max": 5}, {}),
    "settings.sessions": ({"sessions_max": 5}, {}), "settings.faults": ({"soft_count": 2}, {}),
    "settings.errorRules": ("a", {}), "settings.allowedOrigins": (["https://a"], {}), "settings.log": ("warn", {}),
    "settings.pageName": ("shop-eu", {}),
    "settings.reflection": (False, {}),
    "otlp.endpoint": ("http://a:4317", {}), "otlp.headersSecret.name": ("a", {}),
    "otlp.headersSecret.key": ("b", {"otlp__headersSecret__name": "a"}), "otlp.sampler": ("always_on", {}),
    "otlp.samplerArgument": ("0.1", {}), "otlp.resourceAttributes": ({"a": "b"}, {}),
    "listenAddress": ("[::]", OPEN), "extraArgs": (["--print-addresses=json"], {}), "extraEnv": ([{"name": "A"}], {}),
    "extraEnvFrom": ([{"secretRef": {"name": "a"}}], {}), "extraVolumes": ([{"name": "a", "emptyDir": {}}], {}),
    "extraVolumeMounts": ([{"name": "a", "mountPath": "/a"}], {}),
    "initContainers": ([{"name": "a", "image": "a"}], {}), "sidecars": ([{"name": "a", "image": "a"}], {}),
    "extraObjects": ([{"kind": "ConfigMap", "metadata": {"name": "{{ .Release.Name }}"}}], {}),
    "serviceAccount.create": (False, {}), "serviceAccount.name": ("a", {}),
    "serviceAccount.annotations": ({"a": "b"}, {}),
    "service.type": ("NodePort", OPEN), "service.annotations": ({"a": "b"}, OPEN),
    "service.appProtocol.grpc": ("a", OPEN),
    "service.appProtocol.http": ("a", OPEN), "service.appProtocol.metrics": ("a", OPEN),
    "service.nodePorts.grpc": (30001, NODES), "service.nodePorts.http": (30002, NODES),
    "service.loadBalancerClass": ("a", LOADED), "service.loadBalancerSourceRanges": (["10.0.0.0/8"], LOADED),
    "service.sessionAffinity": ("ClientIP", OPEN),
    "service.externalTrafficPolicy": ("Local", LOADED), "service.ipFamilyPolicy": ("PreferDualStack", OPEN),
    "service.ipFamilies": (["IPv6"], OPEN), "service.trafficDistribution": ("PreferClose", OPEN),
    "ingress.http.enabled": (True, {**OPEN, "ingress__http__hosts": ["a"]}), "ingress.http.className": ("a", HTTP),
    "ingress.http.annotations": ({"a": "b"}, HTTP), "ingress.http.hosts": (["b"], HTTP),
    "ingress.http.tls": ([{"hosts": ["a"]}], HTTP),
    "ingress.grpc.enabled": (True, {**OPEN, "ingress__grpc__hosts": ["a"]}), "ingress.grpc.className": ("a", GRPC),
    "ingress.grpc.annotations": ({"a": "b"}, GRPC), "ingress.grpc.hosts": (["b"], GRPC),
    "ingress.grpc.tls": ([{"hosts": ["a"]}], GRPC),
    "gateway.parentRefs": ([{"name": "h"}], {**PARENTS, "gateway__grpcRoute__enabled": True}),
    "gateway.grpcRoute.enabled": (True, PARENTS),
    "gateway.grpcRoute.annotations": ({"a": "b"}, {**PARENTS, "gateway__grpcRoute__enabled": True}),
    "gateway.grpcRoute.hostnames": (["a"], {**PARENTS, "gateway__grpcRoute__enabled": True}),
    "gateway.httpRoute.enabled": (True, PARENTS),
    "gateway.httpRoute.annotations": ({"a": "b"}, {**PARENTS, "gateway__httpRoute__enabled": True}),
    "gateway.httpRoute.hostnames": (["a"], {**PARENTS, "gateway__httpRoute__enabled": True}),
    "gateway.backendTLSPolicy.enabled": (True, {**SECURED, "gateway__backendTLSPolicy__caConfigMap": "c"}),
    "gateway.backendTLSPolicy.caConfigMap": ("d", BACKED), "networkPolicy.enabled": (True, {}),
    "networkPolicy.clients": ([{"podSelector": {}}], POLICY), "networkPolicy.scrapers": ([{"podSelector": {}}], POLICY),
    "networkPolicy.redisPorts": ([1], {**POLICY, **REDIS}),
    "networkPolicy.otlpPorts": ([1], {**POLICY, "otlp__endpoint": "http://a"}),
    "networkPolicy.issuerPorts": ([1], {**CLUSTER_KEYS, "networkPolicy__enabled": True}),
    "networkPolicy.extraIngress": ([{"ports": [{"port": 1}]}], POLICY),
    "networkPolicy.extraEgress": ([{"ports": [{"port": 1}]}], POLICY),
    "resources": ({"limits": {"cpu": "9"}}, {}), "probes.liveness": ({"periodSeconds": 99}, {}),
    "probes.readiness": ({"periodSeconds": 99}, {}), "probes.startup": ({"periodSeconds": 99}, {}),
    "terminationGracePeriodSeconds": (99, {}), "preStopSleepSeconds": (1, {}),
    "podDisruptionBudget.enabled": (False, {**OPEN, **REDIS, "replicas": 2}),
    "podDisruptionBudget.maxUnavailable": (2, {**OPEN, **REDIS, "replicas": 3}),
    "podSecurityContext": ({"runAsUser": 7}, {}), "securityContext": ({"runAsUser": 7}, {}),
    "updateStrategy": ({"type": "OnDelete"}, {}), "revisionHistoryLimit": (0, {}),
    "annotations": ({"a": "b"}, {}), "podAnnotations": ({"a": "b"}, {}), "podLabels": ({"a": "b"}, {}),
    "topologySpreadConstraints": ([{"topologyKey": "a"}], {}), "nodeSelector": ({"a": "b"}, {}),
    "tolerations": ([{"key": "a"}], {}), "affinity": ({"podAffinity": {}}, {}), "priorityClassName": ("a", {}),
    "runtimeClassName": ("a", {}), "schedulerName": ("a", {}), "hostAliases": ([{"ip": "1.1.1.1"}], {}),
    "dnsPolicy": ("Default", {}), "dnsConfig": ({"searches": ["a"]}, {}),
    **{f"serviceMonitor.{key}": (value, SCRAPED) for key, value in (
        ("enabled", False), ("namespace", "a"), ("labels", {"a": "b"}), ("interval", "9s"), ("scrapeTimeout", "8s"),
        ("relabelings", [{"action": "drop"}]), ("metricRelabelings", [{"action": "drop"}]))},
    **{f"podMonitor.{key}": (value, POD_SCRAPED) for key, value in (
        ("enabled", False), ("namespace", "a"), ("labels", {"a": "b"}), ("interval", "9s"), ("scrapeTimeout", "8s"),
        ("relabelings", [{"action": "drop"}]), ("metricRelabelings", [{"action": "drop"}]))},
    "scrape.tokenSecret.name": ("u", SECURE_SCRAPE), "scrape.tokenSecret.key": ("b", SECURE_SCRAPE),
    "scrape.tlsConfig": ({"insecureSkipVerify": True}, SECURE_SCRAPE), "prometheusRule.enabled": (True, {}),
    "prometheusRule.namespace": ("a", RULED), "prometheusRule.labels": ({"a": "b"}, RULED),
    "prometheusRule.runbookURL": ("https://a", RULED), "prometheusRule.alertLabels": ({"a": "b"}, RULED),
    "prometheusRule.alerts": ({"BellwetherDown": {"enabled": False}}, RULED),
    "prometheusRule.extraRules": ([{"record": "a", "expr": "b"}], RULED), "dashboard.enabled": (True, {}),
    "dashboard.namespace": ("a", {"dashboard__enabled": True}),
    "dashboard.labels": ({"a": "b"}, {"dashboard__enabled": True}),
    "dashboard.annotations": ({"a": "b"}, {"dashboard__enabled": True}), "helmTest.enabled": (False, OPEN),
    "helmTest.namespace": ("a", OPEN), "helmTest.application": ("a", OPEN), "helmTest.tokenSecret": ("a", SECURED),
    "helmTest.tokenKey": ("b", TESTED), "helmTest.certificateSecret": ("a", SECURED),
    "helmTest.caSecret": ("a", TESTED), "notify.enabled": (True, {}), "notify.config": ("a = 1", NOTIFYING),
    "notify.replicas": (3, NOTIFYING), "notify.receiversSecret": ("a", NOTIFYING),
    "notify.tokenSecret": ("a", NOTIFYING), "notify.tokenKey": ("b", NOTIFYING), "notify.caSecret": ("a", NOTIFYING),
    "notify.resources": ({"limits": {"cpu": "9"}}, NOTIFYING), "relay.enabled": (True, OPEN),
    "relay.otherUpstreams": (["https://us.example.com:50051"], RELAYING),
    "relay.replicas": (3, RELAYING), "relay.namespaces": (["prod"], RELAYING), "relay.tokenSecret": ("a", RELAYING),
    "relay.tokenKey": ("b", RELAYING), "relay.caSecret": ("a", RELAYING),
    "relay.resources": ({"limits": {"cpu": "9"}}, RELAYING),
}  # fmt: skip
# Values that work only together with others, or with a cluster; other tests have them.
ELSEWHERE = {path for path, (_, beside) in CHANGES.items() if beside is None}


class Values(unittest.TestCase):
    def test_every_value_changes_something(self):
        self.assertEqual(set(CHANGES), set(leaves(default_values())))
        known = {
            "tls.certManager.enabled", "tls.clientCA.configMap", "auth.grants", "auth.roles.configMap",
            "leaveDataBehind", "redis.enabled", "redis.url",
        }  # fmt: skip
        self.assertEqual(ELSEWHERE, known)
        for path in CHANGES.keys() - ELSEWHERE:
            value, beside = CHANGES[path]
            with self.subTest(path=path):
                after = {**beside, path.replace(".", "__"): value}
                self.assertNotEqual(render("helm4", **beside), render("helm4", **after))

    def test_what_the_user_adds_is_there(self):
        added = {
            "extraEnv": [{"name": "A", "value": "1"}],
            "extraEnvFrom": [{"configMapRef": {"name": "a"}}],
            "resources": {"limits": {"cpu": "1"}},
            "podAnnotations": {"a": "true"},
            "podLabels": {"b": "true"},
            "annotations": {"reloader.stakater.com/auto": "true"},
            "nodeSelector": {"disk": "1"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAffinity": {}},
            "priorityClassName": "high",
            "runtimeClassName": "gvisor",
            "schedulerName": "own",
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["10.0.0.53"]},
            "imagePullSecrets": [{"name": "registry"}],
            "initContainers": [{"name": "first", "image": "a"}],
            "topologySpreadConstraints": [{"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
        }
        objects = render("helm4", **added)
        pod, container = pod_of(objects), container_of(objects)
        template = workload(objects)["spec"]["template"]["metadata"]
        self.assertEqual(container["env"], added.pop("extraEnv"))
        self.assertEqual(container["envFrom"], added.pop("extraEnvFrom"))
        self.assertEqual(container["resources"]["limits"]["cpu"], added.pop("resources")["limits"]["cpu"])
        self.assertLessEqual(added.pop("podAnnotations").items(), template["annotations"].items())
        self.assertLessEqual(added.pop("podLabels").items(), template["labels"].items())
        self.assertEqual(workload(objects)["metadata"]["annotations"], added.pop("annotations"))
        for key, value in added.items():
            self.assertEqual(pod[key], value, key)

    def test_containers_and_volumes_come_beside_those_of_the_chart(self):
        added = {
            "extraArgs": ["--print-addresses=json"],
            "extraVolumes": [{"name": "scratch", "emptyDir": {}}],
            "extraVolumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
            "sidecars": [{"name": "proxy", "image": "envoy:1"}],
        }
        plain, objects = render("helm4"), render("helm4", **added)
        pod, container = pod_of(objects), container_of(objects)
        self.assertEqual(container["args"], [*container_of(plain)["args"], *added["extraArgs"]])
        self.assertEqual(pod["volumes"], [*pod_of(plain)["volumes"], *added["extraVolumes"]])
        mounts = [*container_of(plain)["volumeMounts"], *added["extraVolumeMounts"]]
        self.assertEqual(container["volumeMounts"], mounts)
        self.assertEqual(pod["containers"][1:], added["sidecars"])

    def test_the_collector_is_in_the_variables_of_opentelemetry(self):
        values = {
            "otlp__endpoint": "http://c:4317", "otlp__sampler": "traceidratio", "otlp__samplerArgument": "0.1",
            "otlp__resourceAttributes": {"b": "2", "a": "1"}, "otlp__headersSecret__name": "s",
            "otlp__headersSecret__key": "k",
        }  # fmt: skip
        variables = container_of(render("helm4", **values))["env"]
        made = {variable["name"]: variable.get("value") or variable["valueFrom"] for variable in variables}
        expected = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.1",
            "OTEL_RESOURCE_ATTRIBUTES": "a=1,b=2",
            "OTEL_EXPORTER_OTLP_HEADERS": {"secretKeyRef": {"name": "s", "key": "k"}},
        }  # fmt: skip
        self.assertEqual(made, expected)

    def test_values_of_a_parent_chart_reach_every_pod(self):
        shared = {"global__imageRegistry": "mirror", "global__imagePullSecrets": [{"name": "all"}]}
        objects = render("helm4", trialValkey__enabled=True, imagePullSecrets=[{"name": "own"}], **shared, **OPEN)
        pods = dict(workloads(objects))
        self.assertEqual(len(pods), 3)
        for name, pod in pods.items():
            self.assertEqual(pod["imagePullSecrets"], [{"name": "own"}, {"name": "all"}], name)
            for container in pod["containers"] + pod.get("initContainers", []):
                self.assertTrue(container["image"].startswith("mirror/"), container["image"])

    def test_every_container_asks_for_resources_and_none_is_throttled(self):
        for name, pod in workloads(render("helm4", trialValkey__enabled=True, **OPEN)):
            for container in pod["containers"] + pod.get("initContainers", []):
                resources = container["resources"]
                self.assertEqual(set(resources["requests"]), {"cpu", "memory"}, name)
                self.assertEqual(set(resources["limits"]), {"memory"}, name)

    def test_null_leaves_resources_out(self):
        objects = render("helm4", resources=None, trialValkey__resources=None, trialValkey__enabled=True)
        for name, pod in workloads(objects):
            self.assertNotIn("resources", pod["containers"][0], name)

    def test_objects_of_the_user_are_templates(self):
        objects = render(
            "helm4",
            extraObjects=[
                {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "{{ .Release.Name }}-map"}},
                'apiVersion: v1\nkind: Secret\nmetadata: {name: {{ include "bellwether.fullname" . }}-text}\n',
            ],
        )
        names = [made["metadata"]["name"] for made in objects if made["kind"] == "Secret"]
        self.assertEqual(names, ["test-map", "test-bellwether-text"])

    def test_a_new_configuration_restarts_and_new_roles_do_not(self):
        def annotations(**values):
            return workload(render("helm4", **values))["spec"]["template"]["metadata"]["annotations"]

        self.assertNotEqual(annotations(), annotations(settings__limits={"connections_max": 5}))
        self.assertNotEqual(annotations(), annotations(settings__errorRules="a"))
        roles = {**SECURED, "auth__roles__secret": ""}
        first, second = (annotations(**roles, auth__grants=[{**GRANT, "namespace": name}]) for name in "ab")
        self.assertEqual(first, second)

    def test_every_object_is_in_the_namespace_and_has_the_annotations(self):
        objects = render("helm4", namespaceOverride="other", commonAnnotations={"a": "b"}, trialValkey__enabled=True)
        for made in objects:
            self.assertEqual(made["metadata"]["namespace"], "other")
        self.assertEqual(one(objects, "ServiceAccount")["metadata"]["annotations"], {"a": "b"})

    def test_pods_have_an_account_without_a_token(self):
        objects = render("helm4", serviceAccount__annotations={"a": "b"}, **OPEN)
        account = one(objects, "ServiceAccount")
        self.assertIs(account["automountServiceAccountToken"], False)
        self.assertEqual(account["metadata"]["annotations"], {"a": "b"})
        for _, pod in workloads(objects):
            self.assertEqual(pod["serviceAccountName"], account["metadata"]["name"])
            self.assertIs(pod["automountServiceAccountToken"], False)
        for values, expected in (({}, "default"), ({"serviceAccount__name": "own"}, "own")):
            objects = render("helm4", serviceAccount__create=False, **values)
            self.assertNotIn("ServiceAccount", [made["kind"] for made in objects])
            self.assertEqual(pod_of(objects)["serviceAccountName"], expected)

    def test_nothing_is_cluster_wide_and_no_account_gets_rights(self):
        allowed = {
            "ConfigMap", "Service", "ServiceAccount", "StatefulSet", "Deployment", "PodDisruptionBudget", "Pod",
            "HorizontalPodAutoscaler", "NetworkPolicy", "Ingress", "GRPCRoute", "HTTPRoute", "BackendTLSPolicy",
            "Certificate", "ServiceMonitor", "PodMonitor", "PrometheusRule", "Secret",
        }  # fmt: skip
        made = set()
        for _, beside in CHANGES.values():
            if beside is not None:
                made |= {part["kind"] for part in render("helm4", **beside)}
        self.assertLessEqual(made, allowed)
        self.assertGreater(len(made), 12)

    def test_the_horizontal_autoscaler_owns_the_number_of_pods(self):
        objects = render("helm4", **SCALED, autoscaling__targetMemoryUtilizationPercentage=70)
        scaler = one(objects, "HorizontalPodAutoscaler")
        self.assertEqual(scaler["apiVersion"], "autoscaling/v2")
        self.assertEqual(scaler["spec"]["scaleTargetRef"]["name"], workload(objects)["metadata"]["name"])
        self.assertEqual(scaler["spec"]["scaleTargetRef"]["kind"], workload(objects)["kind"])
        names = [metric["resource"]["name"] for metric in scaler["spec"]["metrics"]]
        self.assertEqual(names, ["cpu", "memory"])
        self.assertEqual(scaler["spec"]["behavior"]["scaleDown"]["policies"][0]["value"], 1)
        self.assertNotIn("replicas", workload(objects)["spec"], "an upgrade would undo what the autoscaler chose")
        self.assertIn("PodDisruptionBudget", [made["kind"] for made in objects])


def leaves(values, path=()):
    """Paths of the values that have a comment: the listing of the README refuses any other."""
    whole = ("resources", "liveness", "readiness", "startup", "behavior", "podSecurityContext",
             "securityContext")  # fmt: skip
    for key, value in values.items():
        here = (*path, key)
        if isinstance(value, dict) and value and key not in whole and here != ("dashboard", "labels"):
            yield from leaves(value, here)
        else:
            yield ".".join(here)
