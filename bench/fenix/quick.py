#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Checks the programs of this benchmark, inside a node, in less than a minute: numerics, lines, snapshots, recoveries.

    tests/vm/vm run --kernel 6.12 --mem 3072 -- bench/fenix/quick.py
"""

import math
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from launch import Record, Run, crrun, s3d  # noqa: E402
from losses import Shares, shares  # noqa: E402
from measure import STORE  # noqa: E402

HERE = Path(__file__).resolve().parent
CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def differences_are_of_eighth_order():
    # To the same time, with time steps whose error is far below.
    errors = [s3d("s3d", edge, steps, 0, 0, number).error for edge, steps, number in ((16, 4, 0.1), (24, 6, 0.1))]
    order = math.log(errors[0] / errors[1]) / math.log(24 / 16)
    return 7.4 < order < 8.6, f"errors {errors}: order {order:.2f}"


@case
def time_steps_are_of_fourth_order():
    errors = [s3d("s3d", 12, steps, 0, 0, number).time_error for steps, number in ((10, 0.8), (20, 0.4))]
    order = math.log2(errors[0] / errors[1])
    return 3.7 < order < 4.3, f"errors {errors}: order {order:.2f}"


@case
def the_result_does_not_depend_on_language_and_division():
    found = {(program, ranks): s3d(program, edge, 5, ranks=ranks).checksum
             for program, edge, ranks in (("s3d", 16, 1), ("s3d", 8, 8), ("s3d_fortran", 8, 8), ("s3d_fortran", 16, 1))}
    return len(set(found.values())) == 1, str(found)


@case
def fenix_takes_at_most_35_lines():
    done = subprocess.run([HERE / "changed", HERE / "s3d.c", HERE / "s3d.F90"], capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout


def survives(program):
    expected = s3d("s3d", 8, 40, ranks=4).checksum
    kills = [(1.0, 1)]
    found = s3d(program, 8, 40, 4, 1, ranks=5, kills=kills)
    parts = shares(found, kills)
    good = found.checksum == expected and parts.losses == 1 and parts.repair > 0 and 0 < parts.lost() < parts.total
    return good, f"{found.checksum} instead of {expected}; {parts}"


@case
def the_program_in_c_survives():
    return survives("s3d_fenix")


@case
def the_program_in_fortran_survives():
    return survives("s3d_fortran_fenix")


@case
def lost_time_counts_once():
    # A snapshot until 1 s, losses at 2 and 4 s; each recovery takes 0.5 s and 0.25 s.
    records = [Record("checkpoint", 0.9, 1.0, 5, 0), Record("begun", 2.5, 2.5, 7, 0), Record("restored", 2.5, 2.75, 5, 0),
               Record("begun", 4.5, 4.5, 7, 0), Record("restored", 4.5, 4.75, 5, 0), Record("step", 9, 10, 20, 0)]
    parts = shares(Run(20, 10, 0, 0, "", records, ""), [(2, 0), (4, 0), (11, 0)])
    return parts == Shares(10, 1.0 - 0.9, 1.0, 0.5, 2.25, 2), str(parts)


@case
def snapshots_are_measured():
    output, _ = crrun("fenix_cost", 1000000, 2, ranks=2)
    found = [list(map(float, line)) for line in STORE.findall(output)]
    return len(found) == 2 and min(map(min, found)) > 0, output


def main():
    failed = 0
    for number, function in enumerate(CASES, 1):
        good, text = function()
        failed += not good
        print(("" if good else "not ") + f"ok {number} - {function.__name__.replace('_', ' ')}")
        if not good:
            print("# " + text.replace("\n", "\n# "))
        sys.stdout.flush()
    print(f"1..{len(CASES)}\n{len(CASES) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
