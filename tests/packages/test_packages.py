"""Installs each artefact of a release, and runs the commands of the first screen against it.

`make packages-test` makes the artefacts first. ARTEFACTS names their folder. The tests of the .deb and of the image
need root, because each changes its root folder.
"""

import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ARTEFACTS = pathlib.Path(os.environ.get("ARTEFACTS", TARGET / "release-artefacts"))
VERSION = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
DEADLINE = 30
EXPOSURE_MAX = 1.5
STARTS = 20
START_MILLISECONDS_MAX = 250
NEEDS_ROOT = "run as root: it changes its root folder"


def first_screen():
    """Returns the commands of the README up to the heading of the installation."""
    text = (ROOT / "README.md").read_text().split("## Install")[0]
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    commands = [line for block in blocks for line in block.splitlines() if line.startswith("bellwether ")]
    assert len(commands) >= 4, commands
    return commands


def run(*command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=DEADLINE, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def system_calls(name):
    """Returns the system calls of a set of systemd, such as `@system-service`."""
    if not name.startswith("@"):
        return {name}
    lines = run("systemd-analyze", "syscall-filter", name).splitlines()[1:]
    names = [line.strip() for line in lines if not line.strip().startswith("#")]
    return set().union(*(system_calls(one) for one in names if one))


class Server:
    """A server that is started by the given command; it drains at the end."""

    def __init__(self, *command, path=None, env=None, notify=None):
        self.path = path
        environment = {"PATH": os.environ["PATH"], **(env or {})}
        if notify:
            environment["NOTIFY_SOCKET"] = notify
        self.process = subprocess.Popen(
            [*command, "--print-addresses", "json", "--grpc-listen", "127.0.0.1:0", "--ops-listen", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)

    def __enter__(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate(timeout=DEADLINE)[1])
        self.url = "http://" + json.loads(line)["grpc"]
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.said = self.process.communicate(timeout=DEADLINE)[1]
        assert self.process.returncode == 0, self.said

    def test_first_screen(self):
        """Runs the commands, with the program that was installed, as a user does."""
        env = {"PATH": f"{self.path}:{os.environ['PATH']}", "BELLWETHER_SERVER": self.url, "HOME": "/nonexistent"}
        said = [run("sh", "-ec", command, env=env) for command in first_screen()]
        assert any("1 blocked" in one for one in said), said
        assert "web is blocked" in said[-1] and "add a database relation" in said[-1], said[-1]
        assert VERSION in run(f"{self.path}/bellwether", "version", env=env)
        run(f"{self.path}/bellwether", "health", env=env)


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # Users of an installed package enter its folder.
        self.folder.chmod(0o755)

    def test_checksums(self):
        lines = (ARTEFACTS / "SHA256SUMS").read_text().splitlines()
        listed = dict(reversed(line.split("  ")) for line in lines)
        others = {path.name for path in ARTEFACTS.iterdir()} - {"SHA256SUMS"}
        self.assertEqual(set(listed), others)
        for name, digest in listed.items():
            self.assertEqual(hashlib.sha256((ARTEFACTS / name).read_bytes()).hexdigest(), digest, name)

    def test_archive(self):
        with tarfile.open(ARTEFACTS / f"bellwether-{VERSION}-x86_64-linux.tar.gz") as archive:
            archive.extractall(self.folder)
            self.assertEqual({member.uid for member in archive}, {0})
        (installed,) = self.folder.iterdir()
        names = {path.relative_to(installed).as_posix() for path in installed.rglob("*")}
        for name in ["LICENSE", "THIRD-PARTY-LICENSES.txt", "bellwether.toml", "man/bellwether.1",
                     "man/bellwether-status.1", "completions/bellwether.bash", "completions/bellwether.zsh",
                     "python/bellwether_client.py"]:
            self.assertIn(name, names)
        self.assertIn("statically linked", run("ldd", installed / "bellwether"))
        run("bash", "-n", installed / "completions/bellwether.bash")
        with Server(installed / "bellwether", "serve", "--data-dir", self.folder / "data", path=installed) as server:
            server.test_first_screen()

    def test_the_server_starts_quickly(self):
        with tarfile.open(ARTEFACTS / f"bellwether-{VERSION}-x86_64-linux.tar.gz") as archive:
            archive.extract(f"bellwether-{VERSION}-x86_64-linux/bellwether", self.folder)
        program = self.folder / f"bellwether-{VERSION}-x86_64-linux/bellwether"
        for store in ["--ephemeral", "--data-dir"]:
            fastest = float("inf")
            for number in range(STARTS):
                place = [self.folder / f"data-{number}"] if store == "--data-dir" else []
                begin = time.monotonic()
                # Serves once it has printed its addresses.
                with Server(program, "serve", store, *place):
                    fastest = min(fastest, 1000 * (time.monotonic() - begin))
            print(f"fastest start of {STARTS} with {store}: {fastest:.1f} ms")
            self.assertLess(fastest, START_MILLISECONDS_MAX)

    def test_no_path_of_the_build_is_in_the_binary(self):
        with tarfile.open(ARTEFACTS / f"bellwether-{VERSION}-x86_64-linux.tar.gz") as archive:
            content = archive.extractfile(f"bellwether-{VERSION}-x86_64-linux/bellwether").read()
        for place in [ROOT, TARGET, pathlib.Path.home() / ".cargo"]:
            self.assertFalse(f"{place}/".encode() in content, f"the binary contains {place}")
        self.assertTrue(b"/cargo/registry/" in content)

    def deb(self):
        return ARTEFACTS / f"bellwether_{VERSION}_amd64.deb"

    def test_the_service_is_hardened(self):
        run("dpkg-deb", "--extract", self.deb(), self.folder)
        unit = self.folder / "usr/lib/systemd/system/bellwether.service"
        if not shutil.which("systemd-analyze"):
            self.skipTest("systemd-analyze is missing")
        said = run("systemd-analyze", "security", "--offline=true", unit)
        exposure = float(re.search(r"exposure level for .*: ([\d.]+)", said)[1])
        print(f"exposure of the service: {exposure}")
        self.assertLessEqual(exposure, EXPOSURE_MAX, said)

    def test_the_service_allows_every_system_call(self):
        """Traces a server with an embedded store: a server may go on after a call that the kernel refuses."""
        if not shutil.which("strace") or not shutil.which("systemd-analyze"):
            self.skipTest("strace or systemd-analyze is missing")
        run("dpkg-deb", "--extract", self.deb(), self.folder)
        unit = (self.folder / "usr/lib/systemd/system/bellwether.service").read_text()
        allowed = set()
        for setting in re.findall(r"^SystemCallFilter=(.*)$", unit, re.MULTILINE):
            calls = set().union(*(system_calls(name) for name in setting.lstrip("~").split()))
            allowed = allowed - calls if setting.startswith("~") else allowed | calls
        trace = self.folder / "trace"
        installed = self.folder / "usr/bin"
        strace = ["strace", "--follow-forks", "--quiet=all", "--output", trace]
        with Server(*strace, installed / "bellwether", "serve", "--data-dir", self.folder / "data", path=installed) as server:
            server.test_first_screen()
            # strace passes no signal on, so the server itself gets it.
            pid = int(trace.read_text().split()[0])
            os.kill(pid, signal.SIGTERM)
        used = set(re.findall(r"^\d+ +([a-z0-9_]+)\(", trace.read_text(), re.MULTILINE))
        self.assertLess(30, len(used))
        self.assertEqual(used - allowed - system_calls("@default"), set())

    @unittest.skipIf(os.geteuid() != 0, NEEDS_ROOT)
    def test_deb(self):
        root = self.install()
        self.assertEqual(run("dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "bellwether").split()[1], VERSION)
        self.assertIn("bellwether.toml", (root / "var/lib/dpkg/info/bellwether.conffiles").read_text())
        self.assertTrue((root / "usr/share/man/man1/bellwether.1.gz").exists())
        for unit in ("bellwether-resume@.service", "bellwether-notify.service", "bellwether-relay.service"):
            self.assertTrue((root / "usr/lib/systemd/system" / unit).exists())
        user = next(line for line in (root / "etc/passwd").read_text().splitlines() if line.startswith("bellwether:"))
        uid, gid = map(int, user.split(":")[2:4])
        data = root / "var/lib/bellwether"
        data.mkdir(mode=0o700)  # systemd makes it
        os.chown(data, uid, gid)
        # The manager is outside of the root, and systemd mounts its socket into it.
        (root / "run").mkdir()
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        manager.bind(str(root / "run/notify"))
        os.chmod(root / "run/notify", 0o777)
        manager.settimeout(DEADLINE)
        unit = (root / "usr/lib/systemd/system/bellwether.service").read_text()
        start = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)[1].split()
        server = Server("chroot", f"--userspec={uid}:{gid}", root, *start, path=root / "usr/bin", notify="/run/notify")
        with server:
            self.assertIn(b"READY=1", manager.recv(512))
            server.test_first_screen()
        self.assertIn(b"STOPPING=1", manager.recv(512))
        self.assertTrue((data / "bellwether.redb").exists() or any(data.iterdir()))
        self.remove(root)

    def install(self):
        """Installs the package into a root of its own."""
        root = self.folder / "root"
        for name in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "usr/sbin"]:
            (root / name).mkdir(parents=True)
        for name in ["var/lib/dpkg/status", "var/lib/dpkg/available", "etc/shadow", "etc/gshadow"]:
            (root / name).touch()
        (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (root / "etc/group").write_text("root:x:0:\n")
        self.dpkg = ["dpkg", f"--root={root}", "--force-depends", "--force-script-chrootless"]
        run(*self.dpkg, "--install", self.deb())
        # A repeated installation is an upgrade, and keeps a changed configuration.
        with (root / "etc/bellwether/bellwether.toml").open("a") as settings:
            settings.write("\n[limits]\nunits_max = 7\n")
        run(*self.dpkg, "--force-confold", "--install", self.deb())
        self.assertIn("units_max = 7", (root / "etc/bellwether/bellwether.toml").read_text())
        return root

    def remove(self, root):
        run(*self.dpkg, "--remove", "bellwether")
        self.assertFalse((root / "usr/bin/bellwether").exists())
        self.assertTrue((root / "var/lib/bellwether").exists())
        run(*self.dpkg, "--purge", "bellwether")
        self.assertFalse((root / "var/lib/bellwether").exists())
        self.assertFalse((root / "etc/bellwether/bellwether.toml").exists())
        self.assertNotIn("bellwether:", (root / "etc/passwd").read_text())

    @unittest.skipIf(os.geteuid() != 0, NEEDS_ROOT)
    def test_image(self):
        config = self.unpack_image()
        about = config["config"]
        self.assertEqual(about["Labels"]["org.opencontainers.image.version"], VERSION)
        self.assertEqual(about["StopSignal"], "SIGTERM")
        root = self.folder / "image"
        self.assertTrue((root / "etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") > 50)
        uid, gid = about["User"].split(":")
        self.assertNotEqual(uid, "0")
        into = ["chroot", f"--userspec={uid}:{gid}", root]
        env = dict(setting.split("=", 1) for setting in about["Env"])
        bare = ["env", "-i", *about["Env"]]
        into[0] = shutil.which("chroot")
        with Server(*bare, *into, *about["Entrypoint"], *about["Cmd"], path=root / "usr/local/bin") as server:
            server.test_first_screen()
            self.assertTrue(any((root / env["BELLWETHER_DATA_DIR"].lstrip("/")).iterdir()))
            probe = about["Healthcheck"]["Test"]
            self.assertEqual(probe[0], "CMD")
            run(*into, *probe[1:], "--server", server.url)

    def unpack_image(self):
        """Unpacks the layers of the image, following the layout from its index; returns its configuration."""
        with tarfile.open(ARTEFACTS / f"bellwether-{VERSION}-amd64-image.tar") as archive:
            blobs = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}

        def blob(described):
            content = blobs["blobs/" + described["digest"].replace(":", "/")]
            self.assertEqual(hashlib.sha256(content).hexdigest(), described["digest"].split(":")[1])
            self.assertEqual(len(content), described["size"])
            return content

        manifest = json.loads(blob(json.loads(blobs["index.json"])["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        for described, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            plain = gzip.decompress(blob(described))
            self.assertEqual("sha256:" + hashlib.sha256(plain).hexdigest(), diff_id)
            with tarfile.open(fileobj=io.BytesIO(plain)) as layer:
                layer.extractall(self.folder / "image", numeric_owner=True)
        (saved,) = json.loads(blobs["manifest.json"])
        self.assertEqual(json.loads(blobs[saved["Config"]]), config)
        return config

    def test_compose_names_the_image(self):
        text = (ARTEFACTS / f"bellwether-{VERSION}-compose.yaml").read_text()
        with tarfile.open(ARTEFACTS / f"bellwether-{VERSION}-amd64-image.tar") as archive:
            (saved,) = json.load(archive.extractfile("manifest.json"))
        self.assertIn(saved["RepoTags"][0], text.replace("${BELLWETHER_VERSION:-" + VERSION + "}", VERSION))
        self.assertNotIn("@", text)

    def test_bill_of_materials(self):
        bill = json.loads((ARTEFACTS / f"bellwether-{VERSION}-x86_64-linux.cdx.json").read_text())
        names = {part["name"] for part in bill["components"]}
        self.assertLessEqual({"tonic", "tokio", "redb", "aws-lc-sys", "libmimalloc-sys", "rust-std", "musl"}, names)
        self.assertTrue(names.isdisjoint({"proptest", "tempfile", "protox", "clap_derive", "prost-build"}), names)
        for part in bill["components"]:
            self.assertTrue(part["licenses"][0]["expression"], part["name"])


if __name__ == "__main__":
    unittest.main()
