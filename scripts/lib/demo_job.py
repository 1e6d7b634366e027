#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The job-level demo: LAMMPS on three virtual nodes, one of which is killed. Runs on the host."""

import shutil
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "job"))

# pylint: disable=wrong-import-position
from lib.cluster import PROJECT, Cluster, Failure  # noqa: E402
from lib.scenario import Job, Survivors, check_result, lammps, on_three  # noqa: E402

STEPS = 700


def say(text):
    print(text, flush=True)


def words(job):
    """The timeline as readable text."""
    events = job.events()
    begin = events[0]["t"]
    lines = []

    def at(event, text):
        lines.append(f"  {(event['t'] - begin) / 1e9:6.1f} s  {text}")

    for event in events:
        kind = event["event"]
        if kind == "wave-commit":
            ranks = job.events("wave-rank", wave=event["wave"])
            still = max((rank.get("frozen_ns", 0) for rank in ranks), default=0)
            at(event, f"wave {event['wave']} is committed; each rank stood still for at most {still / 1e6:.0f} ms")
        elif kind == "wave-staged":
            at(event, f"wave {event['wave']} is also on shared storage")
        elif kind == "node-lost":
            at(event, f"node{event['node'] + 1} is lost: {event['why']}")
        elif kind == "recovery-begin":
            at(event, f"back to wave {event['wave']}: ranks {event.get('restart', 'all')} are restarted on other nodes, "
                      "the others are rolled back in place")
        elif kind == "resume":
            at(event, "all ranks are restored")
        elif kind == "recovery-done":
            at(event, "the job continues")
        elif kind == "job-end":
            at(event, f"the job has ended with status {event['code']}")
    return "\n".join(lines)


def main():
    program = lammps(STEPS)
    say("== output of LAMMPS without failures, under Open MPI's own mpirun")
    expected = program.expected(3, [])
    say(f"  last line: {expected[-1].strip()}")

    cluster = Cluster("demo")
    say("== booting four virtual nodes")
    cluster.up()
    try:
        job = on_three(cluster, program)
        say("== " + " ".join(map(str, job.words)))
        job.start()
        job.await_event("wave-commit", 2)
        survivors = Survivors(job, {"node3"})
        say("  " + job.output().strip().splitlines()[-1].strip())
        say("== two waves are taken. Killing node3: its QEMU gets SIGKILL, without notice to any program")
        begun = time.monotonic()
        cluster.kill("node3")
        job.await_event("recovery-done", seconds=90)
        say(f"== {time.monotonic() - begun:.1f} s later all ranks run again, those of node3 on node4")
        survivors.check()
        say(f"  the {len(survivors.before) // 2} connection(s) between the other ranks are the same sockets as before")
        check_result(job, program)
        say("== LAMMPS has ended; each line of its thermodynamics equals that without failures, and was printed once")
        say(f"  last line: {program.of(job.output())[-1].strip()}")
        say("== timeline")
        say(words(job))
        page = PROJECT / "build" / "demo" / "report.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        cluster.head(f"crjob report {job.directory('/mnt/share')} -o /mnt/share/report.html")
        shutil.copy(cluster.share / "report.html", page)
        say(f"\nThe same as a chart: {page.relative_to(PROJECT)}")
        return 0
    except Failure as failure:
        say(f"demo: {failure}")
        return 1
    finally:
        Job.stop_all()
        cluster.down()


if __name__ == "__main__":
    sys.exit(main())
