"""What real exceptions say of a failed call, and the class that the server gives them."""

import shutil
import ssl
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from server import DEADLINE, Listener, Server, ServerCase
from test_security import make_authority, make_certificate

from bellwether_client import _classify

try:
    from ops import pebble
except ImportError:
    pebble = None

BLOCKED, DEPENDENCY = "ERROR_CLASS_BLOCKED", "ERROR_CLASS_DEPENDENCY"
TRANSIENT, UNCLASSIFIED = "ERROR_CLASS_TRANSIENT", "ERROR_CLASS_UNCLASSIFIED"
UNTRUSTED = "ssl.SSLCertVerificationError"


def raised(call, *arguments, **more):
    """Returns the exception that a call raises."""
    try:
        call(*arguments, **more)
    except Exception as error:
        return error
    raise AssertionError("{} raised nothing".format(call))


def raised_from(error, cause):
    try:
        raise error from cause
    except Exception as chained:
        return chained


class ClassifyCase(ServerCase):
    def check(self, error, code, kind):
        """Checks the code and class of an exception, and the next step without a server."""
        report = _classify.report_of(error)
        self.assertEqual(report["code"], code)
        # A fault of its own for each: one that is BLOCKED keeps its class.
        self.faults = getattr(self, "faults", 0) + 1
        names = {"component": "part-{}".format(self.faults), "target": "peer"}
        application = self.id().rpartition(".")[2].replace("_", "-")
        answer = self.client().report_error(
            application=application, unit=application + "/0", error=dict(report, **names)
        )
        self.assertEqual(answer["verdict"]["class"], kind, answer["verdict"])
        alone = _classify.verdict_of(report, 1)
        self.assertEqual(alone["action"], answer["verdict"]["action"])


class Commands(ClassifyCase):
    def test_the_exit_status_of_a_command_decides(self):
        for script, status, kind in (
            ("exit 1", 1, UNCLASSIFIED),
            ("exit 100", 100, UNCLASSIFIED),
            ("exit 75", 75, TRANSIENT),
            ("/dev/null/no-such-command", 127, DEPENDENCY),
            ("/dev/null", 126, BLOCKED),
            ("kill -9 $$", -9, TRANSIENT),
            ("sh -c 'kill -15 $$'", 143, TRANSIENT),
        ):
            with self.subTest(script):
                quiet = {"check": True, "stderr": subprocess.DEVNULL}
                error = raised(subprocess.run, ["sh", "-c", script], **quiet)
                self.check(error, "subprocess.CalledProcessError/{}".format(status), kind)

    def test_the_exit_status_decides_in_a_subclass_of_the_charm_too(self):
        class Failed(subprocess.CalledProcessError):
            __module__ = "charm"

        self.check(Failed(127, ["x"]), "subprocess.CalledProcessError/127", DEPENDENCY)

    @unittest.skipUnless(pebble, "ops is missing")
    def test_the_exit_status_of_a_command_in_a_container_decides(self):
        for status, kind in ((1, UNCLASSIFIED), (127, DEPENDENCY), (137, TRANSIENT)):
            error = pebble.ExecError(["migrate"], status, None, None)
            self.check(error, "ops.pebble.ExecError/{}".format(status), kind)

    def test_other_objects_as_exit_status_are_no_status(self):
        for odd in ("1", None, object()):
            error = subprocess.CalledProcessError(odd, ["x"])
            self.assertEqual(_classify.report_of(error)["code"], "subprocess.CalledProcessError")


class Certificates(ClassifyCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not shutil.which("openssl"):
            raise unittest.SkipTest("openssl is missing")
        cls.temporary = tempfile.TemporaryDirectory()
        folder = Path(cls.temporary.name)
        make_authority(folder, "ca")
        make_certificate(folder, "ca", "server", "subjectAltName=IP:127.0.0.1")
        files = [str(folder / "server.pem"), str(folder / "server.key")]
        cls.peer = Server("--ephemeral", "--tls-certificate", files[0], "--tls-key", files[1])

    @classmethod
    def tearDownClass(cls):
        cls.peer.stop()
        cls.temporary.cleanup()
        super().tearDownClass()

    def refused(self):
        url = "https://{}/".format(self.peer.address)
        return raised(urllib.request.urlopen, url, timeout=DEADLINE)

    def test_an_untrusted_certificate_blocks_although_a_library_calls_it_unreachable(self):
        error = self.refused()
        self.assertIsInstance(error, urllib.error.URLError)
        self.check(error, UNTRUSTED, BLOCKED)
        # httpx names the cause; urllib3 and requests have it as an argument.
        self.check(raised_from(ConnectionError("no peer"), error), UNTRUSTED, BLOCKED)
        self.check(ConnectionError(error), UNTRUSTED, BLOCKED)

    def test_a_certificate_that_is_not_the_cause_decides_nothing(self):
        def after():
            try:
                raise self.refused()
            except urllib.error.URLError:
                {}["fallback"]

        error = raised(after)
        self.assertIsInstance(error.__context__, urllib.error.URLError)
        self.check(error, "builtins.KeyError", UNCLASSIFIED)

    def test_another_failure_of_tls_passes(self):
        def answer(connection):
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

        plain = Listener(answer)
        self.addCleanup(plain.close)
        error = raised(urllib.request.urlopen, "https://{}/".format(plain.address), timeout=DEADLINE)
        self.assertIsInstance(error.reason, ssl.SSLError)
        self.check(error, "urllib.error.URLError", TRANSIENT)

    def test_a_circle_of_causes_ends(self):
        one, other = ValueError("one"), ValueError("other")
        one.__cause__, other.__cause__ = other, one
        self.check(one, "builtins.ValueError", UNCLASSIFIED)


if __name__ == "__main__":
    unittest.main()
