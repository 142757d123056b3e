"""TLS with certificates of both sides, and tokens, on the real server."""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from server import DEADLINE, Server, binary

import bellwether_client as bellwether
from bellwether_client import Client

ALICE = "spiffe://example.org/operator/alice"
CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
GRANT = '[[grant]]\nrole = "{}"\nto = ["{}"]\nnamespace = "*"\napplication = "*"\n'


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stderr=subprocess.DEVNULL)


def make_authority(folder, name):
    openssl(
        *["req", "-x509", *CURVE, "-days", "2", "-subj", "/CN=" + name],
        *["-addext", "basicConstraints=critical,CA:TRUE"],
        *["-addext", "keyUsage=critical,keyCertSign"],
        *["-keyout", str(folder / (name + ".key")), "-out", str(folder / (name + ".pem"))],
    )


def make_certificate(folder, authority, name, extensions):
    (folder / (name + ".ext")).write_text(extensions)
    request, key = str(folder / (name + ".csr")), str(folder / (name + ".key"))
    openssl("req", *CURVE, "-subj", "/CN=" + name, "-keyout", key, "-out", request)
    openssl(
        *["x509", "-req", "-days", "2", "-in", request, "-CAcreateserial"],
        *["-CA", str(folder / (authority + ".pem")), "-CAkey", str(folder / (authority + ".key"))],
        *["-extfile", str(folder / (name + ".ext")), "-out", str(folder / (name + ".pem"))],
    )


class SecurityCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        binary()
        if not shutil.which("openssl"):
            raise unittest.SkipTest("openssl is missing")
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.temporary.name)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def path(self, name):
        return str(self.folder / name)

    def start(self, *arguments):
        server = Server("--ephemeral", *arguments)
        self.addCleanup(server.stop)
        return server

    def call(self, address, **settings):
        with Client(address, timeout=DEADLINE, **settings) as client:
            return client.list_applications()["applications"]


class Tls(SecurityCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_authority(cls.folder, "ca")
        make_authority(cls.folder, "stranger")
        names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
        make_certificate(cls.folder, "ca", "server", names)
        client = "subjectAltName=URI:{}\nextendedKeyUsage=clientAuth".format(ALICE)
        make_certificate(cls.folder, "ca", "client", client)
        (cls.folder / "roles.toml").write_text(GRANT.format("operator", "uri:" + ALICE))

    def serve(self):
        server = self.start(
            *["--tls-certificate", self.path("server.pem"), "--tls-key", self.path("server.key")],
            *["--tls-client-ca", self.path("ca.pem"), "--roles", self.path("roles.toml")],
        )
        return "https://" + server.address

    def test_certificates(self):
        address = self.serve()
        own = {"cert": self.path("client.pem"), "cert_key": self.path("client.key")}
        self.assertEqual(self.call(address, ca=self.path("ca.pem"), **own), [])
        by_name = address.replace("127.0.0.1", "localhost")
        self.assertEqual(self.call(by_name, ca=self.path("ca.pem"), **own), [])
        with self.assertRaisesRegex(bellwether.TlsFailed, "(?i)certificate") as caught:
            self.call(address, ca=self.path("stranger.pem"), **own)
        self.assertEqual(caught.exception.reason, "TLS_FAILED")
        with self.assertRaises(bellwether.TlsFailed):
            self.call(address, **own)
        with self.assertRaisesRegex(bellwether.TlsFailed, "cannot be used"):
            self.call(address, ca=self.path("missing.pem"), **own)
        # The server ends a connection without a certificate; TLS 1.3 shows it at the first read.
        with self.assertRaises(bellwether.Unavailable):
            with Client(address, ca=self.path("ca.pem")) as client:
                client.list_applications()

    def test_a_watch_over_tls(self):
        own = {"cert": self.path("client.pem"), "cert_key": self.path("client.key")}
        client = Client(self.serve(), ca=self.path("ca.pem"), timeout=DEADLINE, **own)
        self.addCleanup(client.close)
        with client.watch() as watch:
            self.assertEqual(next(watch).kind, "current")


class Tokens(SecurityCase):
    def create(self, name):
        command = [binary(), "token", "create", name, "--tokens", self.path("tokens.toml")]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("BELLWETHER_")}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        made = subprocess.run(command, check=True, env=clean, **pipes)
        return made.stdout.decode().strip()

    def test_tokens(self):
        alice, bob = self.create("alice"), self.create("bob")
        (self.folder / "roles.toml").write_text(GRANT.format("reader", "token:alice"))
        (self.folder / "alice").write_text(alice + "\n")
        files = ["--tokens", self.path("tokens.toml"), "--roles", self.path("roles.toml")]
        server = self.start(*files)
        self.assertEqual(self.call(server.address, token=alice), [])
        self.assertEqual(self.call(server.address, token_file=self.path("alice")), [])
        with self.assertRaises(bellwether.Unauthenticated) as missing:
            self.call(server.address)
        self.assertEqual(missing.exception.reason, "CREDENTIALS_MISSING")
        with self.assertRaises(bellwether.Unauthenticated) as wrong:
            self.call(server.address, token="wrong")
        self.assertEqual(wrong.exception.reason, "CREDENTIALS_INVALID")
        with self.assertRaises(bellwether.PermissionDenied) as denied:
            self.call(server.address, token=bob)
        self.assertEqual(denied.exception.reason, "SCOPE_DENIED")
        with self.assertRaises(bellwether.PermissionDenied):
            next(Client(server.address, token=bob, timeout=DEADLINE).watch())
        with self.assertRaisesRegex(bellwether.Unauthenticated, "cannot read the token"):
            self.call(server.address, token_file=self.path("missing"))


if __name__ == "__main__":
    unittest.main()
