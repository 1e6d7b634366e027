#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Failures that a program is told of (--recover ulfm) beside Open MPI's own launcher, in one guest.

    tests/vm/vm run --kernel 6.12 --mem 3072 --timeout 1800 -- bench/job/ulfm.py [RANKS [ROUNDS]]

The last rank kills itself; milliseconds until the first one gets an error from a barrier, and of the calls that follow.
mpirun does not survive a second spawn, so spawning is measured by one loss a job, and many jobs. Prints medians, and
the smallest and largest values.
"""

import re
import statistics
import subprocess
import sys

PROGRAM = "/mnt/project/build/vm/user/tests/job/programs/ulfm"
LINE = re.compile(r"ms: noticed ([\d.]+) shrink ([\d.]+) agree ([\d.]+) spawn ([\d.]+)")
STEPS = ("noticed", "shrink", "agree", "spawn")
JOBS = 5

LAUNCHERS = {
    "crrun": ["crrun", "-q", "--recover", "ulfm", "--oversubscribe", "--mca", "btl_crtcp_spin", "200"],
    # Without asynchronous MPI_Finalize mpirun hangs there after a failure.
    "mpirun": ["mpirun", "--allow-run-as-root", "--with-ft", "ulfm", "--oversubscribe", "--mca", "btl", "tcp,self",
               "--mca", "btl_tcp_if_include", "lo", "--mca", "async_mpi_finalize", "1"],
}


def run(launcher, ranks, *arguments):
    try:
        done = subprocess.run([*LAUNCHERS[launcher], "-n", str(ranks), PROGRAM, "time", *map(str, arguments)],
                              cwd="/tmp", capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired as late:
        print(f"# {launcher} {arguments}: it does not end", flush=True)
        return [tuple(map(float, found)) for found in LINE.findall((late.stdout or b"").decode())]
    if done.returncode:
        print(f"# {launcher} {arguments}: it ended with {done.returncode}", flush=True)
    return [tuple(map(float, found)) for found in LINE.findall(done.stdout)]


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 6
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    values = {launcher: {step: [] for step in STEPS} for launcher in LAUNCHERS}
    for _ in range(JOBS):
        for launcher in LAUNCHERS:
            for times in run(launcher, ranks, rounds, "shrink"):
                for step, time in zip(STEPS[:3], times):
                    values[launcher][step].append(time)
            for times in run(launcher, ranks, 1):
                values[launcher]["spawn"].append(times[3])
    print(f"| {ranks} ranks, ms | " + " | ".join(LAUNCHERS) + " |\n| --- | " + "---: | " * len(LAUNCHERS))
    for step in STEPS:
        cells = [f"{statistics.median(found):.1f} ({min(found):.1f} to {max(found):.1f}; {len(found)})" if found else "-"
                 for found in (values[launcher][step] for launcher in LAUNCHERS)]
        print(f"| {step} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
