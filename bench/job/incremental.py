#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Waves with and without --incremental, of a program that changes little of its memory between waves.

Three ranks on three of four virtual nodes. The waves of both kinds of jobs that are counted come after the first ones:
only then is there a dropped copy to write over. Changes of memory that is mapped by huge pages are tracked by 2 MB, so
both are measured with huge pages and without.
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
FIRST = 5  # waves of a job that are not counted


def measure(cluster, options, megabytes, part, waves, put):
    job = Job(cluster, [BALLAST, str(megabytes), "100000", str(part)], ranks=3, hosts=HOSTS, spares=(),
              every=None, options=options)
    job.start()
    first_iteration(job)
    for number in range(FIRST + waves):
        job.crjob("checkpoint")
        wave = job.events("wave-commit")[-1]["wave"]
        wait_until(lambda wave=wave: job.events("wave-staged", wave=wave), 120, "staging")
        if number < FIRST:
            continue
        begin, commit, staged = (job.events(f"wave-{what}", wave=wave)[0]["t"] for what in ("begin", "commit", "staged"))
        ranks, copies = job.events("wave-rank", wave=wave), job.events("staged-rank", wave=wave)
        put("rank stands still, ms", max(rank["frozen_ns"] for rank in ranks) / 1e6)
        put("image written after that, ms", max(rank["write_ns"] for rank in ranks) / 1e6)
        put("whole wave, ms", (commit - begin) / 1e6)
        put("staged after the commit, ms", (staged - commit) / 1e6)
        put("bytes of an image", max(rank["bytes"] for rank in ranks))
        put("of these, saved from memory", max(rank["bytes"] - rank["inherited"] for rank in ranks))
        put("of these, written to shared storage", max(copy["bytes"] - copy["kept"] for copy in copies))
    job.signal_launcher(signal.SIGINT)  # its ranks end, too
    job.wait(60)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=128, help="memory of a rank (default %(default)s)")
    parser.add_argument("--part", type=float, default=0.0001, help="of it that an iteration changes (default %(default)s)")
    parser.add_argument("--waves", type=int, default=7, help="that are counted (default %(default)s)")
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    values = {}
    cluster = Cluster("incremental", mem=1200 + 7 * options.megabytes, share_bytes=(1 << 30) + 18 * (options.megabytes + 8 << 20))
    cluster.up()
    try:
        for huge in ("always", "never"):
            for node in HOSTS:
                cluster.ssh(node, f"echo {huge} > /sys/kernel/mm/transparent_hugepage/enabled")
            for kind, words in (("whole", []), ("incremental", ["--incremental=100"])):
                measure(cluster, words, options.megabytes, options.part, options.waves,
                        lambda what, value, key=(huge, kind): values.setdefault((key[0], what), {}).setdefault(key[1], []).append(value))
    finally:
        Job.stop_all()
        cluster.down()
    with open(options.out, "w", newline="", encoding="ascii") as file:
        out = csv.writer(file)
        out.writerow(["megabytes", "huge pages", "what", "whole", "incremental", "ratio", "samples"])
        for (huge, what), kinds in values.items():
            whole, part = (statistics.median(kinds[kind]) for kind in ("whole", "incremental"))
            out.writerow([options.megabytes, huge, what, f"{whole:.6g}", f"{part:.6g}", f"{part / whole:.3g}", len(kinds["whole"])])


if __name__ == "__main__":
    main()
