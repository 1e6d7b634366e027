#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A wave and two rollbacks of the transport against the number of ranks, all on this machine, connected each with each.

Without the module: fake_crd drives the ranks, and fork() makes their images (tests/mpi/fork_image.h). Prints medians as a
Markdown table.
"""

import argparse
import csv
import os
import statistics
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/mpi"))
from checks import CROWDED, held, iteration, progressed, release  # noqa: E402
from stand_in import StandIn  # noqa: E402

COLUMNS = {"start": "start, 1st iteration", "wave": "wave: the slowest rank's drain", "kept": "rollback, all stay: resumed",
           "kept, iteration": "its 1st iteration", "moved": "rollback, a quarter moved: resumed",
           "moved, iteration": "its 1st iteration"}


def lines(output):
    with open(output, encoding="utf-8") as file:
        return sum(1 for _ in file)


def measure(count):
    """@return {column: seconds}"""
    daemon, times = StandIn(count), {}
    output = os.path.join(daemon.folder, "output")
    moved = range(1, count, 4)
    try:
        daemon.start_apart(held(["--phase", "coll", "--size", "1000"], daemon.folder), output, CROWDED)
        progressed(output, 0, daemon, limit=300)
        times["start"] = daemon.age()
        progressed(output, 2, daemon)
        said, images = daemon.finish_with_images(daemon.prepare())
        times["wave"] = max(one[2] for one in said.values()) / 1e3
        for name, others in (("kept", ()), ("moved", moved)):
            progressed(output, iteration(output) + 1, daemon)
            daemon.go_back(images, others)
            seen, begin = lines(output), time.monotonic()
            daemon.resume(others)
            times[name] = time.monotonic() - begin
            daemon.until(lambda before=seen: lines(output) > before, 300, "an iteration")
            times[name + ", iteration"] = time.monotonic() - begin
        release(daemon.folder)
        if daemon.lost:
            sys.exit(f"{count} ranks: {daemon.lost}")
    finally:
        daemon.close()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 64, 128, 256])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", required=True, help="CSV")
    options = parser.parse_args()

    found = {count: [] for count in options.ranks}
    for number in range(options.rounds):
        for count in options.ranks:
            found[count].append(measure(count))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    with open(options.out, "w", newline="", encoding="ascii") as file:
        table = csv.writer(file)
        table.writerow(["ranks", "connections", "what", "seconds", "per connection, of the previous number of ranks"])
        print("| ranks | connections | " + " | ".join(COLUMNS.values()) + " |\n" + "| ---: " * (len(COLUMNS) + 2) + "|")
        before, fewer = None, 1
        for count, rounds in found.items():
            pairs, cells = count * (count - 1) // 2, []
            for what in COLUMNS:
                middle = statistics.median(one[what] for one in rounds)
                # Ratios within a round: both values had the same load on the machine.
                ratio = before and statistics.median(one[what] / pairs / (base[what] / fewer)
                                                     for one, base in zip(rounds, before))
                table.writerow([count, pairs, what, f"{middle:.3f}", f"{ratio:.2f}" if ratio else ""])
                cells.append(f"{middle:.3f}" + (f" ({ratio:.2f})" if ratio else ""))
            print(f"| {count} | {pairs} | " + " | ".join(cells) + " |")
            before, fewer = rounds, pairs


main()
