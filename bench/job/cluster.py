#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Waves and recoveries on four virtual nodes, compared with a full restart and a relaunch with mpirun.

For each number of ranks and size of image: three waves, a node killed, the phases of the recovery; then the whole
job killed and started again by `crrun --restart`, and started anew by mpirun. Goes on where an earlier run has ended.
"""

import argparse
import csv
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tests" / "job"))

# pylint: disable=wrong-import-position
from lib.cluster import VM, Cluster, Failure, wait_until  # noqa: E402
from lib.job import Job  # noqa: E402

BALLAST = "/mnt/project/build/vm/user/bench/job/ballast"
HOSTS = ("node1:3", "node2:3", "node3:3")


def first_iteration(job, offset=0):
    """Seconds from the start of the launcher to the first output of the program's main loop."""
    def there():
        if job.ended():
            raise Failure(f"ended early: {job.messages()[-2000:]}")
        return b"ballast: iteration" in job.log("stdout").read_bytes()[offset:]
    wait_until(there, 120, "the program's first iteration")
    return time.monotonic() - job.begun


def mpirun(cluster, ranks, megabytes):
    """Seconds from a launch with Open MPI's own launcher to the first iteration."""
    begun = time.monotonic()
    process = subprocess.Popen(
        [VM, "head", "--cluster", cluster.name, "--", "mpirun", "--allow-run-as-root", "-n", str(ranks), "--map-by",
         "node:OVERSUBSCRIBE", "--host", ",".join(HOSTS), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
         "--mca", "btl_tcp_if_include", "10.77.0.0/24", BALLAST, str(megabytes), "3"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in process.stdout:
        if "iteration" in line:
            result = time.monotonic() - begun
            break
    else:
        raise Failure("mpirun's job did not come to its first iteration")
    process.communicate()
    return result


def measure(cluster, ranks, megabytes, put):
    job = Job(cluster, [BALLAST, str(megabytes), "100000"], ranks=ranks, hosts=HOSTS, spares=("node4:3",), every=None,
              options=["--map-by", "node"])
    job.start()
    first_iteration(job)
    for _ in range(3):
        job.crjob("checkpoint")
    job.await_event("wave-staged", 1, seconds=120)
    newest = job.events("wave-commit")[-1]["wave"]
    wait_until(lambda: job.events("wave-staged", wave=newest), 120, "staging")
    for begin in job.events("wave-begin"):
        wave = begin["wave"]
        commit, staged = job.events("wave-commit", wave=wave), job.events("wave-staged", wave=wave)
        if not commit:
            continue
        of_ranks = job.events("wave-rank", wave=wave)
        put("wave: rank stands still", max(one["frozen_ns"] for one in of_ranks) / 1e9)
        put("wave: quiesce", max(one["quiesce_ns"] for one in of_ranks) / 1e9)
        put("wave: whole", (commit[0]["t"] - begin["t"]) / 1e9)
        if staged:
            put("wave: staged", (staged[0]["t"] - begin["t"]) / 1e9)
        put("wave: bytes of an image", max(one["bytes"] for one in of_ranks))

    lost_node = job.where()[ranks - 1][0]
    killed = time.time_ns()
    cluster.kill(lost_node)
    done = job.await_event("recovery-done")
    lost, begun, resume = (job.events(kind)[-1] for kind in ("node-lost", "recovery-begin", "resume"))
    put("recovery: detect", (lost["t"] - killed) / 1e9)
    put("recovery: decide", (begun["t"] - lost["t"]) / 1e9)
    put("recovery: restore", (resume["t"] - begun["t"]) / 1e9)
    put("recovery: reconnect and resume", (done["t"] - resume["t"]) / 1e9)
    put("recovery: without detection", (done["t"] - lost["t"]) / 1e9)
    restored = job.events("restored-rank", recovery=begun["recovery"])
    put("recovery: bytes from shared storage", sum(one.get("shared_bytes", 0) for one in restored))
    put("recovery: bytes of the lost ranks' images", sum(one["bytes"] for one in job.events("wave-rank", wave=begun["wave"])
                                                         if one["rank"] in begun["restart"]))

    # Kill everything, and start the job again from the shared directory.
    job.crjob("checkpoint")
    newest = job.events("wave-commit")[-1]["wave"]
    wait_until(lambda: job.events("wave-staged", wave=newest), 120, "staging")
    job.kill_launcher()
    cluster.up_again()
    offset = len(job.log("stdout").read_bytes())
    job.start(["crrun", "--restart", job.directory("/mnt/share"), "--hosts", ",".join(HOSTS)])
    put("crrun --restart", first_iteration(job, offset))
    job.stop()
    cluster.up_again()
    put("mpirun anew", mpirun(cluster, ranks, megabytes))


class Samples:
    """The measurements so far, also those of earlier runs: a file of single values, and one of their medians."""

    FIELDS = ["ranks", "megabytes", "round", "what", "value"]

    def __init__(self, path):
        self.path = path
        self.raw = path.with_name(path.stem + "-samples.csv")
        self.rows = []
        if self.raw.exists():
            with open(self.raw, encoding="ascii") as file:
                self.rows = [tuple(row[field] for field in self.FIELDS) for row in csv.DictReader(file)]

    def rounds(self, ranks, megabytes):
        return len({row[2] for row in self.rows if row[:2] == (str(ranks), str(megabytes))})

    def add(self, ranks, megabytes, number, values):
        self.rows += [(str(ranks), str(megabytes), str(number), what, f"{value:.6g}") for what, value in values]
        cases = {}
        for row in sorted(self.rows, key=lambda row: (int(row[0]), int(row[1]))):
            cases.setdefault((row[0], row[1], row[3]), []).append(float(row[4]))
        self.write(self.raw, self.FIELDS, self.rows)
        self.write(self.path, ["ranks", "megabytes", "what", "median", "least", "most", "samples"],
                   [(*key, f"{statistics.median(values):.6g}", f"{min(values):.6g}", f"{max(values):.6g}", len(values))
                    for key, values in cases.items()])

    @staticmethod
    def write(path, head, rows):
        with open(path, "w", newline="", encoding="ascii") as file:
            csv.writer(file).writerows([head, *rows])


def case(ranks, megabytes):
    """One round of one case. @return [(what, value)]; a slow machine may need another attempt"""
    of_node = -(-ranks // len(HOSTS)) * megabytes
    for attempt in (1, 2):
        # The nodes' disks are in their memory, and hold about four waves.
        cluster = Cluster("bench", mem=1200 + 6 * of_node, share_bytes=(1 << 30) + 5 * ranks * (megabytes + 8 << 20))
        values = []
        cluster.up()
        try:
            measure(cluster, ranks, megabytes, lambda what, value: values.append((what, value)))
            return values
        except Failure as failure:
            kept = PROJECT / "build" / "bench" / f"{ranks}-{megabytes}-{attempt}"
            print(f"{ranks} ranks of {megabytes} MB, attempt {attempt}: {failure}\nIts messages are in {kept}.", file=sys.stderr)
            Job.stop_all(kept)
        finally:
            Job.stop_all()
            cluster.down()
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each case, earlier ones included (default %(default)s)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--megabytes", type=int, nargs="+", default=[8, 32, 128])
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args()
    samples = Samples(options.out)
    for number in range(1, options.rounds + 1):
        for ranks in options.ranks:
            for megabytes in options.megabytes:
                if samples.rounds(ranks, megabytes) >= number:
                    continue
                samples.add(ranks, megabytes, number, case(ranks, megabytes))
                print(f"round {number}: {ranks} ranks of {megabytes} MB", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
