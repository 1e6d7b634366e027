#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""How long it takes until a program with `--recover ulfm` is told of a lost node: for several `--detect`, on virtual nodes.

    bench/job/told.py [ROUNDS]

A node's QEMU is killed, or the node is cut off from the others, 20 s after the program has begun. Prints, in seconds from then on, medians
(smallest to largest; number): when crrun gives the node up, and when the ranks that are left have shrunk their communicator.
"""

import statistics
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "job"))

# pylint: disable=wrong-import-position
from lib.cluster import Cluster  # noqa: E402
from lib.job import Job  # noqa: E402

PROGRAM = "/mnt/project/build/vm/user/tests/job/programs/ulfm"
DETECT = ("10s", "4s", "2s")  # the first is the default
LOST = "node3"
LOSSES = {"killed": lambda cluster: cluster.kill(LOST), "cut off": lambda cluster: cluster.split(LOST, True)}
LEARN_S = 20  # crrun knows a node's heartbeats by then


def loss(cluster, detect, lose):
    """@return seconds until the node is given up, and until the ranks that are left have shrunk"""
    cluster.up_again()
    job = Job(cluster, [PROGRAM, "wait", "stop"], ranks=6, spares=(), every=None,
              options=["--recover", "ulfm", "--detect", detect]).start()
    try:
        job.await_output("^ready")
        time.sleep(LEARN_S)
        begin = time.time_ns()
        lose(cluster)
        job.await_output("^4 ranks are left")
        repaired = time.time_ns()
        return (job.events("node-lost")[-1]["t"] - begin) / 1e9, (repaired - begin) / 1e9
    finally:
        job.stop()
        cluster.split(LOST, False)


def cell(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}; {len(values)})"


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    cluster = Cluster("told")
    found = {(detect, how): [] for detect in DETECT for how in LOSSES}
    try:
        cluster.up()
        for _ in range(rounds):
            for (detect, how), values in found.items():
                values.append(loss(cluster, detect, LOSSES[how]))
                print(detect, how, *values[-1], file=sys.stderr, flush=True)
    finally:
        cluster.down()
    print("| `--detect`, the node is | given up, s | communicator shrunk, s |\n| --- | ---: | ---: |")
    for (detect, how), values in found.items():
        print(f"| {detect}, {how} | {cell([value[0] for value in values])} | {cell([value[1] for value in values])} |")


if __name__ == "__main__":
    main()
