#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The demo of recovery inside an application: a program with Fenix on virtual nodes, one of which is killed. Runs on the host."""

import re
import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position,wrong-import-order
from demo_cluster import chart, kill, on_cluster, results, say, timeline  # noqa: E402
from lib.cluster import wait_until  # noqa: E402
from lib.scenario import Job, check  # noqa: E402

RANKS, EDGE, STEPS, EVERY = 6, 10, 150, 10
FOLDER = "/mnt/share/fenix"
S3D = FOLDER + "/s3d"
STEP = re.compile(r"^step (\d+)$", re.M)
RESULT = re.compile(r"error \S+, .*checksum [0-9a-f]{16}$", re.M)
# Where nothing is lost any launcher with ULFM does.
MPIRUN = f"mpirun --allow-run-as-root --oversubscribe --with-ft ulfm --mca btl self,sm,tcp --mca btl_tcp_if_include lo -n {RANKS}"
BUILD = f"cd {FOLDER} && cc -O2 -DFENIX s3d.c record.c $(pkg-config --cflags --libs fenix) -lm -o s3d"


def words(event):
    kind = event["event"]
    if kind == "ranks-failed":
        return f"ranks {', '.join(map(str, event['ranks']))} are gone: the others are told, and Fenix_Init returns once more"
    if kind == "spawn":
        nodes = sorted({node + 1 for node in event["placement"]})
        return f"{len(event['placement'])} new processes start on " + ", ".join(f"node{node}" for node in nodes)
    return None


def went_back(job):
    """@return the steps before and after the first one that is not the next"""
    found = list(map(int, STEP.findall(job.output())))
    return next(((a, b) for a, b in zip(found, found[1:]) if b != a + 1), None)


def show(cluster):
    say("== building bench/fenix/s3d.c against the installed library, on the head node")
    cluster.head(f"cp -r /mnt/project/bench/fenix {FOLDER}")
    say("  " + BUILD)
    cluster.head(BUILD)
    say("== its result without failures, under Open MPI's own mpirun on the head node")
    expected = RESULT.findall(cluster.head(f"{MPIRUN} {S3D} {EDGE} {STEPS} {EVERY}", timeout=300))
    check(len(expected) == 1, "the run without failures itself failed")
    say(f"  {expected[0]}")
    job = Job(cluster, [S3D, EDGE, STEPS, EVERY], ranks=RANKS, hosts=("node1:2", "node2:2", "node3:2"), spares=("node4:2",), every=None,
              options=["--recover", "ulfm"])
    say("== " + " ".join(map(str, job.words)))
    job.start()
    job.await_output(rf"^step {2 * EVERY + EVERY // 2}$", 240)
    say(f"== two ranks each are on node1, node2 and node3; each {EVERY} steps each rank stores its fields at a rank of another node")
    begun = kill(cluster, "node3")
    before, after = wait_until(lambda: went_back(job) or job.ended() and (0, 0), 120, "a step after the loss")
    check(after > 1, f"the ranks have not gone back to a snapshot; messages:\n{job.last_messages()}")
    say(f"== {time.monotonic() - begun:.1f} s later all ranks go on: step {before} was the last one, and they are back at {after - 1}. "
        "Four are the same processes as before, two are new, on node4")
    got = results(job, RESULT, expected, 400)
    say("== the program has ended; its result has the same bits as without failures")
    say(f"  {got[0]}")
    timeline(job, words)
    chart(job, "fenix.html")


if __name__ == "__main__":
    sys.exit(on_cluster(show))
