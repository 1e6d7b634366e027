# SPDX-License-Identifier: GPL-2.0-only
"""All measurements for one size and one number of threads."""

import time

from . import baselines
from .commands import available, kill
from .criu import Criu
from .reprise import Holder, Reprise
from .target import Target


class Cell:
    """A target of one size, and all rivals in turn, so that a disturbance affects all of them."""

    def __init__(self, options, table, folder, size_mb, threads):
        self.options, self.table, self.size_mb = options, table, size_mb
        table.size, table.threads, table.dirty, table.repeat = size_mb, threads, "", 0
        self.target = Target(self.program("target"), folder, size_mb, threads)
        self.reprise = Reprise(folder, table, options.split_huge)
        self.criu = Criu(folder, table)
        self.seconds = {}

    def program(self, name):
        return f"{self.options.programs}/{name}"

    def spend(self, name, function, *args):
        begin = time.monotonic()
        function(*args)
        self.seconds[name] = self.seconds.get(name, 0) + time.monotonic() - begin

    def pauses(self):
        """Pauses from the image that has just been written, with tracking since then."""
        for percent in (0, *self.options.dirty):
            self.table.dirty = percent
            self.table.add("pause", "change pages", self.target.change(percent), "ns")
            self.reprise.pause(self.target.pid, "pause")
            self.target.must_be_unchanged(f"a pause with {percent} % changed")
            self.target.change(percent)
            self.reprise.incremental(self.target.pid)
            self.target.must_be_unchanged(f"an incremental checkpoint with {percent} % changed, and a pause")
            self.target.change(percent)
            self.reprise.incremental(self.target.pid, "delta", "--delta")
            self.target.must_be_unchanged(f"a delta image with {percent} % changed, and a pause")
        self.table.dirty = 100
        self.target.change(100)
        self.reprise.pause(self.target.pid, "pause untracked", "--no-tracking")
        self.target.must_be_unchanged("a pause without tracking")
        self.table.dirty = ""
        self.reprise.pause(self.target.pid, "pause that keeps", "--keep")
        for percent in (0, *self.options.dirty):
            self.table.dirty = percent
            self.target.change(percent)
            self.reprise.pause(self.target.pid, "pause kept")
            self.target.must_be_unchanged(f"a pause to a kept image with {percent} % changed")
        self.reprise.forget(self.target.pid)
        self.table.dirty = ""

    def snapshots(self):
        """A snapshot in memory: the first rollback, and a later one."""
        holder = Holder(self.program("snapshot"), self.target.pid, self.table)
        for percent in (0, *self.options.dirty):
            self.table.dirty = percent
            holder.take()
            before = available()
            self.table.add("snapshot", "change pages", self.target.change(percent), "ns")
            self.table.add("snapshot", "copies", before - available(), "bytes")
            holder.rollback("first rollback")
            self.target.must_be_unchanged(f"a rollback with {percent} % changed")
            self.table.add("later rollback", "change pages", self.target.change(percent), "ns")
            holder.rollback("later rollback")
            self.target.must_be_unchanged(f"a second rollback with {percent} % changed")
            holder.drop()
        holder.close()
        self.table.dirty = ""

    def run_baselines(self):
        dirty = self.options.dirty
        baselines.memcpy(self.program("copy"), self.table, self.size_mb, dirty)
        baselines.fork(self.program("fork"), self.table, self.size_mb, dirty)

    def criu_restore(self):
        self.criu.restore(self.target.pid)
        self.target.must_be_unchanged("criu restore")

    def restart(self):
        self.reprise.restart(self.target.pid)
        self.target.must_be_unchanged("cr_restart")

    def run(self):
        pid = self.target.pid
        for self.table.repeat in range(1, self.options.repeats + 1):
            self.spend("checkpoint", self.reprise.checkpoint, pid)
            self.spend("criu dump", self.criu.dump, pid)
            self.spend("pauses", self.pauses)
            self.spend("criu restore", self.criu_restore)
            self.spend("restart", self.restart)
            self.criu.remove()
            self.reprise.remove()
            self.spend("snapshots", self.snapshots)
            self.spend("memcpy and fork", self.run_baselines)
        self.target.must_be_unchanged("all of them", every_word=True)
        self.table.flush()
        kill(pid)
        self.target.close()
        return self.seconds
