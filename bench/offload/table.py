#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What resilient offload costs, in one guest: the paper's table 2 for 2, 4 and 8 boosters.

    tests/vm/vm run --kernel 6.12 --mem 4096 --timeout 1800 -- bench/offload/table.py [ROUNDS]

Prints medians in milliseconds, and (the relative deviation in per cent: median distance from the median).
"""

import re
import sys
import tempfile

sys.dont_write_bytecode = True
from measure import crrun, median_and_deviation  # noqa: E402  pylint: disable=wrong-import-position

STEPS = ("alloc", "plain", "recover", "lost", "free")
LINE = re.compile(" ".join(rf"{step} ([\d.]+)" for step in STEPS))
MEANING = {"alloc": "allocate", "plain": "a task each, without `recover`", "recover": "the same with `recover`",
           "lost": "the same, one booster is lost", "free": "free"}


def run(engine, boosters, rounds, folder):
    output = crrun("offloaded", boosters, rounds, folder, engine=engine)
    found = LINE.findall(output)
    if len(found) != rounds:
        sys.exit(f"{engine}, {boosters} boosters: {len(found)} rounds\n{output}")
    return {step: [float(line[i]) for line in found] for i, step in enumerate(STEPS)}


def cell(values):
    return "{:.1f} ({:.0f} %)".format(*median_and_deviation(values))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    sizes, engines, turns = (2, 4, 8), ("mpi", "reprise"), 2
    results = {(engine, size): {step: [] for step in STEPS} for engine in engines for size in sizes}
    for _ in range(turns):
        for size in sizes:
            for engine in engines:
                with tempfile.TemporaryDirectory() as folder:
                    for step, times in run(engine, size, max(1, rounds // turns), folder).items():
                        results[engine, size][step] += times
    for engine in engines:
        print(f"engine `{engine}`, {len(results[engine, sizes[0]]['lost'])} rounds\n")
        print("| ms | " + " | ".join(f"{size} boosters" for size in sizes) + " |\n| --- |" + " ---: |" * len(sizes))
        for step in STEPS:
            print(f"| {MEANING[step]} | " + " | ".join(cell(results[engine, size][step]) for size in sizes) + " |")
        print()


if __name__ == "__main__":
    main()
