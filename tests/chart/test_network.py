"""Holds services, ingresses, routes and the network policy to leading where they say, and the test pod to testing."""

import unittest

from chart import OPEN, REDIS, SECURED, SCENARIOS, one, render, workload

GATEWAY = {"gateway__parentRefs": [{"name": "public", "namespace": "gateways"}], **OPEN}


def labels_of(objects):
    return workload(objects)["spec"]["template"]["metadata"]["labels"].items()


class Services(unittest.TestCase):
    def test_no_service_leads_to_a_pod_on_loopback(self):
        services = {"test-bellwether", "test-bellwether-headless", "test-bellwether-metrics"}
        for store, own in (({}, set()), (REDIS, set()), ({"trialValkey__enabled": True}, {"test-bellwether-valkey"})):
            for protection, expected in (({}, set()), (OPEN, services), (SECURED, services)):
                objects = render("helm4", **store, **protection)
                made = {part["metadata"]["name"] for part in objects if part["kind"] == "Service"}
                self.assertEqual(made, own | expected)
        # A StatefulSet cannot get another service later, so it names the one that may come.
        names = {workload(render("helm4", **values))["spec"]["serviceName"] for values in ({}, OPEN)}
        self.assertEqual(names, {"test-bellwether-headless"})

    def test_only_the_service_for_clients_leaves_the_cluster(self):
        values = {"service__annotations": {"a": "b"}, "service__nodePorts__grpc": 30051, **OPEN}
        for kind in ("NodePort", "LoadBalancer"):
            objects = render("helm4", service__type=kind, **values)
            service = one(objects, "Service", "wether")
            self.assertEqual(service["spec"]["type"], kind)
            self.assertEqual(service["metadata"]["annotations"], {"a": "b"})
            self.assertEqual(service["spec"]["ports"][0]["nodePort"], 30051)
            for suffix in ("-headless", "-metrics"):
                self.assertEqual(one(objects, "Service", suffix)["spec"]["type"], "ClusterIP", "metrics would leave")

    def test_a_load_balancer_is_as_asked_for(self):
        wanted = {
            "loadBalancerClass": "example.com/lb", "loadBalancerSourceRanges": ["10.0.0.0/8"],
            "externalTrafficPolicy": "Local", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"],
            "trafficDistribution": "PreferClose", "sessionAffinity": "ClientIP",
        }  # fmt: skip
        values = {f"service__{key}": value for key, value in wanted.items()}
        spec = one(render("helm4", service__type="LoadBalancer", **values, **OPEN), "Service", "wether")["spec"]
        self.assertLessEqual(wanted.keys(), spec.keys())
        for key, value in wanted.items():
            self.assertEqual(spec[key], value)


class Ways(unittest.TestCase):
    """From outside of the cluster."""

    def ports(self, objects):
        service = one(objects, "Service", "wether")
        return service["metadata"]["name"], {port["name"]: port["port"] for port in service["spec"]["ports"]}

    def test_ingresses_lead_to_ports_of_the_service(self):
        values = {f"ingress__{kind}__enabled": True for kind in ("http", "grpc")}
        values |= {f"ingress__{kind}__hosts": [f"{kind}.example.com"] for kind in ("http", "grpc")}
        objects = render("helm4", ingress__grpc__annotations={"protocol": "GRPC"}, **values, **OPEN)
        name, ports = self.ports(objects)
        for kind in ("http", "grpc"):
            made = one(objects, "Ingress", f"-{kind}")
            (rule,) = made["spec"]["rules"]
            self.assertEqual(rule["host"], f"{kind}.example.com")
            backend = rule["http"]["paths"][0]["backend"]["service"]
            self.assertEqual(backend, {"name": name, "port": {"name": kind}})
            self.assertIn(kind, ports)
        self.assertEqual(one(objects, "Ingress", "-grpc")["metadata"]["annotations"], {"protocol": "GRPC"})

    def test_routes_lead_to_ports_of_the_service(self):
        values = {"gateway__grpcRoute__enabled": True, "gateway__httpRoute__enabled": True}
        hosts = {"gateway__grpcRoute__hostnames": ["a.example.com"], "gateway__httpRoute__hostnames": ["b.example.com"]}
        for protection, web in ((GATEWAY, 80), ({**GATEWAY, **SECURED, "insecure": False}, 443)):
            objects = render("helm4", **protection, **values, **hosts)
            name, ports = self.ports(objects)
            for kind, port, host in (("GRPCRoute", "grpc", "a"), ("HTTPRoute", "http", "b")):
                spec = one(objects, kind)["spec"]
                self.assertEqual(spec["parentRefs"], GATEWAY["gateway__parentRefs"])
                self.assertEqual(spec["hostnames"], [f"{host}.example.com"])
                self.assertEqual(spec["rules"][0]["backendRefs"], [{"name": name, "port": ports[port]}])
            self.assertEqual(ports["http"], web)
            self.assertEqual(one(objects, "HTTPRoute")["spec"]["rules"][0]["timeouts"], {"request": "0s"})

    def test_a_gateway_verifies_the_name_of_the_service(self):
        values = {"gateway__backendTLSPolicy__enabled": True, "gateway__backendTLSPolicy__caConfigMap": "authority"}
        made = one(render("helm4", **SECURED, **values), "BackendTLSPolicy")["spec"]
        self.assertEqual(made["validation"]["hostname"], "test-bellwether.prod.svc")
        (authority,) = made["validation"]["caCertificateRefs"]
        self.assertEqual((authority["kind"], authority["name"]), ("ConfigMap", "authority"))


