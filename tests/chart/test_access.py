"""Holds the chart to what docs/security.md promises: no port is reachable without TLS and proof, unless asked for."""

import tomllib
import unittest

from chart import (
    HELMS,
    OPEN,
    REDIS,
    SCENARIOS,
    SECURED,
    TOKENS,
    arguments_of,
    container_of,
    one,
    pod_of,
    render,
    workload,
)

ACCOUNTS = {"auth__serviceAccounts__jwks": '{"keys": []}'}


def volume(objects, name):
    (found,) = (volume for volume in pod_of(objects)["volumes"] if volume["name"] == name)
    mounts = [mount for mount in container_of(objects)["volumeMounts"] if mount["name"] == name]
    return found, mounts[0]["mountPath"]


class Exposure(unittest.TestCase):
    def test_without_protection_the_pod_serves_loopback_alone(self):
        container = container_of(render("helm4"))
        self.assertIn("--grpc-listen=127.0.0.1:50051", container["args"])
        self.assertIn("--ops-listen=127.0.0.1:9090", container["args"])
        # The kubelet cannot reach loopback, so the program asks itself.
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertEqual(container[probe]["exec"]["command"], ["/usr/local/bin/bellwether", "health"])
            self.assertNotIn("httpGet", container[probe])

    def test_insecure_is_passed_only_if_the_user_says_so(self):
        for values in ({}, SECURED, {**REDIS, **SECURED}):
            for helm in HELMS:
                self.assertNotIn("--insecure", arguments_of(render(helm, **values)))
        for scenario in SCENARIOS:
            asked = "insecure: true" in scenario.read_text()
            passed = "--insecure" in arguments_of(render("helm4", "--values", scenario))
            self.assertEqual(asked, passed, scenario.name)
        self.assertIn("--insecure", arguments_of(render("helm4", **OPEN)))

    def test_protected_pods_are_reachable(self):
        container = container_of(render("helm4", **SECURED))
        for expected in ("--grpc-listen=0.0.0.0:50051", "--ops-listen=0.0.0.0:9090", "--ops-tls"):
            self.assertIn(expected, container["args"])
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertEqual(container[probe]["httpGet"]["scheme"], "HTTPS")

    def test_probes_without_tls_on_the_ops_port_are_plain(self):
        container = container_of(render("helm4", tls__existingSecret="tls", tls__ops=False, **OPEN, **TOKENS))
        self.assertNotIn("--ops-tls", container["args"])
        self.assertNotIn("scheme", container["readinessProbe"]["httpGet"])


class Certificates(unittest.TestCase):
    def test_the_certificate_is_of_a_secret(self):
        objects = render("helm4", **SECURED)
        found, path = volume(objects, "tls")
        # The group of the pod may read it, and no other: 0440. No subPath, so that the kubelet renews it.
        self.assertEqual(found["secret"], {"secretName": "tls", "defaultMode": 0o440})
        self.assertIn(f"--tls-certificate={path}/tls.crt", arguments_of(objects))
        self.assertIn(f"--tls-key={path}/tls.key", arguments_of(objects))
        self.assertNotIn("subPath", str(container_of(objects)["volumeMounts"]))

    def test_the_certificate_is_of_cert_manager(self):
        values = {"tls__certManager__enabled": True, "tls__certManager__issuerRef__name": "internal", **TOKENS}
        objects = render("helm4", tls__certManager__dnsNames=["a.example.com"], **values)
        made = one(objects, "Certificate")["spec"]
        self.assertEqual(made["secretName"], volume(objects, "tls")[0]["secret"]["secretName"])
        self.assertEqual(made["issuerRef"], {"name": "internal", "kind": "Issuer", "group": "cert-manager.io"})
        names = made["dnsNames"]
        for expected in ("localhost", "test-bellwether.prod.svc", "test-bellwether-headless", "a.example.com"):
            self.assertIn(expected, names)
        self.assertIn("test-bellwether-metrics.prod.svc", names, "Prometheus verifies this name")
        self.assertEqual(len(names), len(set(names)))

    def test_clients_present_certificates(self):
        values = {"tls__existingSecret": "tls", "auth__roles__secret": "roles"}
        objects = render("helm4", tls__clientCA__secret="clients", **values)
        found, path = volume(objects, "client-ca")
        self.assertEqual(found["secret"]["secretName"], "clients")
        self.assertIn(f"--tls-client-ca={path}/ca.crt", arguments_of(objects))
        self.assertIn("--tls-client-certificates=required", arguments_of(objects))
        # On the ops port a client certificate is optional, so that the kubelet needs none.
        self.assertEqual(container_of(objects)["livenessProbe"]["httpGet"]["scheme"], "HTTPS")
        optional = render("helm4", tls__clientCA__configMap="clients", tls__clientCertificates="optional", **values)
        self.assertEqual(volume(optional, "client-ca")[0]["configMap"], {"name": "clients"})
        self.assertIn("--tls-client-certificates=optional", arguments_of(optional))


