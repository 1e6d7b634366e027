# SPDX-License-Identifier: GPL-2.0-only
"""gVisor's checkpoint in the same guest: the target runs in a sandbox, which is saved and restored as a whole."""

import json
import os
import shutil
import subprocess

from .commands import Failed, adopt, stored, timed

COMMANDS, ANSWERS = "/tmp/commands", "/tmp/answers"
ANSWER_SECONDS = 120


def bundle(argv):
    """The configuration of a container (OCI runtime specification) whose root is that of the guest."""
    namespaces = [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount")]
    return {"ociVersion": "1.0.0",
            "process": {"user": {"uid": 0, "gid": 0}, "args": argv, "env": ["PATH=/usr/bin:/bin"], "cwd": "/"},
            "root": {"path": "/", "readonly": True},
            "mounts": [{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
                       {"destination": "/proc", "type": "proc", "source": "proc"}],
            "linux": {"namespaces": namespaces}}


class Gvisor:
    """One sandbox with a target, and its image. A restored sandbox has a new name."""

    def __init__(self, runsc, folder, table, program, size_mb, threads):
        self.runsc = [runsc, "--root", os.path.join(folder, "sandboxes"), "--network=none", "--ignore-cgroups"]
        self.bundle, self.image = os.path.join(folder, "bundle"), os.path.join(folder, "gvisor")
        self.log = os.path.join(folder, "gvisor.out")
        self.table, self.number = table, 1
        os.mkdir(self.bundle)
        start = f"mkfifo {COMMANDS} {ANSWERS}; exec {program} {COMMANDS} {ANSWERS} {size_mb} {threads}"
        with open(os.path.join(self.bundle, "config.json"), "w", encoding="ascii") as file:
            json.dump(bundle(["/bin/sh", "-c", start]), file)
        self.run("run", "--detach", "--bundle", self.bundle, self.name())
        if self.answer(f"until test -p {ANSWERS}; do sleep 0.1; done") != "ready":
            raise Failed("gVisor: the target does not start")

    def name(self):
        return f"target-{self.number}"

    def run(self, *argv):
        adopt(False)  # runsc waits until somebody has waited for a sandbox that it has killed
        took = timed([*self.runsc, *argv], self.log)
        adopt()
        return took

    def answer(self, before):
        """Execute a command of the shell in the sandbox. @return what the target answers then"""
        done = subprocess.run([*self.runsc, "exec", self.name(), "timeout", str(ANSWER_SECONDS), "sh", "-c",
                               f"{before}; read answer <{ANSWERS}; echo $answer"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"gVisor: the target does not answer: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def ask(self, command):
        return int(self.answer(f"echo '{command}' >{COMMANDS}"))

    def checkpoint(self):
        shutil.rmtree(self.image, ignore_errors=True)
        os.mkdir(self.image)
        took = self.run("checkpoint", "--leave-running", "--image-path", self.image, self.name())
        self.table.add("gvisor checkpoint", "command", took, "ns")
        self.table.add("gvisor checkpoint", "stored", stored(self.image), "bytes")

    def restore(self):
        """A rollback with gVisor: end the sandbox, restore another one."""
        killed = self.run("delete", "--force", self.name())
        self.number += 1
        took = self.run("restore", "--detach", "--bundle", self.bundle, "--image-path", self.image, self.name())
        self.table.add("gvisor restore", "kill and restore", killed + took, "ns")
        self.table.add("gvisor restore", "command", took, "ns")
        if changed := self.ask("c"):
            raise Failed(f"{changed} pages are not what they were, after gVisor's restore")

    def end(self):
        self.run("delete", "--force", self.name())
        shutil.rmtree(self.image, ignore_errors=True)
