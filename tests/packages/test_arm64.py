"""Runs the binary for arm64 in an emulator, and looks at the packages that have it.

The emulator has no arm64 root, so the Debian package and the image are not installed: their parts are compared with
those for amd64. The binary is static, and runs by itself.
"""

import io
import json
import pathlib
import shutil
import tarfile
import tempfile
import unittest

from test_packages import ARTEFACTS, VERSION, Server, run

EMULATOR = shutil.which("qemu-aarch64-static")
AARCH64 = 183  # EM_AARCH64 of elf.h


def binary_of(machine):
    name = f"bellwether-{VERSION}-{machine}-linux"
    with tarfile.open(ARTEFACTS / f"{name}.tar.gz") as archive:
        return archive.extractfile(f"{name}/bellwether").read()


def names_in_deb(architecture):
    listed = run("dpkg-deb", "--contents", ARTEFACTS / f"bellwether_{VERSION}_{architecture}.deb")
    return {line.split()[5] for line in listed.splitlines()}


def image_config(architecture):
    with tarfile.open(ARTEFACTS / f"bellwether-{VERSION}-{architecture}-image.tar") as archive:
        (saved,) = json.load(archive.extractfile("manifest.json"))
        config = json.load(archive.extractfile(saved["Config"]))
        layer = archive.extractfile(saved["Layers"][0]).read()
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        return config, files.extractfile("usr/local/bin/bellwether").read()


class Arm64(unittest.TestCase):
    def test_each_package_has_the_binary_for_arm64(self):
        binary = binary_of("aarch64")
        self.assertEqual(binary[:4], b"\x7fELF")
        self.assertEqual(int.from_bytes(binary[18:20], "little"), AARCH64)
        control = run("dpkg-deb", "--field", ARTEFACTS / f"bellwether_{VERSION}_arm64.deb", "Architecture", "Version")
        self.assertEqual(control.split()[1::2], ["arm64", VERSION])
        self.assertEqual(names_in_deb("arm64"), names_in_deb("amd64"))
        config, inside = image_config("arm64")
        self.assertEqual((config["architecture"], inside), ("arm64", binary))
        other, _ = image_config("amd64")
        self.assertEqual((other["architecture"], other["config"]["Entrypoint"]),
                         ("amd64", config["config"]["Entrypoint"]))
        parts = json.loads((ARTEFACTS / f"bellwether-{VERSION}-aarch64-linux.cdx.json").read_text())
        self.assertIn("aarch64-unknown-linux-musl", json.dumps(parts["metadata"]["properties"]))

    @unittest.skipUnless(EMULATOR, "qemu-aarch64-static is missing: tools/install packages")
    def test_the_first_screen_runs_in_an_emulator(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "real").write_bytes(binary_of("aarch64"))
            (folder / "real").chmod(0o755)
            # The commands of the first screen call a program of this name.
            (folder / "bellwether").write_text(f'#!/bin/sh\nexec {EMULATOR} {folder}/real "$@"\n')
            (folder / "bellwether").chmod(0o755)
            data = folder / "data"
            for store in (["--ephemeral"], ["--data-dir", data], ["--data-dir", data]):
                with Server(EMULATOR, folder / "real", "serve", *store, path=folder) as server:
                    server.test_first_screen()
