# SPDX-License-Identifier: GPL-2.0-only
"""CRIU in the same guest, with the same target."""

import os
import re
import shutil
import subprocess

from .commands import Failed, kill, stored, timed

# CRIU's statistics file: two magic numbers, the length and the message. Times are in microseconds.
HEADER_BYTES = 12
DUMP, RESTORE = 1, 2
FREEZING, FROZEN = 1, 2
RESTORE_TIME = 4


def statistics(path, part):
    """The numbers of stats-dump or stats-restore, by the field numbers of CRIU's stats.proto."""
    with open(path, "rb") as file:
        message = file.read()[HEADER_BYTES:]
    text = subprocess.run(["protoc", "--decode_raw"], input=message, capture_output=True, check=True).stdout.decode()
    found = re.search(rf"^{part} {{\n(.*?)^}}", text, re.MULTILINE | re.DOTALL)
    if not found:
        raise Failed(f"{path}: cannot be understood:\n{text}")
    return {int(field): int(value) for field, value in re.findall(r"^ +(\d+): (\d+)$", found[1], re.MULTILINE)}


class Criu:
    """One target and CRIU's dump of it."""

    def __init__(self, folder, table):
        self.folder = os.path.join(folder, "criu")
        self.log = os.path.join(folder, "criu.out")
        self.table = table

    def run(self, *argv):
        log = os.path.join(self.folder, "log")
        try:
            return timed(["criu", *argv, "-D", self.folder, "-o", log, "-v1"], self.log)
        except Failed as failed:
            with open(log, encoding="utf-8", errors="replace") as text:
                raise Failed(f"{failed}{text.read()}") from None

    def dump(self, pid):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.mkdir(self.folder)
        took = self.run("dump", "-t", str(pid), "--leave-running")
        numbers = statistics(os.path.join(self.folder, "stats-dump"), DUMP)
        self.table.add("criu dump", "command", took, "ns")
        self.table.add("criu dump", "frozen", (numbers[FREEZING] + numbers[FROZEN]) * 1000, "ns")
        self.table.add("criu dump", "stored", stored(self.folder), "bytes")

    def restore(self, pid):
        """A rollback with CRIU: kill the process, restore it from the dump."""
        killed = kill(pid)
        took = self.run("restore", "-d")
        numbers = statistics(os.path.join(self.folder, "stats-restore"), RESTORE)
        self.table.add("criu restore", "kill", killed, "ns")
        self.table.add("criu restore", "command", took, "ns")
        self.table.add("criu restore", "kill and restore", killed + took, "ns")
        self.table.add("criu restore", "restore_time", numbers[RESTORE_TIME] * 1000, "ns")

    def remove(self):
        shutil.rmtree(self.folder)