class Callers(unittest.TestCase):
    def test_tokens_and_roles_are_files_of_secrets(self):
        objects = render("helm4", **SECURED)
        for name, flag, file in (("tokens", "tokens", "tokens.toml"), ("roles", "roles", "roles.toml")):
            found, path = volume(objects, name)
            self.assertEqual(found["secret"], {"secretName": name, "defaultMode": 0o440})
            self.assertIn(f"--{flag}={path}/{file}", arguments_of(objects))

    def test_only_a_trial_makes_secrets(self):
        for scenario in SCENARIOS:
            objects = render("helm4", "--values", scenario)
            trial = "trial:\n" in scenario.read_text()
            self.assertEqual([made["kind"] for made in objects].count("Secret"), 3 if trial else 0, scenario.name)
        self.assertEqual(sum("trial:\n" in scenario.read_text() for scenario in SCENARIOS), 1)

    def test_service_accounts_prove_who_they_are(self):
        values = {"tls__existingSecret": "tls", "auth__roles__configMap": "roles", **ACCOUNTS}
        objects = render("helm4", **values)
        config = tomllib.loads(one(objects, "ConfigMap", "-config")["data"]["bellwether.toml"])
        (issuer,) = config["jwt"]
        self.assertEqual(issuer["name"], "k8s")
        self.assertEqual(issuer["issuer"], "https://kubernetes.default.svc.cluster.local")
        self.assertEqual(issuer["audience"], "bellwether")
        access = one(objects, "ConfigMap", "-access")
        self.assertEqual(access["data"], {"jwks.json": '{"keys": []}'})
        found, path = volume(objects, "jwt-k8s")
        self.assertEqual(found["configMap"]["name"], access["metadata"]["name"])
        self.assertEqual(issuer["keys"], f"{path}/jwks.json")

    def test_the_keys_of_the_cluster_are_fetched_with_a_token_without_rights(self):
        values = {"tls__existingSecret": "tls", "auth__roles__configMap": "roles", "networkPolicy__enabled": True}
        objects = render("helm4", auth__serviceAccounts__enabled=True, **values)
        (issuer,) = tomllib.loads(one(objects, "ConfigMap", "-config")["data"]["bellwether.toml"])["jwt"]
        self.assertEqual(issuer["keys"], "https://kubernetes.default.svc/openid/v1/jwks")
        found, path = volume(objects, "cluster")
        token, authority = found["projected"]["sources"]
        self.assertEqual(issuer["keys_token_file"], f"{path}/{token['serviceAccountToken']['path']}")
        self.assertNotIn("audience", token["serviceAccountToken"], "the API server wants its own")
        self.assertEqual(authority["configMap"]["name"], "kube-root-ca.crt")
        self.assertEqual(issuer["keys_ca"], f"{path}/ca.crt")
        self.assertIs(pod_of(objects)["automountServiceAccountToken"], False)
        egress = one(objects, "NetworkPolicy")["spec"]["egress"]
        self.assertIn({"ports": [{"port": 443}, {"port": 6443}]}, egress)

    def test_an_issuer_has_its_keys_behind_a_url(self):
        people = {"name": "people", "issuer": "https://a", "audience": "b", "url": "https://a/keys"}
        objects = render("helm4", auth__jwt=[people], **SECURED)
        (issuer,) = tomllib.loads(one(objects, "ConfigMap", "-config")["data"]["bellwether.toml"])["jwt"]
        self.assertEqual(issuer["keys"], "https://a/keys")
        self.assertNotIn("keys_ca", issuer)
        self.assertNotIn("jwt-people", [volume["name"] for volume in pod_of(objects)["volumes"]])

    def test_other_issuers_have_files_of_their_own(self):
        people = {"name": "people", "issuer": "https://a", "audience": "b", "configMap": "keys", "key": "a.pem"}
        objects = render("helm4", auth__jwt=[{**people, "algorithms": ["EdDSA"]}], **ACCOUNTS, **SECURED)
        config = tomllib.loads(one(objects, "ConfigMap", "-config")["data"]["bellwether.toml"])
        self.assertEqual([issuer["name"] for issuer in config["jwt"]], ["k8s", "people"])
        self.assertEqual(config["jwt"][1]["algorithms"], ["EdDSA"])
        self.assertEqual(config["jwt"][1]["keys"], volume(objects, "jwt-people")[1] + "/a.pem")

    def test_grants_become_a_file_of_roles(self):
        hard = 'a"b\\c\n<&>${unit}'
        grants = [
            {"role": "worker", "to": [hard, "b"], "namespace": "${namespace}", "application": hard, "unit": "${pod}"},
            {"role": "reader", "to": ["c"], "namespace": "*", "application": "*", "data": True},
        ]
        objects = render("helm4", tls__existingSecret="tls", auth__tokens__secret="t", auth__grants=grants)
        text = one(objects, "ConfigMap", "-access")["data"]["roles.toml"]
        self.assertEqual(tomllib.loads(text), {"grant": grants})
        self.assertIn("--roles=/etc/bellwether/access/roles.toml", arguments_of(objects))


