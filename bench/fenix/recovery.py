#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""How long a stencil program stands still when a rank, a node, or two nodes at once are lost, on four virtual nodes. Runs on the host.

    bench/fenix/recovery.py [--engines ulfm,reprise] [--rounds N] FILE.csv [rank|node|nodes]...

Each loss meets in turn: the program with Fenix; the program without it under crrun, which pauses and rolls back; and the same started anew
by mpirun. Appends to the file of measure.py: seconds from the loss (`from loss`), and from its detection by crrun (`from detection`), until
the program with Fenix has done one more step (engine ulfm), until all ranks run after a rollback (pause, engine reprise), until mpirun's
program has done its first step; how many steps the program with Fenix computes again (`again`), and how long one takes (`a step`).
"""

import argparse
import csv
import re
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "tests" / "job"))

# pylint: disable=wrong-import-position
from lib.cluster import VM, Cluster, Failure, at_once  # noqa: E402
from lib.job import Job  # noqa: E402
from measure import Values, FIELDS  # noqa: E402

PROGRAMS = "/mnt/project/build/vm/user/bench/fenix/"
HOSTS, SPARE = ("node1:2", "node2:2", "node3:2"), ("node4:4",)
RANKS, EDGE, STEPS, EVERY = 6, 8, 100000, 10
WAVES = "4s"
OPTIONS = {"ulfm": ["--recover", "ulfm"], "reprise": ["-x", "FENIX_ENGINE=reprise"], "pause": ["--recover", "all"]}
LOSSES = {"rank": (), "node": ("node3",), "nodes": ("node2", "node3")}
STEP = re.compile(rb"^step (\d+)$", re.M)


def steps(job):
    return list(map(int, STEP.findall(job.log("stdout").read_bytes())))


def until(job, condition, seconds, what):
    """Like wait_until, but looks every 10 ms. @return the value and its time"""
    deadline = time.time() + seconds
    while True:
        if value := condition():
            return value, time.time()
        if job.ended() or time.time() > deadline:
            raise Failure(f"in vain for {seconds} s: {what}; messages:\n{job.last_messages()}")
        time.sleep(0.01)


def lose(cluster, job, kind):
    """@return the time of the loss"""
    if kind == "rank":
        node, pid = job.where()[RANKS - 1]
        begun = time.time()
        cluster.ssh(node, f"kill -9 {pid}")
    else:
        begun = time.time()
        at_once(cluster.kill, LOSSES[kind])
    return begun


def detected(job, kind, begun):
    """Time at which crrun knew of all that was lost."""
    if kind == "rank":
        events = [event for event in job.events() if event["event"] in ("ranks-failed", "rank-failed", "recovery-begin")]
        return min(event["t"] for event in events if event["t"] / 1e9 > begun) / 1e9
    return max(event["t"] for event in job.events("node-lost")) / 1e9


def survive(cluster, variant, kind):
    """A job that goes on after the loss."""
    program = [PROGRAMS + "s3d", EDGE, STEPS] if variant == "pause" else [PROGRAMS + "s3d_fenix", EDGE, STEPS, EVERY]
    job = Job(cluster, program, ranks=RANKS, hosts=HOSTS, spares=SPARE, every=WAVES if variant == "pause" else None,
              options=[*OPTIONS[variant], "--oversubscribe"])
    job.start()
    if variant == "pause":
        job.await_event("wave-staged", seconds=120, such=lambda _: steps(job))
    until(job, lambda: len(steps(job)) > 25, 180, "the first steps")
    begun = lose(cluster, job, kind)
    if variant != "ulfm":
        # crrun does not print again what a rank prints again after a rollback.
        now = job.await_event("recovery-done", seconds=120)["t"] / 1e9
        again = {}
    else:
        # A step that is not the next one was computed again; without a snapshot the first.
        def back():
            found = steps(job)
            return next(((a, b) for a, b in zip(found, found[1:]) if b != a + 1), None)
        (before, after), now = until(job, back, 180, "a step after the recovery")
        again = {"again": before + 1 - after}
    known = detected(job, kind, begun)
    job.stop()
    return {"from loss": now - begun, "from detection": now - known, **again}


def anew(cluster, kind):
    """Open MPI's own launcher on the nodes that are left: there is nothing to go on from."""
    left = [host.split(":")[0] for host in (*HOSTS, *SPARE) if host.split(":")[0] not in LOSSES[kind]]
    begun = time.time()
    process = subprocess.Popen(
        [VM, "head", "--cluster", cluster.name, "--", "mpirun", "--allow-run-as-root", "-n", str(RANKS), "--map-by",
         "node:OVERSUBSCRIBE", "--host", ",".join(f"{node}:3" for node in left[:3]), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
         "--mca", "btl_tcp_if_include", "10.77.0.0/24", PROGRAMS + "s3d", str(EDGE), "30"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    first = last = None
    for line in process.stdout:
        if line.startswith("step "):
            last = time.time()
            first = first or last
    process.wait()
    if process.returncode or not first:
        raise Failure(f"mpirun ended with {process.returncode}")
    return {"from detection": first - begun, "a step": (last - first) / 29}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="ulfm", help="separated by commas (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--cluster", default="bench", help="its name (default %(default)s)")
    parser.add_argument("file", type=Path)
    parser.add_argument("loss", nargs="*", help="default: all of " + " ".join(LOSSES))
    options = parser.parse_args()
    if unknown := set(options.loss) - set(LOSSES):
        parser.error(f"no loss {' '.join(sorted(unknown))}; there are {' '.join(LOSSES)}")
    cluster = Cluster(options.cluster)
    failed = 0
    try:
        cluster.up()
        with open(options.file, "a", encoding="ascii", newline="") as file:
            if not file.tell():
                csv.DictWriter(file, FIELDS, lineterminator="\n").writeheader()
            for number in range(options.rounds):
                for kind in options.loss or LOSSES:
                    for variant in (*options.engines.split(","), "pause", "mpirun"):
                        cluster.up_again()
                        try:
                            found = anew(cluster, kind) if variant == "mpirun" else survive(cluster, variant, kind)
                            Values(file, "recovery", variant).put(kind, number, **found)
                        except Failure as failure:
                            failed += 1
                            print(f"recovery {variant} {kind} {number}: {failure}", file=sys.stderr, flush=True)
                        finally:
                            Job.stop_all(PROJECT / "build" / "bench" / f"fenix-{variant}-{kind}-{number}")
    finally:
        Job.stop_all()
        cluster.down()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
