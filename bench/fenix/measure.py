#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What Fenix costs, with and without losses of processes, in one guest.

    tests/vm/vm run --kernel 6.12 --mem 3072 --timeout 1800 -- bench/fenix/measure.py [--engines ulfm,reprise] FILE.csv cost
    tests/vm/vm run --kernel 6.12 --mem 3072 --clock instructions --timeout 3600 -- bench/fenix/measure.py FILE.csv period young

Appends a line for each value. bench/fenix/tables FILE.csv prints the tables. bench/fenix/sustained.py uses the part `sustained`.
"""

import argparse
import csv
import math
import random
import re
import statistics
import sys

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from launch import crrun, s3d  # noqa: E402
from losses import shares  # noqa: E402

FIELDS = ["part", "engine", "case", "round", "what", "value"]
STORE = re.compile(r"^memcpy ([\d.]+) sendrecv ([\d.]+) store ([\d.]+) commit ([\d.]+)$", re.M)
SIZES = (262144, 1 << 20, 4 << 20, 8580000, 17000000)
# Of the programs with losses. 4 ranks, and as many spares as are lost at most, in all runs.
RANKS, SPARES, EDGE, STEPS, EVERY = 4, 6, 8, 300, 5
PERIODS = (1.2, 2.4, 4.8)  # as the paper's 47, 94 and 189 s
MTBF, APART, INTERVALS = 1.2, 0.4, (1, 2, 4, 8, 16)


class Values:
    """The file, and one part of the measurements with one engine."""

    def __init__(self, file, part, engine):
        self.writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        self.file, self.part, self.engine = file, part, engine

    def put(self, case, number, **values):
        for what, value in values.items():
            text = f"{value:.6g}" if isinstance(value, float) else str(value)
            self.writer.writerow(dict(zip(FIELDS, [self.part, self.engine, case, number, what, text])))
        self.file.flush()
        print(self.part, self.engine, case, number, values, file=sys.stderr, flush=True)


def cost(values, _options):
    """Each round of the program is one of the measurement."""
    for ranks in (2, 4, 8):
        for size in SIZES:
            output, _ = crrun("fenix_cost", size, 5, ranks=ranks, engine=values.engine)
            found = STORE.findall(output)
            if len(found) != 5:
                sys.exit(f"fenix_cost: {len(found)} rounds\n{output}")
            for number, times in enumerate(found):
                named = zip(("memcpy", "sendrecv", "store", "commit"), map(float, times))
                values.put(f"{ranks} ranks, {size} bytes", number, **dict(named))


def run(values, case, number, kills, every, expected, program="s3d_fenix"):
    """A run of s3d, whose result must be `expected`."""
    spares = SPARES if values.engine == "ulfm" else 0  # the other engine has spare nodes
    found = s3d(program, EDGE, STEPS, every, spares, ranks=RANKS + spares, kills=kills, engine=values.engine)
    if found.checksum != expected:
        sys.exit(f"{case}: the result is {found.checksum}, without Fenix it is {expected}")
    put_shares(values, case, number, found, kills)


def put_shares(values, case, number, found, kills, **more):
    parts = shares(found, kills)
    checkpoints = found.of("checkpoint")
    each = sum(record.end - record.begin for record in checkpoints) / len(checkpoints) if checkpoints else 0
    values.put(case, number, total=parts.total, losses=parts.losses, checkpoint=parts.checkpoint, repair=parts.repair,
               restore=parts.restore, recomputed=parts.recomputed, each=each, **more)


def plain(values, number):
    """@return the checksum of the program without Fenix"""
    found = s3d("s3d", EDGE, STEPS, ranks=RANKS)
    values.put("without Fenix", number, total=max(record.end for record in found.of("step")))
    return found.checksum


def period(values, options):
    """A rank is killed again and again at a fixed period."""
    for number in range(options.rounds):
        expected = plain(values, number)
        run(values, "no snapshots", number, (), 0, expected)
        run(values, f"every {EVERY} steps", number, (), EVERY, expected)
        for seconds in PERIODS:
            kills = [(seconds * (i + 1), (1 + i) % RANKS) for i in range(SPARES)]
            run(values, f"killed every {seconds} s", number, kills, EVERY, expected)


def young(values, options):
    """Losses at random times, the same for all intervals."""
    for number in range(options.rounds):
        expected = plain(values, number)
        chance, now, kills = random.Random(number + 1), 0.0, []
        for i in range(SPARES):
            now += max(APART, -MTBF * math.log(1 - chance.random()))  # no two of a cohort at once
            kills.append((now, (1 + i) % RANKS))
        for every in INTERVALS:
            run(values, f"{every} steps", number, kills, every, expected)


def long_run(engine, steps, every, kills=(), seconds=0.0):
    """Each lost rank is spawned anew by one engine, and restarted by the other."""
    return s3d("s3d_fenix", EDGE, steps, every, 0, ranks=RANKS, kills=kills, engine=engine, timeout=600 + 3 * seconds)


def sustained(values, options):
    """
    Losses at a fixed period for a long time, by the wall clock. Standard output has the number of steps and the checksum of each run,
    which the caller compares with those of the program without Fenix.
    """
    short = long_run(values.engine, 200, 50)
    step = max(record.end for record in short.of("step")) / 200
    each = statistics.median(record.end - record.begin for record in short.of("checkpoint"))
    for number in range(options.rounds):
        for seconds in options.periods:
            # By Young's formula.
            every = max(1, round(math.sqrt(2 * each * seconds) / step)) if seconds else 0
            steps = round(options.seconds / step)
            kills = [(seconds * (i + 1), (1 + i) % RANKS) for i in range(int(2 * options.seconds / seconds))] if seconds else []
            found = long_run(values.engine, steps, every, kills, options.seconds)
            case = f"a loss each {seconds:g} s, a snapshot each {every} steps" if seconds else "no losses, no snapshots"
            put_shares(values, case, number, found, kills, steps=steps)
            print("checksum", steps, found.checksum, flush=True)


PARTS = {"cost": cost, "period": period, "young": young, "sustained": sustained}
SHORT = ("cost", "period", "young")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default="ulfm", help="separated by commas (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="of runs with losses (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=3600, help="of a sustained run (default %(default)s)")
    parser.add_argument("--period", dest="periods", type=float, action="append",
                        help="seconds between losses in a sustained run; 0: none (default 47; several times: one run each)")
    parser.add_argument("file")
    parser.add_argument("part", nargs="*", help="of " + " ".join(PARTS) + " (default: " + " ".join(SHORT) + ")")
    options = parser.parse_args()
    if unknown := set(options.part) - set(PARTS):
        parser.error(f"no part {' '.join(sorted(unknown))}; there are {' '.join(PARTS)}")
    options.periods = options.periods or [47]
    with open(options.file, "a", encoding="ascii", newline="") as file:
        if not file.tell():
            csv.DictWriter(file, FIELDS, lineterminator="\n").writeheader()
        for part in options.part or SHORT:
            for engine in options.engines.split(","):
                PARTS[part](Values(file, part, engine), options)


if __name__ == "__main__":
    main()
