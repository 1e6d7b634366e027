#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The demo of resilient offload: tasks on boosters of virtual nodes, one of which is killed. Runs on the host."""

import re
import sys
import time
from collections import Counter

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position,wrong-import-order
from demo_cluster import chart, kill, on_cluster, results, say, timeline  # noqa: E402
from lib.scenario import Job, check  # noqa: E402

ROUNDS = 200
BOOSTERS = 4
HEAT = "/mnt/share/examples/heat"
LINE = re.compile(r"^round \d+: mean temperature [\d.]+$", re.M)
# Where nothing is lost any launcher does.
MPIRUN = "mpirun --allow-run-as-root --oversubscribe --mca btl self,sm,tcp --mca btl_tcp_if_include lo -n 1"


def group(event):
    """The number in the name of what was spawned: JOB@1 is the first group."""
    return "group " + event["name"].rpartition("@")[2]


def words(event):
    kind = event["event"]
    if kind == "spawn":
        nodes = Counter(event["placement"])
        return f"{group(event)} is started: " + ", ".join(f"{count} boosters on node{node + 1}" for node, count in nodes.items())
    if kind == "ranks-failed":
        count = len(event["ranks"])
        return f"{count} booster{'s are' if count > 1 else ' is'} gone: the program is told"
    return f"all boosters of {group(event)} have ended" if kind == "spawn-end" else None


def counts(job):
    """@return tasks, executions, groups replaced: the last that the program has said"""
    return tuple(map(int, re.findall(r"heat: (\d+) tasks, (\d+) executions, (\d+) groups replaced", job.messages())[-1]))


def show(cluster):
    say("== building examples/offload/heat.cpp against the installed library, on the head node")
    cluster.head("cp -r /mnt/project/examples/offload /mnt/share/examples")
    for line in cluster.head("make -s -C /mnt/share/examples clean && make -C /mnt/share/examples heat").splitlines():
        say(f"  {line}")
    say("== its output without failures, under Open MPI's own mpirun on the head node")
    expected = LINE.findall(cluster.head(f"{MPIRUN} {HEAT} {ROUNDS} 1 {BOOSTERS}", timeout=300))
    check(len(expected) == ROUNDS // 10, "the run without failures itself failed")
    say(f"  last line: {expected[-1]}")
    job = Job(cluster, [HEAT, ROUNDS, 2, BOOSTERS // 2], ranks=1, hosts=("node1:1", "node2:2", "node3:2"), spares=("node4:4",),
              every=None, options=["--recover", "ulfm"])
    say("== " + " ".join(map(str, job.words)))
    job.start()
    job.await_output(r"^round 50:", 120)
    say("  " + LINE.findall(job.output())[-1])
    say("== the master is on node1; two boosters each are on node2 and node3")
    begun = kill(cluster, "node3")
    lost = job.await_event("node-lost", seconds=60)
    job.await_event("spawn", such=lambda event: event["t"] > lost["t"], seconds=60)
    seen = len(LINE.findall(job.output()))
    job.await_output(rf"^round {10 * (seen + 1)}:", 120)
    say(f"== {time.monotonic() - begun:.1f} s later the next rounds are computed, by new boosters")
    got = results(job, LINE, expected, 240)
    say("== the program has ended; each line equals that without failures, to the last digit, and was printed once")
    say(f"  last line: {got[-1]}")
    tasks, executions, replaced = counts(job)
    check(replaced > 0 and executions > tasks, f"{tasks} tasks, {executions} executions, {replaced} groups replaced")
    say(f"  {tasks} tasks were executed {executions} times: {executions - tasks} again, since their group was lost; "
        f"it was replaced {'once' if replaced == 1 else f'{replaced} times'}")
    timeline(job, words)
    chart(job, "offload.html")


if __name__ == "__main__":
    sys.exit(on_cluster(show))
