"""A machine that systemd has booted: its own processes, mounts, network and control groups, over this root.

It needs root, and a kernel with overlayfs and control groups of version 2; no container runtime and no hypervisor.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

BOOT = pathlib.Path(__file__).parent / "boot.sh"
SYSTEMD = pathlib.Path("/lib/systemd/systemd")
DEADLINE = 60
NAMESPACES = ["--pid", "--mount", "--uts", "--ipc", "--net", "--cgroup"]


class Failed(Exception):
    """A command in the machine failed; its output is the message."""


def control_groups():
    """Returns where the control groups of version 2 are mounted, or None."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return pathlib.Path(place)
    return None


def lacks():
    """Returns what this machine lacks to boot another one, as a sentence, or None."""
    if os.geteuid() != 0:
        return "run as root: it mounts"
    for tool in ["unshare", "nsenter", "setpriv", "dpkg"]:
        if not shutil.which(tool):
            return f"{tool} is missing"
    if not SYSTEMD.exists():
        return "systemd is missing"
    if "overlay" not in pathlib.Path("/proc/filesystems").read_text():
        return "the kernel has no overlayfs"
    if control_groups() is None:
        return "no control groups of version 2 are mounted"
    return None


class Machine:
    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.group = control_groups() / pathlib.Path(self.folder.name).name
        self.group.mkdir()
        self.log = open(pathlib.Path(self.folder.name, "log"), "w+")
        os.mkdir(f"{self.folder.name}/work")
        # The shell joins the group before it unshares, so the group is the root of the groups in the machine. The
        # machine ends with this process, however that ends.
        inside = f"echo 0 >{self.group}/cgroup.procs && exec setpriv --pdeathsig=KILL \"$@\""
        unshare = ["unshare", "--fork", "--kill-child", *NAMESPACES, BOOT, f"{self.folder.name}/work"]
        self.unshare = subprocess.Popen(
            ["sh", "-c", inside, "sh", *unshare],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        try:
            self.first = self.wait(self.first_process)
            self.wait(self.is_running)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # The end of its first process ends all others of the machine.
        if (first := self.first_process()) is not None:
            os.kill(first, signal.SIGKILL)
        self.unshare.kill()
        self.unshare.wait(DEADLINE)
        self.wait(self.remove_groups)
        self.log.close()
        self.folder.cleanup()

    def first_process(self):
        children = pathlib.Path(f"/proc/{self.unshare.pid}/task/{self.unshare.pid}/children")
        found = children.read_text().split() if children.exists() else []
        return int(found[0]) if found else None

    def is_running(self):
        """Returns whether systemd has started everything; before boot.sh has ended, there is no systemctl to call."""
        if os.readlink(f"/proc/{self.first}/exe") != os.path.realpath(SYSTEMD):
            return None
        ask = self.inside("systemctl", "is-system-running")
        state = subprocess.run(ask, capture_output=True, text=True, check=False)
        return True if state.stdout.strip() in ("running", "degraded") else None

    def remove_groups(self):
        """Removes the control groups of the machine once their processes have ended."""
        try:
            for path, _, _ in os.walk(self.group, topdown=False):
                os.rmdir(path)
            return True
        except OSError:
            return None

    def wait(self, condition):
        """Waits until the condition gives something, and returns it."""
        until = time.monotonic() + DEADLINE
        while (found := condition()) is None:
            ended = self.unshare.poll() is not None and condition != self.remove_groups
            if ended or until < time.monotonic():
                self.log.seek(0)
                raise AssertionError(f"{condition.__name__}: not within {DEADLINE} s\n{self.log.read()}")
            time.sleep(0.05)
        return found

    def inside(self, *command):
        return ["nsenter", f"--target={self.first}", "--all", *map(str, command)]

    def run(self, *command, content=b""):
        """Runs a command in the machine with `content` as its input, and returns what it printed."""
        done = subprocess.run(self.inside(*command), input=content, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=DEADLINE, check=False)
        said = done.stdout.decode(errors="replace")
        if done.returncode != 0:
            raise Failed(f"{command}: {done.returncode}\n{said}")
        return said

    def write(self, path, content):
        self.run("tee", path, content=content)
