"""Holds the chart to refusing what cannot be: by the schema of its values, or with a sentence."""

import json
import re
import unittest

import jsonschema
from chart import CHART, HELMS, NEWEST, OPEN, REDIS, SECURED, TOKENS, Refused, default_values, render


READER = {"role": "reader", "to": ["token:a"], "namespace": "*", "application": "*"}
ISSUER = {"name": "a", "issuer": "https://a", "audience": "b", "configMap": "c", "key": "d"}


class Refusals(unittest.TestCase):
    """What cannot be is refused, with the key or a sentence."""

    # Value, what is given, and what Helm says of it.
    VALUES = [
        ("replicas", "many", "at '/replicas': got string, want integer"),
        ("replicas", -1, "at '/replicas': minimum: got -1, want 0"),
        ("image__digest", "sha256:beef", "at '/image/digest': 'sha256:beef' does not match"),
        ("image__pullPolicy", "Sometimes", "at '/image/pullPolicy': value must be one of"),
        ("image__tag", 1.5, "at '/image/tag': got number, want string"),
        ("imagePullSecrets", ["registry"], "at '/imagePullSecrets/0': got string, want object"),
        ("persistence__enabled", "yes", "at '/persistence/enabled': got string, want"),
        ("persistence__size", "1 GB", "at '/persistence/size': '1 GB' does not match"),
        ("persistence__accessModes", [], "at '/persistence/accessModes': minItems: got 0, want 1"),
        ("redis__urlSecret", "redis", "at '/redis/urlSecret': got string, want object"),
        ("redis__urlSecret__key", "", "at '/redis/urlSecret/key': '' does not match"),
        ("redis__url", "redis://user:password@redis", "at '/redis/url': 'redis://user:password@redis' does not match"),
        ("redis__durability", "replicated", "at '/redis/durability': 'replicated' does not match"),
        ("redis__prefix", "a:b", "at '/redis/prefix': 'a:b' does not match"),
        ("redis__buckets", 257, "at '/redis/buckets': maximum: got 257, want 256"),
        ("settings__limits", {"connection_max": 1}, "at '/settings/limits': additional properties 'connection_max'"),
        ("settings__limits", {"connections_max": 0}, "at '/settings/limits/connections_max': minimum"),
        ("resources", {"limit": {"cpu": "1"}}, "at '/resources': additional properties 'limit' not allowed"),
        ("tolerations", [{"keys": "a"}], "at '/tolerations/0': additional properties 'keys' not allowed"),
        ("tls__clientCertificates", "none", "at '/tls/clientCertificates': value must be one of"),
        ("auth__grants", [{"role": "admin"}], "at '/auth/grants/0/role': value must be one of"),
        ("auth__grants", [{"role": "reader"}], "at '/auth/grants/0': missing properties 'to', 'namespace'"),
        ("prometheusRule__alerts", {"A": {"fore": "1"}}, "at '/prometheusRule/alerts/A': additional properties"),
        ("tls", None, "missing property 'tls'"),
        ("auth__tokens", None, "at '/auth': missing property 'tokens'"),
        ("service__type", "ExternalName", "at '/service/type': value must be one of"),
        ("otlp__endpoint", "collector:4317", "at '/otlp/endpoint': 'collector:4317' does not match"),
        ("listenAddress", "127.0.0.1", "at '/listenAddress': value must be one of"),
        ("extraEnv", {"A": "b"}, "at '/extraEnv': got object, want array"),
        ("extraEnv", [{"value": "b"}], "at '/extraEnv/0': missing property 'name'"),
        ("commonLabels", {"a": 1}, "at '/commonLabels/a': got number, want string"),
        ("podAnnotations", {"a": True}, "at '/podAnnotations/a': got boolean, want string"),
        ("probes__liveness__periodSeconds", 0, "at '/probes/liveness/periodSeconds': minimum"),
        ("podDisruptionBudget__maxUnavailable", "half", "at '/podDisruptionBudget/maxUnavailable': 'half'"),
        ("trial__enabled", "yes", "at '/trial/enabled': got string, want boolean"),
        ("podSecurityContext__runAsUser", "1000", "at '/podSecurityContext/runAsUser': got string, want"),
        ("podSecurityContext__fsGroups", 1, "at '/podSecurityContext': additional properties 'fsGroups'"),
        ("securityContext__capabilities__drop", "ALL", "at '/securityContext/capabilities/drop': got string, want"),
        ("updateStrategy", {"type": "Rolling"}, "at '/updateStrategy/type': value must be one of"),
        ("revisionHistoryLimit", -1, "at '/revisionHistoryLimit': minimum: got -1, want 0"),
        ("fullnameOverride", "Status", "at '/fullnameOverride': 'Status' does not match"),
    ]

    # Values (or what else `render` takes), and the whole sentence.
    COMBINATIONS = [
        # Pods.
        (
            {"release": "1.status"},
            'the objects would be called "1.status-bellwether", but the name of a service starts with a letter and '
            "has only small letters, digits and hyphens: set fullnameOverride.",
        ),
        (
            {"replicas": 3, **OPEN},
            "replicas is 3, but the embedded store belongs to one process: set redis.enabled=true and the address of "
            "Redis, or replicas=1.",
        ),
        (
            {"autoscaling__enabled": True, **OPEN},
            "autoscaling.enabled is true, but the embedded store belongs to one process: set redis.enabled=true and "
            "the address of Redis, or leave autoscaling out.",
        ),
        (
            {"autoscaling__enabled": True, "autoscaling__minReplicas": 9, **OPEN, **REDIS},
            "autoscaling.minReplicas is 9, but autoscaling.maxReplicas is 5: give the second at least the value of "
            "the first.",
        ),
        (
            {"autoscaling__enabled": True, "autoscaling__targetCPUUtilizationPercentage": None, **OPEN, **REDIS},
            "autoscaling.enabled is true, but it has nothing to aim at: set "
            "autoscaling.targetCPUUtilizationPercentage or autoscaling.targetMemoryUtilizationPercentage.",
        ),
        (
            {"updateStrategy": {"type": "Recreate"}},
            "updateStrategy.type is Recreate, but the pods are those of a StatefulSet, which has RollingUpdate and "
            "OnDelete: take one of them.",
        ),
        (
            {"updateStrategy": {"rollingUpdate": {"maxSurge": 1}}},
            "updateStrategy.rollingUpdate.maxSurge is for the type RollingUpdate of a Deployment, but the type is "
            "RollingUpdate, of a StatefulSet: leave it out.",
        ),
        (
            {"terminationGracePeriodSeconds": 15, "preStopSleepSeconds": 5},
            "terminationGracePeriodSeconds is 15, but the server drains for 10 s after preStopSleepSeconds=5: give "
            "more than 15, or it is killed while it drains.",
        ),
        (
            {"preStopSleepSeconds": 5, "kubernetes": "1.29"},
            "preStopSleepSeconds is 5, but Kubernetes v1.29.0 cannot sleep by itself: leave it at 0, or upgrade to "
            "1.30.",
        ),
        (
            {"extraEnv": [{"name": "BELLWETHER_STORE", "value": "memory"}]},
            "extraEnv has BELLWETHER_STORE, but a value of the chart sets it: look for it in the list of values.",
        ),
        (
            {"extraArgs": ["--insecure"]},
            "extraArgs has --insecure, but a value of the chart sets it: look for it in the list of values.",
        ),
        (
            {"commonLabels": {"helm.sh/chart": "other"}},
            "commonLabels has helm.sh/chart, but the chart sets that itself: take another label, or nameOverride.",
        ),
        # The store.
        (
            {"redis__enabled": True},
            "redis.enabled is true, but it has no address: set one of redis.host, redis.url and redis.urlSecret.name.",
        ),
        (
            {"redis__urlSecret__name": "redis"},
            "redis.urlSecret.name is set, but redis.enabled is false, so Redis would not be used: set "
            "redis.enabled=true, or leave the address out.",
        ),
        (
            {**REDIS, "redis__host": "a"},
            "redis.host and redis.urlSecret.name are set, but there is one address: leave all but one out.",
        ),
        (
            {**REDIS, "redis__existingSecret__name": "a"},
            "redis.existingSecret is the old name of redis.urlSecret, but both are set: leave the old one out.",
        ),
        (
            {**REDIS, "redis__passwordSecret__name": "a"},
            "redis.passwordSecret.name is set, but the URL in redis.urlSecret has the password in it: leave one of "
            "them out, or give the address by redis.url.",
        ),
        (
            {**REDIS, "redis__username": "a"},
            "redis.username is for redis.host: write the user into the URL instead.",
        ),
        (
            {"redis__enabled": True, "redis__host": "a", "redis__username": "a"},
            "redis.username is set without a password: set redis.passwordSecret.name.",
        ),
        (
            {**REDIS, "redis__tls__enabled": True},
            "redis.tls.enabled is for redis.host: write rediss:// into the URL instead.",
        ),
        (
            {"redis__enabled": True, "redis__url": "redis://a", "redis__tls__caSecret": "b"},
            "redis.tls.caSecret is set, but the connection to Redis has no TLS: set redis.tls.enabled=true for "
            "redis.host, or write rediss:// into the URL.",
        ),
        (
            {**REDIS, "trialValkey__enabled": True},
            "trialValkey.enabled and redis.enabled are both true, but there is one store: leave one of them out.",
        ),
        (
            {**REDIS, "persistence__enabled": True},
            "persistence.enabled is true, but with Redis nothing is kept in the pod: leave one of them out.",
        ),
        (
            {"persistence__enabled": False, "persistence__existingClaim": "mine"},
            'persistence.existingClaim is "mine", but the pod keeps nothing on a claim: leave it out, or use neither '
            "redis.enabled nor persistence.enabled=false.",
        ),
        # TLS and callers.
        (
            {**SECURED, "trial__enabled": True},
            "trial.enabled makes the certificate, the tokens and the roles of a trial: leave it out, or leave out "
            "auth.roles and auth.tokens.secret and tls.existingSecret.",
        ),
        (
            {"trial__makeSecrets": False},
            "trial.makeSecrets is false, but there is no trial: set trial.enabled=true, or leave it out.",
        ),
        (
            {**SECURED, "tls__certManager__enabled": True, "tls__certManager__issuerRef__name": "a"},
            "tls.existingSecret and tls.certManager.enabled are both set, but there is one certificate: leave one of "
            "them out.",
        ),
        (
            {**TOKENS, "tls__certManager__enabled": True},
            "tls.certManager.enabled is true, but tls.certManager.issuerRef.name is empty: name the Issuer.",
        ),
        (
            {**SECURED, "tls__clientCA__secret": "a", "tls__clientCA__configMap": "a"},
            "tls.clientCA.secret and tls.clientCA.configMap are both set: leave one of them out.",
        ),
        (
            {"tls__clientCA__secret": "a", "auth__roles__secret": "a"},
            "tls.clientCA is set, but the server has no certificate, so no client presents one: set "
            "tls.existingSecret or tls.certManager.",
        ),
        (
            {**SECURED, "tls__clientCertificates": "optional"},
            'tls.clientCertificates is "optional", but no authority verifies them: set tls.clientCA.secret or '
            "tls.clientCA.configMap.",
        ),
        (
            {"tls__existingSecret": "tls", "auth__tokens__secret": "a"},
            "callers prove who they are, but nothing says what they may do, so every call would be refused: set "
            "auth.grants, or auth.roles.",
        ),
        (
            {"tls__existingSecret": "tls", "auth__roles__secret": "a"},
            "there are roles, but no way to know callers: set auth.tokens.secret, auth.serviceAccounts, auth.jwt or "
            "tls.clientCA.",
        ),
        (
            {**SECURED, "auth__roles__configMap": "a"},
            "auth.roles.configMap and auth.roles.secret are set, but there is one file of roles: leave all but one "
            "out.",
        ),
        (
            {**SECURED, "auth__roles__secret": "", "auth__grants": [{**READER, "role": "worker"}]},
            "a grant of the role worker for token:a has no unit: a worker acts as a unit.",
        ),
        (
            {**SECURED, "auth__serviceAccounts__jwks": "{}", "auth__serviceAccounts__configMap": "a"},
            "auth.serviceAccounts.jwks and auth.serviceAccounts.configMap are both set: leave one of them out.",
        ),
        (
            {**SECURED, "auth__serviceAccounts__jwks": "{}", "auth__jwt": [{**ISSUER, "name": "k8s"}]},
            "the issuers are called k8s, k8s, but principals name their issuer: give each its own name.",
        ),
        (
            {**SECURED, "auth__jwt": [{**ISSUER, "url": "https://a"}]},
            "the issuer a of auth.jwt needs either url, or configMap and key, for its keys.",
        ),
        (
            {"tls__existingSecret": "tls"},
            "there is TLS, but every caller would be served: set auth.tokens.secret, auth.serviceAccounts, auth.jwt "
            "or tls.clientCA, or insecure=true if the network keeps strangers out.",
        ),
        (
            TOKENS,
            "callers prove who they are, but without TLS their tokens cross the network in plain text: set "
            "tls.existingSecret or tls.certManager, or insecure=true if the network encrypts.",
        ),
        (
            {**SECURED, "tls__ops": False},
            "tls.ops is false, so tokens of scrapers would cross the network in plain text: leave it out, or set "
            "insecure=true if the network encrypts.",
        ),
        (
            {**SECURED, **OPEN},
            "insecure is true, but tls and auth protect both ports, so nothing needs it: leave it out.",
        ),
        # The network.
        (
            {**REDIS, "replicas": 2, "service__type": "NodePort", "serviceMonitor__enabled": True},
            "several pods, service.type=NodePort, serviceMonitor.enabled: the pods listen on loopback only, because "
            "there is neither TLS nor a way to know callers: set tls and auth, insecure=true if the network keeps "
            "strangers out, or trial.enabled=true for a trial.",
        ),
        (
            {"service__trafficDistribution": "PreferClose", "kubernetes": "1.30"},
            'service.trafficDistribution is "PreferClose", but Kubernetes v1.30.0 does not know it: leave it out, or '
            "upgrade to 1.31.",
        ),
        (
            {"service__loadBalancerClass": "a"},
            "service.loadBalancerClass is for service.type=LoadBalancer, but the type is ClusterIP.",
        ),
        (
            {"service__externalTrafficPolicy": "Local"},
            "service.externalTrafficPolicy is for service.type=NodePort or LoadBalancer, but the type is ClusterIP.",
        ),
        (
            {"service__nodePorts__http": 30000},
            "service.nodePorts is for service.type=NodePort or LoadBalancer, but the type is ClusterIP.",
        ),
        (
            {"ingress__grpc__enabled": True, **OPEN},
            "ingress.grpc.enabled is true, but it has no host: set ingress.grpc.hosts.",
        ),
        (
            {"gateway__httpRoute__enabled": True, **OPEN},
            "a route of the gateway is enabled, but it belongs to none: set gateway.parentRefs.",
        ),
        (
            {"gateway__httpRoute__enabled": True, "gateway__grpcRoute__enabled": True, **OPEN},
            "gateway.grpcRoute and gateway.httpRoute have the same host names, which the Gateway API refuses: give "
            "each its own.",
        ),
        (
            {**SECURED, "gateway__backendTLSPolicy__enabled": True},
            "gateway.backendTLSPolicy.enabled is true, but there is nothing to verify: set "
            "gateway.backendTLSPolicy.caConfigMap and tls.",
        ),
        (
            {"serviceMonitor__enabled": True, "podMonitor__enabled": True, **OPEN},
            "serviceMonitor.enabled and podMonitor.enabled are both true, so each pod would be read twice: leave one "
            "of them out.",
        ),
        (
            {"podMonitor__enabled": True, **SECURED},
            "metrics are shown only to callers who may read everything: set scrape.tokenSecret.name, or a client "
            "certificate in scrape.tlsConfig.",
        ),
        (
            {"prometheusRule__alerts": {"BellwetherDawn": {"enabled": False}}},
            "prometheusRule.alerts has BellwetherDawn, but there is no such alert: take one of BellwetherDown, ",
        ),
    ]
    # Sentences that need a cluster; test_cluster.py has them.
    IN_CLUSTER = 4

    def refused(self, expected, helm, **values):
        with self.subTest(helm=helm, **values), self.assertRaises(Refused) as refused:
            render(helm, **values)
        self.assertIn(expected, str(refused.exception))

    # The oldest Helm words this otherwise.
    def test_a_bad_value_is_refused_by_its_name(self):
        for helm in NEWEST:
            for key, value, expected in self.VALUES:
                self.refused(expected, helm, **{key: value})

        for key, value, _ in self.VALUES:
            self.refused("values don't meet the specifications of the schema", "helm3-oldest", **{key: value})

    def test_an_unknown_key_is_refused_in_every_map_of_ours(self):
        for path in closed_maps(schema()):
            at = "".join(f"/{part}" for part in path)
            key = "__".join((*path, "surprise"))
            for helm in NEWEST:
                self.refused(f"at '{at}': additional properties 'surprise' not allowed", helm, **{key: 1})
            self.refused("Additional property surprise is not allowed", "helm3-oldest", **{key: 1})

    def test_a_combination_that_cannot_work_is_refused_with_a_sentence(self):
        for helm in HELMS:
            for values, expected in self.COMBINATIONS:
                self.refused(expected, helm, **values)

    def test_every_sentence_is_tested(self):
        files = sorted((CHART / "templates").glob("_wrong_*.tpl"))
        sentences = sum(file.read_text().count("append $wrong") for file in files)
        self.assertEqual(sentences, len(self.COMBINATIONS) + self.IN_CLUSTER)
        topics = {file.stem.removeprefix("_wrong_") for file in files}
        listed = re.search(r"range \$topic := list (.*) }}", (CHART / "templates/validate.yaml").read_text())
        self.assertEqual(topics, set(re.findall(r'"(\w+)"', listed[1])))

    def test_all_that_is_wrong_is_said_at_once(self):
        with self.assertRaises(Refused) as refused:
            render("helm4", replicas=2, terminationGracePeriodSeconds=1, tls__existingSecret="a")
        self.assertRegex(str(refused.exception), "(?s)replicas is 2.*PeriodSeconds is 1.*there is TLS.*several pods")

    def test_an_old_kubernetes_is_refused(self):
        for helm in HELMS:
            self.refused("chart requires kubeVersion: >=1.25.0-0", helm, kubernetes="1.24")


