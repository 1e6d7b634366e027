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


def run(boosters, rounds, folder):
    output = crrun("offloaded", boosters, rounds, folder)
    found = LINE.findall(output)
    if len(found) != rounds:
        sys.exit(f"{boosters} boosters: {len(found)} rounds\n{output}")
    return {step: [float(line[i]) for line in found] for i, step in enumerate(STEPS)}


def cell(values):
    return "{:.1f} ({:.0f} %)".format(*median_and_deviation(values))


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
