# SPDX-License-Identifier: GPL-2.0-only
"""The table of measurements: one value per row."""

import csv
import os
import platform

HUGE_PAGES = "/sys/kernel/mm/transparent_hugepage/enabled"
COLUMNS = ("kernel", "cpus", "accel", "thp", "size_mb", "threads", "dirty_pct", "what", "metric", "value", "unit",
           "repeat")


def accel():
    """The accelerator that executes the guest's instructions."""
    with open("/proc/cpuinfo", encoding="ascii") as text:
        info = text.read()
    if "QEMU TCG" in info:
        return "tcg"
    return "kvm" if " hypervisor" in info else "none"


def huge_pages():
    """The setting of transparent huge pages: always, madvise or never."""
    with open(HUGE_PAGES, encoding="ascii") as text:
        return text.read().partition("[")[2].partition("]")[0]


class Table:
    """Rows are written at once, so that an interrupted run is not lost."""

    def __init__(self, path, split_huge, clock):
        self.file = open(path, "w", encoding="ascii", newline="")
        self.writer = csv.writer(self.file, lineterminator="\n")
        self.writer.writerow(COLUMNS)
        counted = ", a clock that counts instructions" if clock == "instructions" else ""
        self.machine = (platform.release(), os.cpu_count(), accel() + counted,
                        huge_pages() + (", split by checkpoints" if split_huge else ""))
        self.size = self.threads = self.dirty = self.repeat = ""

    def add(self, what, metric, value, unit, dirty=None):
        """dirty: the percentage, if it is not the current one."""
        self.writer.writerow((*self.machine, self.size, self.threads, self.dirty if dirty is None else dirty, what,
                              metric, value, unit, self.repeat))

    def add_all(self, what, rows):
        for metric, value, unit in rows:
            self.add(what, metric, value, unit)

    def flush(self):
        self.file.flush()

    def close(self):
        self.file.close()