class Policy(unittest.TestCase):
    def policy(self, **values):
        objects = render("helm4", networkPolicy__enabled=True, **values)
        made = one(objects, "NetworkPolicy", "wether")["spec"]
        self.assertEqual(made["policyTypes"], ["Ingress", "Egress"])
        self.assertLessEqual(made["podSelector"]["matchLabels"].items(), labels_of(objects))
        return made

    def ports(self, rules):
        return [[port["port"] for port in rule["ports"]] for rule in rules]

    def test_only_the_ports_of_the_server_are_reachable(self):
        made = self.policy(**OPEN)
        self.assertEqual(self.ports(made["ingress"]), [["grpc"], ["metrics"]])
        self.assertNotIn("from", made["ingress"][0])
        peers = [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]
        named = self.policy(networkPolicy__clients=peers, networkPolicy__scrapers=peers, **OPEN)
        self.assertEqual(named["ingress"][0]["from"][0], peers[0])
        self.assertEqual(named["ingress"][1]["from"], peers)

    def test_pods_reach_only_what_they_need(self):
        self.assertEqual(self.ports(self.policy()["egress"]), [[53, 53]])
        everything = self.policy(otlp__endpoint="http://a:4317", networkPolicy__extraEgress=[{"ports": [{"port": 9}]}],
                                 **REDIS)  # fmt: skip
        self.assertEqual(self.ports(everything["egress"]), [[53, 53], [6379, 26379], [4317], [9]])

    def test_a_trial_valkey_is_reachable_by_the_pods_alone(self):
        objects = render("helm4", networkPolicy__enabled=True, trialValkey__enabled=True)
        valkey = one(objects, "NetworkPolicy", "-valkey")["spec"]
        (peer,) = valkey["ingress"][0]["from"]
        self.assertLessEqual(peer["podSelector"]["matchLabels"].items(), labels_of(objects))
        own = one(objects, "NetworkPolicy", "wether")["spec"]
        (to,) = own["egress"][1]["to"]
        self.assertEqual(to["podSelector"]["matchLabels"], valkey["podSelector"]["matchLabels"])

    def test_the_test_pod_may_call(self):
        peers = [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]
        objects = render("helm4", networkPolicy__enabled=True, networkPolicy__clients=peers, **OPEN)
        rule = one(objects, "NetworkPolicy")["spec"]["ingress"][0]["from"][1]["podSelector"]["matchLabels"]
        self.assertLessEqual(rule.items(), one(objects, "Pod")["metadata"]["labels"].items())


class HelmTest(unittest.TestCase):
    def steps(self, **values):
        pod = one(render("helm4", **values), "Pod", "-test")
        spec = pod["spec"]
        return pod, [*spec["initContainers"], *spec["containers"]]

    def test_it_reports_reads_watches_and_deletes(self):
        pod, steps = self.steps(**OPEN)
        self.assertEqual(pod["metadata"]["annotations"]["helm.sh/hook"], "test")
        self.assertEqual([step["args"][0] for step in steps], ["report", "why", "wait", "delete"])
        for step in steps:
            variables = {variable["name"]: variable["value"] for variable in step["env"]}
            self.assertEqual(variables.pop("BELLWETHER_SERVER"), "http://test-bellwether.prod.svc:50051")
            self.assertEqual(variables, {"BELLWETHER_NAMESPACE": "helm-test"})
            self.assertNotIn("command", step, "the image has no shell")

    def test_it_proves_who_it_is(self):
        _, steps = self.steps(helmTest__tokenSecret="t", helmTest__tokenKey="k", **SECURED)
        variables = {variable["name"]: variable["value"] for variable in steps[0]["env"]}
        self.assertEqual(variables["BELLWETHER_SERVER"], "https://test-bellwether.prod.svc:50051")
        self.assertEqual(variables["BELLWETHER_TOKEN_FILE"], "/etc/bellwether/token/k")
        self.assertEqual(variables["BELLWETHER_CA"], "/etc/bellwether/ca/ca.crt")
        _, steps = self.steps(helmTest__certificateSecret="c", helmTest__caSecret="own", **SECURED)
        variables = {variable["name"]: variable["value"] for variable in steps[3]["env"]}
        self.assertEqual(variables["BELLWETHER_CERT_KEY"], "/etc/bellwether/certificate/tls.key")
        pod, _ = self.steps(auth__serviceAccounts__jwks="{}", **SECURED)
        (token,) = (volume for volume in pod["spec"]["volumes"] if volume["name"] == "token")
        self.assertEqual(token["projected"]["sources"][0]["serviceAccountToken"]["audience"], "bellwether")

    def test_it_is_left_out_where_it_could_only_fail(self):
        for values in ({}, SECURED, {**OPEN, "helmTest__enabled": False}):
            self.assertNotIn("Pod", [made["kind"] for made in render("helm4", **values)])

    def test_most_scenarios_have_it(self):
        made = [one(render("helm4", "--values", values), "Pod") for values in SCENARIOS
                if "insecure: true" in values.read_text()]  # fmt: skip
        self.assertGreaterEqual(len(made), 4)
