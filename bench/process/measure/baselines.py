# SPDX-License-Identifier: GPL-2.0-only
"""The time of memcpy and fork for the same pages."""

import os
import subprocess

from .commands import Failed


def lines(argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(argv)}: {done.stderr}")
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


def memcpy(program, table, size_mb, dirty):
    """With one thread, and with one per CPU, the number of threads that restore pages in a rollback."""
    for threads, percent, took in lines([program, str(size_mb), str(os.cpu_count()), *map(str, dirty)]):
        table.add("memcpy" if threads == 1 else "memcpy by all CPUs", "operation", took, "ns", dirty=percent)


def fork(program, table, size_mb, dirty):
    for percent, forked, touched, ended in lines([program, str(size_mb), *map(str, dirty)]):
        table.add("fork", "fork", forked, "ns", dirty=percent)
        table.add("fork", "change pages", touched, "ns", dirty=percent)
        table.add("fork", "end", ended, "ns", dirty=percent)
        table.add("fork", "operation", ended + forked, "ns", dirty=percent)
