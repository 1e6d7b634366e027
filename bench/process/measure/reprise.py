# SPDX-License-Identifier: GPL-2.0-only
"""The project's own commands, and its snapshots in memory."""

import json
import os
import subprocess

from .commands import Failed, available, kill, stored, timed

# The steps of a report that are recorded, beside the total and the time that threads stood still.
STEPS = ("open", "agent", "freeze", "collect", "snapshot", "verify", "mappings", "pages", "descriptors", "shared",
         "process", "threads", "write")


def times(report):
    yield "operation", report["ns"]["total"], "ns"
    yield "frozen", report["ns"]["frozen"], "ns"
    for step in STEPS:
        if report["ns"][step]:
            yield f"step {step}", report["ns"][step], "ns"


class Reprise:
    """One target and its image."""

    def __init__(self, folder, table, split_huge):
        self.options = ["--split-huge"] if split_huge else []
        self.image = os.path.join(folder, "reprise.img")
        self.log = os.path.join(folder, "reprise.log")
        self.table = table

    def run(self, what, *argv):
        took = timed([*argv, "--json"], self.log)
        with open(self.log, encoding="utf-8") as text:
            report = json.loads(text.read().splitlines()[-1])
        for warning in report["warnings"]:
            raise Failed(f"{' '.join(argv)}: {warning}")
        self.table.add(what, "command", took, "ns")
        self.table.add_all(what, times(report))
        return report

    def checkpoint(self, pid, what="checkpoint"):
        report = self.run(what, "cr_checkpoint", *self.options, str(pid), self.image)
        self.table.add(what, "stored", stored(self.image), "bytes")
        self.table.add(what, "kernel memory", report["kernel_bytes"], "bytes")

    def incremental(self, pid, what="incremental", *options):
        """Save what has changed since the image; then go back to that image, as if nothing had been saved."""
        later = self.image + ".later"
        report = self.run(what, "cr_checkpoint", "--parent", self.image, *options, *self.options, str(pid), later)
        self.table.add(what, "pages saved", report["pages"] - report["pages_inherited"], "pages")
        self.table.add(what, "stored", stored(later), "bytes")
        os.unlink(later)
        timed(["cr_pause", str(pid), self.image], self.log)

    def pause(self, pid, what, *options):
        report = self.run(what, "cr_pause", *options, str(pid), self.image)
        if report["tracked"] == ("--no-tracking" in options):
            raise Failed(f"{what}: the pause was {'' if report['tracked'] else 'not '}tracked")
        self.table.add(what, "pages restored", report["pages_restored"], "pages")

    def forget(self, pid):
        """Drop what --keep has kept."""
        timed(["cr_snapshot", "drop", str(pid), "--all"], self.log)

    def restart(self, pid):
        self.table.add("restart", "kill", kill(pid), "ns")
        if self.run("restart", "cr_restart", "--detach", self.image)["pid"] != pid:
            raise Failed("cr_restart: another pid")

    def remove(self):
        os.unlink(self.image)


class Holder:
    """The process that holds a snapshot of the target in memory."""

    def __init__(self, program, pid, table):
        self.table = table
        self.process = subprocess.Popen([program, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        report = json.loads(self.process.stdout.readline() or "{}")
        if not report.get("ok"):
            raise Failed(f"snapshot {command}: {report.get('message', 'ended')}")
        return report

    def take(self):
        before = available()
        report = self.ask("take")
        self.table.add_all("snapshot", times(report))
        self.table.add("snapshot", "kernel memory", report["kernel_bytes"], "bytes")
        self.table.add("snapshot", "memory", before - available(), "bytes")

    def rollback(self, what):
        report = self.ask("rollback")
        self.table.add_all(what, times(report))
        self.table.add(what, "pages restored", report["pages_restored"], "pages")

    def drop(self):
        self.ask("drop")

    def close(self):
        self.process.communicate()
