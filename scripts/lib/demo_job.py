#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""The job-level demo: LAMMPS on three virtual nodes, one of which is killed. Runs on the host."""

import sys
import time

sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position,wrong-import-order
from demo_cluster import chart, kill, on_cluster, say, timeline  # noqa: E402
from lib.scenario import Survivors, check_result, lammps, on_three  # noqa: E402

STEPS = 700


def words(job, event):
    kind = event["event"]
    if kind == "wave-commit":
        ranks = job.events("wave-rank", wave=event["wave"])
        still = max((rank.get("frozen_ns", 0) for rank in ranks), default=0)
        return f"wave {event['wave']} is committed; each rank stood still for at most {still / 1e6:.0f} ms"
    if kind == "recovery-begin":
        return (f"back to wave {event['wave']}: ranks {event.get('restart', 'all')} are restarted on other nodes, "
                "the others are rolled back in place")
    return {"wave-staged": f"wave {event.get('wave')} is also on shared storage", "resume": "all ranks are restored",
            "recovery-done": "the job continues"}.get(kind)


def show(cluster, program):
    job = on_three(cluster, program)
    say("== " + " ".join(map(str, job.words)))
    job.start()
    job.await_event("wave-commit", 2)
    survivors = Survivors(job, {"node3"})
    say("  " + job.output().strip().splitlines()[-1].strip())
    say("== two waves are taken")
    begun = kill(cluster, "node3")
    job.await_event("recovery-done", seconds=90)
    say(f"== {time.monotonic() - begun:.1f} s later all ranks run again, those of node3 on node4")
    survivors.check()
    say(f"  the {len(survivors.before) // 2} connection(s) between the other ranks are the same sockets as before")
    check_result(job, program)
    say("== LAMMPS has ended; each line of its thermodynamics equals that without failures, and was printed once")
    say(f"  last line: {program.of(job.output())[-1].strip()}")
    timeline(job, lambda event: words(job, event))
    chart(job, "report.html")


def main():
    program = lammps(STEPS)
    say("== output of LAMMPS without failures, under Open MPI's own mpirun")
    expected = program.expected(3, [])
    say(f"  last line: {expected[-1].strip()}")
    return on_cluster(lambda cluster: show(cluster, program))


if __name__ == "__main__":
    sys.exit(main())
