#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""How long it takes until a wave outlives the loss of a node: with shared storage, with partners, and with parity.

    bench/job/redundancy.py [--megabytes 32 128] [--kinds partner xor:3] --out FILE.csv

Three ranks on three virtual nodes. The jobs of all kinds follow each other in one cluster. A wave is safe when its copies are
in shared storage (a share of the machine below), or when other nodes keep what brings each node's images back.
"""

import argparse
import csv
import signal
import statistics
import sys
from pathlib import Path

sys.dont_write_bytecode = True
PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tests" / "job"))
sys.path.insert(0, str(PROJECT / "bench" / "job"))

# pylint: disable=wrong-import-position
from cluster import BALLAST, first_iteration  # noqa: E402
from lib.cluster import Cluster, wait_until  # noqa: E402
from lib.job import Job  # noqa: E402

HOSTS = ("node1", "node2", "node3")
INCREMENTAL = ["--incremental=100"]
KINDS = {"shared storage": ("wave-staged", True, []), "partner": ("wave-safe", False, ["--redundancy", "partner"]),
         "xor:3": ("wave-safe", False, ["--redundancy", "xor:3"]),
         "shared storage, incremental": ("wave-staged", True, INCREMENTAL),
         "partner, incremental": ("wave-safe", False, ["--redundancy", "partner", *INCREMENTAL])}
FIRST = 2    # waves of a job that are not counted
PART = 1e-4  # of its memory that the program changes in an iteration


def bytes_received(cluster):
    """By the nodes from each other and from shared storage, which is not on this network."""
    return sum(int(cluster.ssh(node, "cat /sys/class/net/eth0/statistics/rx_bytes")) for node in HOSTS)


def measure(cluster, kind, megabytes, waves, put):
    safe, shared, options = KINDS[kind]
    job = Job(cluster, [BALLAST, str(megabytes), "100000", str(PART)], ranks=3, hosts=HOSTS, spares=(), every=None, options=options, shared=shared)
    job.start()
    first_iteration(job)
    for number in range(FIRST + waves):
        before = bytes_received(cluster)
        job.crjob("checkpoint")
        wave = job.events("wave-commit")[-1]["wave"]
        wait_until(lambda wave=wave: job.events(safe, wave=wave), 240, "a wave to be safe")
        if number < FIRST:
            continue
        begin, commit, done = (job.events(what, wave=wave)[0]["t"] for what in ("wave-begin", "wave-commit", safe))
        put("whole wave, s", (commit - begin) / 1e9)
        put("from its begin until it is safe, s", (done - begin) / 1e9)
        put("that divided by the whole wave", (done - begin) / (commit - begin))
        put("MB of all images", sum(rank["bytes"] for rank in job.events("wave-rank", wave=wave)) / 1e6)
        put("MB over the nodes' network", (bytes_received(cluster) - before) / 1e6)
    job.signal_launcher(signal.SIGINT)
    job.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[32, 128], help="memory of a rank (default: 32 and 128)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all")
    parser.add_argument("--waves", type=int, default=5, help="of each job that are counted (default %(default)s)")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    most = max(options.megabytes)
    values = {}
    cluster = Cluster("redundancy", mem=1200 + 12 * most, share_bytes=(1 << 30) + 18 * (most + 8 << 20))
    cluster.up()
    try:
        for megabytes in options.megabytes:
            for kind in options.kinds:
                measure(cluster, kind, megabytes, options.waves,
                        lambda what, value, key=(megabytes, kind): values.setdefault((*key, what), []).append(value))
                print(f"{kind}, {megabytes} MB", file=sys.stderr, flush=True)
    finally:
        Job.stop_all()
        cluster.down()
    with open(options.out, "w", newline="", encoding="ascii") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["megabytes", "kind", "what", "median", "least", "most", "samples"])
        for (megabytes, kind, what), found in values.items():
            out.writerow([megabytes, kind, what, *(f"{value:.4g}" for value in (statistics.median(found), min(found), max(found))), len(found)])


if __name__ == "__main__":
    main()