class Store(unittest.TestCase):
    def test_replicas_share_redis_by_a_secret(self):
        objects = render("helm4", replicas=3, redis__urlSecret__key="uri", **OPEN, **REDIS)
        self.assertEqual(workload(objects)["spec"]["replicas"], 3)
        self.assertEqual(workload(objects)["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0)
        secret = {"secretKeyRef": {"name": "redis", "key": "uri"}}
        self.assertEqual(container_of(objects)["env"], [{"name": "BELLWETHER_STORE", "valueFrom": secret}])
        self.assertNotIn("--store", str(arguments_of(objects)))
        self.assertEqual([volume["name"] for volume in pod_of(objects)["volumes"]], ["config"])

    def test_redis_has_a_private_authority_a_certificate_and_a_password(self):
        values = {
            "redis__enabled": True, "redis__url": "rediss+sentinel://u@a:26379,b/main",
            "redis__passwordSecret__name": "password", "redis__tls__caSecret": "authority",
            "redis__tls__certificateSecret": "client", "redis__durability": "replicated:1",
            "redis__prefix": "eu-1", "redis__buckets": 128,
        }  # fmt: skip
        objects = render("helm4", **values)
        for expected in (
            "--store=rediss+sentinel://u@a:26379,b/main",
            "--store-password-file=/etc/bellwether/store-password/password",
            "--store-ca=/etc/bellwether/store-ca/ca.crt",
            "--store-certificate=/etc/bellwether/store-certificate/tls.crt",
            "--store-key=/etc/bellwether/store-certificate/tls.key",
            "--durability=replicated:1",
            "--store-prefix=eu-1",
            "--store-buckets=128",
        ):
            self.assertIn(expected, arguments_of(objects))
        for name, secret in (("password", "password"), ("ca", "authority"), ("certificate", "client")):
            self.assertEqual(volume(objects, f"store-{name}")[0]["secret"]["secretName"], secret)

    def test_an_address_is_made_of_its_parts(self):
        cases = [
            ({}, "redis://r:6379/0"),
            ({"port": 7000, "database": 3}, "redis://r:7000/3"),
            ({"tls__enabled": True, "username": "u", "passwordSecret__name": "p"}, "rediss://u@r:6379/0"),
        ]
        for parts, expected in cases:
            values = {f"redis__{key}": value for key, value in parts.items()}
            objects = render("helm4", redis__enabled=True, redis__host="r", **values)
            self.assertIn(f"--store={expected}", arguments_of(objects))

    def test_a_trial_has_a_valkey_of_its_own(self):
        objects = render("helm4", replicas=2, trialValkey__enabled=True, **OPEN)
        service = one(objects, "Service", "-valkey")
        self.assertIn(f"--store=redis://{service['metadata']['name']}:6379", arguments_of(objects))
        valkey = one(objects, "Deployment", "-valkey")["spec"]
        (container,) = valkey["template"]["spec"]["containers"]
        self.assertEqual(container["image"], "valkey/valkey:8.1")
        self.assertIn("noeviction", container["args"])
        self.assertEqual(valkey["strategy"], {"type": "Recreate"})

    def test_the_old_name_of_the_secret_still_works(self):
        old = {"redis__enabled": True, "redis__existingSecret__name": "redis", "redis__existingSecret__key": "uri"}
        new = {"redis__enabled": True, "redis__urlSecret__name": "redis", "redis__urlSecret__key": "uri"}
        for helm in HELMS:
            self.assertEqual(render(helm, **old), render(helm, **new))
