# SPDX-License-Identifier: GPL-2.0-only
"""The goals and the measured ratios."""

from .text import ms, three

# The case in which the goals are checked, if it was measured.
SIZE, THREADS = 256, 16

# text; sense; ratio asked for; the two keys to compare (dirty %, what, metric). "at least": the first, a rival's,
# must be at least this many times the second. "at most": the first, ours, must be at most this many times the second.
GOALS = (
    ("pause, 1 % changed: the operation", "at least", 100,
     ("", "criu restore", "kill and restore"), (1, "pause", "operation")),
    ("pause, 1 % changed: the whole command", "at least", 20,
     ("", "criu restore", "kill and restore"), (1, "pause", "command")),
    ("pause, 100 % changed: the operation", "at least", 10,
     ("", "criu restore", "kill and restore"), (100, "pause", "operation")),
    ("pause to an image kept in memory, 1 % changed: the operation", "at least", 100,
     ("", "criu restore", "kill and restore"), (1, "pause kept", "operation")),
    ("the same: the whole command", "at least", 30,
     ("", "criu restore", "kill and restore"), (1, "pause kept", "command")),
    ("pause to an image kept in memory, 100 % changed: the operation", "at least", 8,
     ("", "criu restore", "kill and restore"), (100, "pause kept", "operation")),
    ("rollback to a snapshot in memory, 100 % changed, the first, against memcpy", "at most", 2,
     (100, "first rollback", "operation"), (100, "memcpy", "operation")),
    ("rollback to a snapshot in memory, 100 % changed, those that follow, against memcpy", "at most", 2,
     (100, "later rollback", "operation"), (100, "memcpy", "operation")),
    ("checkpoint: how long threads stand still", "at least", 20,
     ("", "criu dump", "frozen"), ("", "checkpoint", "frozen")),
    ("checkpoint: the whole command", "at least", 1,
     ("", "criu dump", "command"), ("", "checkpoint", "command")),
    ("restart: the whole command", "at least", 1,
     ("", "criu restore", "command"), ("", "restart", "command")),
)

# With a clock that counts instructions: text; our key; milliseconds asked for, that is, millions of instructions; a
# rival's key.
COUNTED = (
    ("pause, nothing changed: the operation", (0, "pause", "operation"), 0.7, None),
    ("the same: the command", (0, "pause", "command"), 3, None),
    ("pause, 1 % changed: the operation", (1, "pause", "operation"), 2.5, ("", "criu restore", "kill and restore")),
    ("the same: the command", (1, "pause", "command"), 5, ("", "criu restore", "kill and restore")),
    ("pause, 100 % changed: the operation", (100, "pause", "operation"), 120, ("", "criu restore", "kill and restore")),
    ("pause to an image kept in memory, nothing changed: the operation", (0, "pause kept", "operation"), 0.7, None),
    ("the same: the command", (0, "pause kept", "command"), 3, None),
    ("pause to an image kept in memory, 1 % changed: the operation", (1, "pause kept", "operation"), 2.5,
     ("", "criu restore", "kill and restore")),
    ("the same: the command", (1, "pause kept", "command"), 5, ("", "criu restore", "kill and restore")),
    ("snapshot taken, of huge pages", (0, "snapshot", "operation"), 1, (1, "fork", "fork")),
    ("rollback to it, nothing changed", (0, "later rollback", "operation"), 0.2, None),
    ("rollback to it, 1 % changed", (1, "later rollback", "operation"), 1.5, (1, "fork", "operation")),
    ("rollback to it, 100 % changed", (100, "later rollback", "operation"), 70, (100, "fork", "operation")),
    ("checkpoint: threads stand still", ("", "checkpoint", "frozen"), 2, ("", "criu dump", "frozen")),
    ("incremental checkpoint, 1 % changed: threads stand still", (1, "incremental", "frozen"), 2.5,
     ("", "criu dump", "frozen")),
    ("checkpoint: the command", ("", "checkpoint", "command"), 250, ("", "criu dump", "command")),
    ("restart: the command", ("", "restart", "command"), 150, ("", "criu restore", "command")),
)


def name(key):
    dirty, what, metric = key
    return f"{what}, {metric}" + ("" if dirty == "" else f", {dirty} %")


def goal_rows(values, size, threads):
    for text, sense, asked, first, second in GOALS:
        keys = [(size, threads, *key) for key in (first, second)]
        if not all(values.has(*key) for key in keys):
            continue
        ratio, least, most = values.ratio(*keys)
        met = ratio >= asked if sense == "at least" else ratio <= asked
        yield [text, f"{sense} {asked}", f"**{three(ratio)}** ({three(least)} to {three(most)})",
               "yes" if met else "**no**", f"{name(first)}: {ms(values.median(*keys[0]))} ms",
               f"{name(second)}: {ms(values.median(*keys[1]))} ms"]


def counted_rows(values, size, threads):
    for text, ours, asked, rival in COUNTED:
        if not values.has(size, threads, *ours):
            continue
        reached = values.median(size, threads, *ours) / 1e6
        other = f"{name(rival)}: {ms(values.median(size, threads, *rival))}" if rival else ""
        yield [text, f"{asked}", f"**{three(reached)}**", "yes" if reached <= asked else "**no**", other]


def place(values):
    """(size, threads) for which the goals are defined, or the last measured case."""
    return (SIZE, THREADS) if (SIZE, THREADS) in values.cells() else values.cells()[-1]


def goals(values):
    size, threads = place(values)
    machine = values.machine
    text = (f"## Goals, at {size} MB and {threads} threads\n\n"
            f"Kernel {machine['kernel']}, {machine['cpus']} CPUs, accelerator {machine['accel']}, "
            f"transparent huge pages {machine['thp']}; medians of "
            f"{values.repeats}")
    if "instructions" in machine["accel"]:
        text += (".\n\n| goal | millions of instructions asked for | reached | met | beside it |\n"
                 "| --- | ---: | ---: | --- | --- |\n")
        rows = counted_rows(values, size, threads)
    else:
        text += (", in brackets the least and the greatest ratio of a single round.\n\n"
                 "| goal | ratio asked for | reached | met | first | second |\n| --- | ---: | ---: | --- | --- | --- |\n")
        rows = goal_rows(values, size, threads)
    return text + "".join("| " + " | ".join(row) + " |\n" for row in rows)
