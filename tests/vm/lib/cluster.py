# SPDX-License-Identifier: GPL-2.0-only
"""Several nodes on a private network: a bridge in a network namespace of its own.

Everything a later call needs stands in files of the cluster's folder; nothing
needs a process of vm's to stay.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import debug, qemu
from .base import GUEST, KERNEL_COMPLAINED, PROJECT, RUN, TIMED_OUT, Error, locked, need_root, say
from .console import Console

BOOT_SECONDS = 120
DEBUG_BOOT_SECONDS = 600
HEAD = "10.77.0.254"


def command_output(words):
    result = subprocess.run(words, check=False, capture_output=True, text=True)
    if result.returncode:
        raise Error(f"`{' '.join(words)}` failed: {result.stderr.strip()}")
    return result.stdout


class Node:
    """The files of one node and its QEMU."""

    def __init__(self, folder, number):
        self.number = number
        self.name = f"node{number}"
        self.path = folder / self.name
        self.address = f"10.77.0.{number}"
        self.console = Console(self.path / "console")

    def pid(self):
        """QEMU's pid while it runs; a pid that now belongs to another program does not count."""
        try:
            pid = int((self.path / "pid").read_text("ascii"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return pid if os.fsencode(self.path / "initrd") in words else None

    def ready(self):
        try:
            return b"ready" in (self.path / "control").read_bytes()
        except FileNotFoundError:
            return False

    def cut(self):
        pid = self.pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
            while self.pid():
                time.sleep(0.01)

    def boot(self, built, settings, netns):
        self.path.mkdir(exist_ok=True)
        for name in ("console", "control", "pid"):
            (self.path / name).unlink(missing_ok=True)
        share = settings["share"]
        swap = qemu.swap_file(settings["swap"])
        initrd = self.path / "initrd"
        qemu.initramfs(built.boot / "initramfs.cpio", initrd, {
            "vm/conf": qemu.conf("node", built, self.name, self.address, swap=settings["swap"],
                                 share=share)})
        line = qemu.command(built, initrd, self.console.path, cpus=settings["cpus"],
                            mem=settings["mem"], kvm=qemu.use_kvm(built), share=share,
                            swap_fd=swap, ports=[f"file,path={self.path / 'control'}"],
                            net={"tap": f"tap{self.number}",
                                 "mac": f"52:54:00:4d:00:{self.number:02x}"})
        with open(self.path / "qemu.log", "wb") as log:
            process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{netns}", "--", *line],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                pass_fds=[swap] if swap is not None else [])
        # nsenter executes QEMU in its place: the pid stays the same.
        (self.path / "pid").write_text(str(process.pid), "ascii")
        if swap is not None:
            os.close(swap)
        return process

    def failure(self):
        log = (self.path / "qemu.log").read_text("utf-8", "replace")
        return (self.console.complaint() or self.console.tail()) + "\n" + log


def wait_ready(nodes, again, seconds):
    """`nodes`: node -> process. A node that ends or hangs while booting, without a kernel message or before the module is loaded,
    is booted once more by `again(node)`: an emulating QEMU sometimes fails an assertion of its own (iotlb_to_section), or lets a
    kernel fail that patches its own code."""
    began = {node: time.monotonic() for node in nodes}
    waiting, tried = dict(nodes), set()
    while waiting:
        for node, process in list(waiting.items()):
            ended = process.poll() is not None
            late = time.monotonic() - began[node] > seconds / 2
            ours = node.console.module_loaded() and node.console.complaint()
            if node not in tried and (ended or late) and not ours:
                say(f"{node.name} {'ended' if ended else 'hangs'} while booting: once more")
                tried.add(node)
                process.kill()
                process.wait()
                waiting[node], began[node] = again(node), time.monotonic()
                continue
            if ended:
                raise Error(f"{node.name} ended while booting:\n{node.failure()}")
            if node.ready():
                del waiting[node]
            elif time.monotonic() - began[node] > seconds:
                raise Error(f"not ready after {seconds} s: {node.name}", TIMED_OUT)
        time.sleep(0.05)


class Cluster:
    """A cluster of a given name and its files, running or not."""

    def __init__(self, name):
        if not name.isalnum():
            raise Error(f"--cluster {name}: letters and digits only")
        self.name = name
        self.netns = f"reprise-{name}"
        self.path = RUN / "clusters" / name

    def settings(self):
        try:
            return json.loads((self.path / "settings").read_text("utf-8"))
        except FileNotFoundError:
            raise Error("no cluster is up: `vm up N` starts one") from None

    def nodes(self):
        return [Node(self.path, number) for number in range(1, self.settings()["count"] + 1)]

    def node(self, name):
        for node in self.nodes():
            if name in (node.name, str(node.number)):
                return node
        raise Error(f"no {name} in this cluster: it has node1 to node{self.settings()['count']}")

    def lock(self):
        return locked(RUN / f".lock-{self.name}", "with this cluster")

    def make_network(self, count):
        command_output(["ip", "netns", "add", self.netns])
        batch = ["link set lo up", "link add br0 type bridge",
                 f"addr add {HEAD}/24 dev br0", "link set br0 up"]
        for number in range(1, count + 1):
            batch += [f"tuntap add tap{number} mode tap",
                      f"link set tap{number} master br0 up"]
        result = subprocess.run(["ip", "-n", self.netns, "-batch", "-"], check=False,
                                input="\n".join(batch) + "\n", capture_output=True, text=True)
        if result.returncode:
            raise Error(f"no network for the cluster: {result.stderr.strip()}")

    def remove(self):
        """Remove what is left of the cluster, also after a vm that was killed."""
        if self.path.is_dir():
            for path in self.path.glob("node*"):
                Node(self.path, int(path.name[4:])).cut()
        # A vm may have been killed between starting a QEMU and writing its pid.
        if Path(f"/run/netns/{self.netns}").exists():
            for pid in command_output(["ip", "netns", "pids", self.netns]).split():
                if b"initrd" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(int(pid), signal.SIGKILL)
            command_output(["ip", "netns", "del", self.netns])
        shutil.rmtree(self.path, ignore_errors=True)

    def complaints(self):
        """Print the complaints of the nodes' kernels."""
        found = False
        for node in self.nodes():
            text = node.console.complaint()
            if text:
                found = True
                print(text, file=sys.stderr)
                say(f"the kernel of {node.name} complained, see above")
        return KERNEL_COMPLAINED if found else 0

    def ssh(self, name, user, command):
        node = self.node(name)
        if not node.pid():
            raise Error(f"{node.name} is down: `vm start {node.name}` boots it")
        # The key of the root that it booted with; ssh insists on a private copy.
        key = self.path / "id_ed25519"
        words = ["nsenter", f"--net=/run/netns/{self.netns}", "--",
                 "ssh", "-F", "none", "-i", str(key), "-o", "StrictHostKeyChecking=no",
                 "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
                 "-o", "KexAlgorithms=curve25519-sha256", "-o", "ConnectTimeout=10",
                 "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=6",
                 "-o", "IdentitiesOnly=yes",
                 "-o", "Ciphers=aes128-gcm@openssh.com,aes128-ctr"]
        if not command and os.isatty(0):
            words.append("-t")
        words.append(f"{user}@{node.address}")
        if command:
            # Take words like `vm run`, rather than a line for a shell.
            words += ["--", " ".join(qemu.quote(word) for word in command)]
        before = node.console.complaint()
        status = subprocess.run(words, check=False).returncode
        complaint = node.console.complaint()
        if complaint and not before:
            print(complaint, file=sys.stderr)
            say(f"the kernel of {node.name} complained, see above "
                f"(the command's status was {status})")
            return KERNEL_COMPLAINED
        return status if status >= 0 else 128 - status

    def head(self, command):
        """A command on the head node: the host, in the cluster's network, with the nodes' programs."""
        settings = self.settings()
        root = Path((self.path / "root").read_text("utf-8"))
        state = self.path / "head"
        if not state.is_dir():
            for name in ("tmp", "run", "var/tmp"):
                (state / name).mkdir(parents=True)
            shutil.copytree(root / "root", state / "root")
        words = ["nsenter", f"--net=/run/netns/{self.netns}", "--",
                 "unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--",
                 "sh", str(GUEST / "build.sh"), str(root), str(PROJECT), "head", str(state),
                 settings["share"] or "", *command]
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("LC_", "LANG", "MAKE", "DESTDIR"))}
        status = subprocess.run(words, check=False, env=environment).returncode
        return status if status >= 0 else 128 - status

    def host(self, command):
        self.settings()
        return subprocess.run(["nsenter", f"--net=/run/netns/{self.netns}", "--", *command],
                              check=False).returncode

    def kill(self, name):
        node = self.node(name)
        if not node.pid():
            raise Error(f"{node.name} is down already")
        node.cut()
        return 0

    def boot(self, nodes, built, settings):
        def once(node):
            return node.boot(built, settings, self.netns)
        wait_ready({node: once(node) for node in nodes}, once,
                   DEBUG_BOOT_SECONDS if built.kernel in debug.NAMES else BOOT_SECONDS)

    def start(self, name, built):
        with self.lock():
            node = self.node(name)
            if node.pid():
                raise Error(f"{node.name} is up: `vm kill {node.name}` cuts its power")
            self.boot([node], built, self.settings())
        return 0

    def status(self):
        settings = self.settings()
        print(f"cluster {self.name}: kernel {settings['kernel']}, {settings['cpus']} CPUs, "
              f"{settings['mem']} MB each; network namespace {self.netns}")
        for node in self.nodes():
            state = "down" if not node.pid() else "up" if node.ready() else "booting"
            complained = ", kernel complained" if node.console.complaint() else ""
            print(f"{node.name}  {node.address}  {state}{complained}  {node.console.path}")
        return 0

    def down(self):
        with self.lock():
            status = self.complaints() if (self.path / "settings").exists() else 0
            self.remove()
        return status


def up(built, options):
    need_root("a cluster")
    if not 1 <= options.count <= 64:
        raise Error(f"vm up {options.count}: from 1 to 64 nodes")
    there = Cluster(options.cluster)
    with there.lock():
        # Without this file an earlier `vm up` was killed on its way: nobody has that one.
        if (there.path / "complete").exists() and any(node.pid() for node in there.nodes()):
            raise Error("a cluster of this name is up: `vm down` ends it, "
                        "--cluster NAME starts another")
        there.remove()
        there.path.mkdir(parents=True)
        settings = {"count": options.count, "kernel": options.kernel, "cpus": options.cpus,
                    "mem": options.mem, "swap": options.swap,
                    "share": str(options.share) if options.share else None}
        (there.path / "settings").write_text(json.dumps(settings), "utf-8")
        (there.path / "root").write_text(str(built.root.tree), "utf-8")
        shutil.copy(built.root.key, there.path / "id_ed25519")
        (there.path / "id_ed25519").chmod(0o600)
        try:
            there.make_network(options.count)
            there.boot(there.nodes(), built, settings)
            (there.path / "complete").touch()
        except BaseException:
            there.remove()
            raise
    return 0