def schema():
    return json.loads((CHART / "values.schema.json").read_text())


def closed_maps(part, path=()):
    """Paths of the maps whose keys the chart knows."""
    if part.get("additionalProperties") is False and "items" not in part:
        yield path
    for key, inner in part.get("properties", {}).items():
        if inner.get("type") == "object":
            yield from closed_maps(inner, (*path, key))


class Schema(unittest.TestCase):
    # Maps whose keys are Kubernetes' or the user's.
    OPEN = {
        "global", "commonLabels", "commonAnnotations", "podAnnotations", "podLabels", "annotations", "nodeSelector",
        "service.annotations", "serviceAccount.annotations", "persistence.annotations", "ingress.http.annotations",
        "ingress.grpc.annotations", "gateway.grpcRoute.annotations", "gateway.httpRoute.annotations",
        "resources.requests", "resources.limits", "trialValkey.resources.requests", "trialValkey.resources.limits",
        "autoscaling.behavior.scaleDown", "otlp.resourceAttributes", "serviceMonitor.labels", "podMonitor.labels",
        "scrape.tlsConfig", "prometheusRule.labels", "prometheusRule.alertLabels", "prometheusRule.alerts",
        "dashboard.labels", "dashboard.annotations", "notify.resources.requests", "notify.resources.limits",
        "relay.resources.requests", "relay.resources.limits",
    }  # fmt: skip
    # Keys that have no default: choices of Kubernetes, settings of the server, and old names.
    ABSENT = re.compile(
        r"global|redis\.existingSecret|settings\.(limits|history|sessions|faults)\.\w+|(\w+\.)?resources\.claims"
        r"|autoscaling\.behavior\.scaleUp|affinity\.\w+|dnsConfig\.\w+"
        r"|(podS|s)ecurityContext\.\w+|securityContext\.capabilities\.add|(\w+\.)?seccompProfile\.localhostProfile"
        r"|updateStrategy\.\w+"
    )

    def test_it_is_draft_7(self):
        self.assertEqual(schema()["$schema"], "http://json-schema.org/draft-07/schema#")
        jsonschema.Draft7Validator.check_schema(schema())

    def test_it_has_every_value_and_no_other(self):
        self.assertEqual(list(self.differences(schema(), default_values())), [])

    def test_a_difference_would_be_seen(self):
        values = default_values()
        values["image"]["arch"] = values["surprise"] = "a"
        del values["redis"]["enabled"]
        found = list(self.differences(schema(), values))
        self.assertEqual(found, ["lacks image.arch", "invents redis.enabled", "lacks surprise"])
        opened = schema()
        del opened["properties"]["probes"]["additionalProperties"]
        self.assertEqual(list(self.differences(opened, default_values())), ["probes is open"])

    def differences(self, part, values, path=()):
        name = ".".join(path)
        if name in self.OPEN:
            return
        if part.get("additionalProperties") is not False:
            yield f"{name} is open"
            return
        known = part["properties"]
        for key in sorted({*known, *values}):
            inner = ".".join((*path, key))
            if key not in known:
                yield f"lacks {inner}"
            elif key not in values:
                if not self.ABSENT.fullmatch(inner):
                    yield f"invents {inner}"
            elif known[key]["type"] == "object":
                yield from self.differences(known[key], values[key], (*path, key))
