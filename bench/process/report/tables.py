# SPDX-License-Identifier: GPL-2.0-only
"""All medians, in tables."""

from .goals import place
from .text import mb, ms, table

# Columns: title, what, metric, format
ONCE = (
    ("checkpoint", "checkpoint", "command", ms),
    ("CRIU dump", "criu dump", "command", ms),
    ("still: checkpoint", "checkpoint", "frozen", ms),
    ("still: CRIU", "criu dump", "frozen", ms),
    ("restart", "restart", "command", ms),
    ("CRIU restore", "criu restore", "command", ms),
    ("CRIU kill and restore", "criu restore", "kill and restore", ms),
)
BY_DIRTY = (
    ("pause", "pause", "operation", ms),
    ("pause, command", "pause", "command", ms),
    ("pause, kept", "pause kept", "operation", ms),
    ("pause, kept, command", "pause kept", "command", ms),
    ("not tracked", "pause untracked", "operation", ms),
    ("first rollback", "first rollback", "operation", ms),
    ("later rollback", "later rollback", "operation", ms),
    ("memcpy", "memcpy", "operation", ms),
    ("memcpy by all CPUs", "memcpy by all CPUs", "operation", ms),
    ("fork: end and fork again", "fork", "operation", ms),
    ("incremental checkpoint", "incremental", "command", ms),
    ("delta image", "delta", "command", ms),
    ("still: incremental", "incremental", "frozen", ms),
)
CHANGING = (
    ("tracked", "pause", "change pages", ms),
    ("with a snapshot", "snapshot", "change pages", ms),
    ("after a rollback", "later rollback", "change pages", ms),
    ("in a forked child", "fork", "change pages", ms),
)
MEMORY = (
    ("image, MB", "checkpoint", "stored", mb),
    ("CRIU's, MB", "criu dump", "stored", mb),
    ("kernel memory beside a snapshot, MB", "snapshot", "kernel memory", mb),
    ("copies of changed pages, MB", "snapshot", "copies", mb),
)


def one(values, place, column):
    _title, what, metric, show = column
    for key in ((*place, what, metric), (*place[:2], "", what, metric)):
        if values.has(*key):
            return show(values.median(*key))
    return ""


def by_cell(values, columns):
    head = ["MB", "threads", *[column[0] for column in columns]]
    return table(head, [[str(size), str(threads), *[one(values, (size, threads, ""), c) for c in columns]]
                        for size, threads in values.cells()])


def by_dirty(values, columns):
    head = ["MB", "threads", "changed, %", *[column[0] for column in columns]]
    return table(head, [[str(size), str(threads), str(dirty), *[one(values, (size, threads, dirty), c) for c in columns]]
                        for size, threads in values.cells() for dirty in values.dirty()])


def steps(values):
    """The time of each step of a pause."""
    size, threads = place(values)
    kinds = [(what, dirty) for what in ("pause", "first rollback", "later rollback") for dirty in values.dirty()]
    names = sorted({key[4] for key in values.keys() if key[3] in ("pause", "first rollback") and
                    (key[4].startswith("step ") or key[4] in ("frozen", "operation", "command"))},
                   key=lambda metric: (not metric.startswith("step"), metric))
    rows = [[metric.removeprefix("step "), *[ms(values.median(size, threads, dirty, what, metric))
                                             if values.has(size, threads, dirty, what, metric) else ""
                                             for what, dirty in kinds]] for metric in names]
    return f"### Steps, {size} MB, {threads} threads (ms)\n\n" + table(
        ["step", *[f"{what}, {dirty} %" for what, dirty in kinds]], rows)


def tables(values):
    return "\n".join((
        "## Medians\n\n### Checkpoint and restart (ms)\n\n" + by_cell(values, ONCE),
        "### Rolling back (ms)\n\n" + by_dirty(values, BY_DIRTY),
        "### What changing the pages takes the program (ms)\n\n" + by_dirty(values, CHANGING),
        "### Memory\n\n" + by_dirty(values, MEMORY),
        steps(values)))
