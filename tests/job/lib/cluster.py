# SPDX-License-Identifier: GPL-2.0-only
"""The virtual nodes of the scenarios: four nodes and the head node."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[3]
VM = PROJECT / "tests" / "vm" / "vm"
SHARE_BYTES = 3 << 30
NODES = ["node1", "node2", "node3", "node4"]


class Failure(Exception):
    """A check did not hold."""


def wait_until(condition, seconds, what):
    """Calls `condition` until it returns a true value, and returns that value."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise Failure(f"waited {seconds} s in vain: {what}")
        time.sleep(0.1)


def at_once(function, nodes):
    """Call it for all nodes, and wait."""
    threads = [threading.Thread(target=function, args=(node,)) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Cluster:
    """Nodes that are booted once. After a scenario that kills a node, the node is booted again."""

    def __init__(self, name="job", kernel="6.12", mem=900, share_bytes=SHARE_BYTES, disk=False):
        """`disk`: the shared directory is on a file system that hang() can stop, if this host can mount one."""
        self.name = name
        self.logs = Path(tempfile.mkdtemp(prefix="reprise-job-"))
        self.share = self.logs / "share"
        self.kernel = kernel
        self.mem = mem
        self.share_bytes = share_bytes
        self.disk = disk
        self.syns = None
        self.kept = False

    def vm(self, *words, check=True, timeout=180, **options):
        result = subprocess.run([VM, words[0], "--cluster", self.name, *words[1:]], check=False, timeout=timeout,
                                **options)
        if check and result.returncode:
            raise Failure(f"vm {' '.join(map(str, words))}: status {result.returncode}")
        return result

    def build(self):
        """Bring up to date what the nodes run."""
        if subprocess.run([VM, "build", "--kernel", self.kernel], check=False, stdout=sys.stderr).returncode:
            raise Failure("the build failed")

    def up(self):
        # A file system of its own, which a scenario can fill.
        self.share.mkdir(mode=0o755)
        self.disk = self.disk and self.mount_disk()
        if not self.disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=0755,size={self.share_bytes}", "tmpfs", self.share],
                           check=True)
        self.vm("up", str(len(NODES)), "--kernel", self.kernel, "--share", str(self.share), "--mem", str(self.mem),
                "--build", "none")
        self.watch_syns()

    def mount_disk(self):
        """@return whether it is there"""
        memory = self.logs / "memory"
        memory.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.share_bytes}", "tmpfs", memory], check=True)
        image = memory / "disk"
        for words in (["truncate", "-s", str(self.share_bytes - (64 << 20)), image], ["mkfs.ext4", "-q", "-m", "0", image],
                      ["mount", "-o", "loop,noatime", image, self.share]):
            try:
                done = subprocess.run(words, check=False, capture_output=True, text=True)
            except FileNotFoundError:
                return False
            if done.returncode:
                return False
        self.share.chmod(0o755)
        return True

    def hang(self, seconds):
        """Nobody can write to the shared directory for a time: the program that writes waits, and cannot be killed."""
        subprocess.run(["fsfreeze", "--freeze", self.share], check=True)
        # A process of its own: this one may wait for a node that hangs.
        subprocess.Popen(["sh", "-c", f'sleep {seconds}; fsfreeze --unfreeze "$0"', self.share], start_new_session=True)

    def watch_syns(self):
        log = open(self.logs / "syns", "wb")
        self.syns = subprocess.Popen(["nsenter", f"--net=/run/netns/reprise-{self.name}", "--", sys.executable, "-u",
                                      Path(__file__).with_name("syns.py")], stdout=log)

    def down(self):
        if not self.logs.exists():
            return 0
        if self.syns:
            self.syns.kill()
        if self.disk:
            subprocess.run(["fsfreeze", "--unfreeze", self.share], check=False, capture_output=True)
        status = self.vm("down", check=False).returncode
        subprocess.run(["umount", "-l", self.share], check=False)
        if (self.logs / "memory").is_dir():
            subprocess.run(["umount", "-l", self.logs / "memory"], check=False)
        shutil.rmtree(self.logs, ignore_errors=True)
        return status

    def leave_room(self, spare=None):
        """Limit the free space of the share to this many bytes; None: remove the limit."""
        use = os.statvfs(self.share)
        size = self.share_bytes if spare is None else (use.f_blocks - use.f_bfree) * use.f_frsize + spare
        subprocess.run(["mount", "-o", f"remount,size={size}", self.share], check=True)

    def shell(self, place, words, command, check, timeout):
        result = self.vm(*words, "--", "sh", "-c", command, check=False, timeout=timeout,
                         capture_output=True, text=True)
        if check and result.returncode:
            raise Failure(f"{place}: {command}: status {result.returncode}: {result.stderr.strip()}")
        return result.stdout

    def ssh(self, node, command, check=True, timeout=60):
        """Run a shell command on a node. @return its output"""
        return self.shell(node, ["ssh", node], command, check, timeout)

    def head(self, command, check=True, timeout=60):
        """Run a shell command on the head node. @return its output"""
        return self.shell("head", ["head"], command, check, timeout)

    def kill(self, node):
        """Power failure."""
        self.vm("kill", node)

    def start(self, *nodes):
        for node in nodes:
            self.vm("start", node, "--build", "none")

    def up_again(self):
        """Start all nodes that are down, and clean up the others."""
        status = self.vm("status", capture_output=True, text=True).stdout
        for node in NODES:
            line = next(line for line in status.splitlines() if line.startswith(node))
            if " down " in line:
                self.start(node)
            else:
                self.ssh(node, "pkill -9 crd; pkill -9 slurm; sleep 0.2; rm -rf /var/tmp/cr /tmp/reprise-*", check=False)

    def split(self, node, on):
        """Cut a node's cable, or plug it in again."""
        self.vm("host", "--", "ip", "link", "set", f"tap{node[4:]}", "down" if on else "up")

    def syn_list(self):
        """The connection attempts seen on the network so far: (source, port, destination, port)."""
        lines = (self.logs / "syns").read_text("ascii").splitlines()
        return [tuple(line.split()) for line in lines if len(line.split()) == 4]


def quoted(words):
    return " ".join(shlex.quote(str(word)) for word in words)
