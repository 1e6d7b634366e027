#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The demo of recovery inside an application: a program with Fenix on virtual nodes, one of which is killed. Runs on the host."""

import re
import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position,wrong-import-order
from demo_cluster import chart, kill, on_cluster, say, timeline  # noqa: E402
from lib.scenario import COLLECTIVES, Job, check  # noqa: E402

STEPS = 6000
RANKS = 6
HEAT = "/mnt/share/examples/heat"
LINE = re.compile(r"^after \d+ steps the weighted sum is .*$", re.M)
BACK = re.compile(r"heat: all are back at step (\d+)")
# Where nothing is lost any launcher does. Sums are made in the same order as under crrun.
MPIRUN = f"mpirun --allow-run-as-root --oversubscribe --mca btl self,sm,tcp --mca btl_tcp_if_include lo --mca coll {COLLECTIVES} -n {RANKS}"


def words(event):
    kind = event["event"]
    if kind == "ranks-failed":
        return f"ranks {', '.join(map(str, event['ranks']))} are gone: the others are told, and Fenix_Init returns once more"
    if kind == "spawn":
        nodes = sorted({node + 1 for node in event["placement"]})
        return f"{len(event['placement'])} new processes start on " + ", ".join(f"node{node}" for node in nodes)
    return None


def show(cluster):
    say("== building examples/fenix/heat.c against the installed library, on the head node")
    cluster.head("cp -r /mnt/project/examples/fenix /mnt/share/examples")
    for line in cluster.head("make -s -C /mnt/share/examples clean && make -C /mnt/share/examples heat").splitlines():
        say(f"  {line}")
    say("== its output without failures, under Open MPI's own mpirun on the head node")
    expected = LINE.findall(cluster.head(f"{MPIRUN} {HEAT} {STEPS}", timeout=300))
    check(len(expected) == 1, "the run without failures itself failed")
    say(f"  {expected[0]}")
    job = Job(cluster, [HEAT, STEPS], ranks=RANKS, hosts=("node1:2", "node2:2", "node3:2"), spares=("node4:2",), every=None,
              options=["--recover", "ulfm"])
    say("== " + " ".join(map(str, job.words)))
    job.start()
    job.await_event("launch", seconds=60)
    time.sleep(8)  # into its main loop, beyond the first snapshots
    say("== two ranks each are on node1, node2 and node3. Every 20 steps each stores its part of the rod at a rank of another node")
    begun = kill(cluster, "node3")
    lost = job.await_event("node-lost", seconds=60)
    job.await_event("spawn", such=lambda event: event["t"] > lost["t"], seconds=60)
    while not BACK.search(job.messages()):
        check(not job.ended() and time.monotonic() < begun + 120, f"no rank came back; messages:\n{job.last_messages()}")
        time.sleep(0.1)
    step = int(BACK.search(job.messages())[1])
    check(step > 0, "the ranks began anew: the node was lost before the first snapshot")
    say(f"== {time.monotonic() - begun:.1f} s later all ranks go on from step {step}: four are the same processes as before, two are new")
    status = job.wait(300)
    check(status == 0, f"exit status {status}; messages:\n{job.last_messages()}")
    got = LINE.findall(job.output())
    check(got == expected, f"another result: {got} instead of {expected}")
    say("== the program has ended; its result equals that without failures, to the last digit")
    say(f"  {got[0]}")
    timeline(job, words)
    chart(job, "fenix.html")


if __name__ == "__main__":
    sys.exit(on_cluster(show))
