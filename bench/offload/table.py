#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What resilient offload costs, in one guest: the paper's table 2 for 2, 4 and 8 boosters.

    tests/vm/vm run --kernel 6.12 --mem 4096 --timeout 1800 -- bench/offload/table.py [ROUNDS]

Prints medians in milliseconds, and (the relative deviation in per cent: median distance from the median).
"""

import re
import statistics
import subprocess
import sys
import tempfile

PROGRAM = "/mnt/project/build/vm/user/bench/offload/offloaded"
STEPS = ("alloc", "plain", "recover", "lost", "free")
LINE = re.compile(" ".join(rf"{step} ([\d.]+)" for step in STEPS))
MEANING = {"alloc": "allocate", "plain": "a task each, without `recover`", "recover": "the same with `recover`",
           "lost": "the same, one booster is lost", "free": "free"}


def run(boosters, rounds, folder):
    done = subprocess.run(["crrun", "-q", "--recover", "ulfm", "--oversubscribe", "-n", "1", "--mca", "btl_crtcp_spin", "200",
                           PROGRAM, str(boosters), str(rounds), folder], capture_output=True, text=True, timeout=900, check=False)
    found = LINE.findall(done.stdout)
    if done.returncode or len(found) != rounds:
        sys.exit(f"{boosters} boosters: {done.returncode}, {len(found)} rounds\n{done.stdout}{done.stderr}")
    return {step: [float(line[i]) for line in found] for i, step in enumerate(STEPS)}


def cell(values):
    median = statistics.median(values)
    spread = statistics.median(abs(value - median) for value in values)
    return f"{median:.1f} ({100 * spread / median:.0f} %)"


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    sizes = (2, 4, 8)
    with tempfile.TemporaryDirectory() as folder:
        results = {size: run(size, rounds, folder) for size in sizes}
    print("| ms | " + " | ".join(f"{size} boosters" for size in sizes) + " |\n| --- |" + " ---: |" * len(sizes))
    for step in STEPS:
        print(f"| {MEANING[step]} | " + " | ".join(cell(results[size][step]) for size in sizes) + " |")


if __name__ == "__main__":
    main()
