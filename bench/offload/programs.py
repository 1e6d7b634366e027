#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What resilient offload costs whole programs, with and without failures, in one guest.

    tests/vm/vm run --kernel 6.12 --mem 4096 --timeout 3600 -- bench/offload/programs.py run ROUNDS FILE.csv [NAME | ENGINE]...
    bench/offload/programs.py tables FILE.csv

`run` appends a line to the file for each run that it does not have yet: an interrupted measurement goes on. All variants of a case
run one after the other in each round, with each engine; NAME limits the programs, ENGINE the engines. `tables` prints medians of the seconds (relative deviation in per cent),
and the medians of the ratios within a round. Every result must have the checksum of the program without boosters.
"""

import csv
import os
import re
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import cases as plan  # noqa: E402
from measure import crrun, median_and_deviation  # noqa: E402

LINE = re.compile(r"^\w+: ([\d.]+) s, (\d+) tasks, (\d+) executions, (\d+) replacements, checksum ([0-9a-f]{16})$", re.M)
ENGINES = ("mpi", "reprise")
FIELDS = ["program", "engine", "case", "variant", "round", "seconds", "tasks", "executions", "replacements", "checksum"]


def run_once(engine, case, variant, more, faults, number):
    """@return the row of the CSV file"""
    with tempfile.TemporaryDirectory() as folder:
        files = f"{folder}/fault"
        variables = [f"{variable}={points}" for variable, _, points in faults]
        variables += [f"CROFF_FAULT_FILES={files}", f"FWI_FAULT_FILES={files}"] if faults else []
        words = case.alone if variant == "alone" else (*case.words, *more)
        lines = LINE.findall(crrun(case.program, *words, ranks=case.ranks, variables=variables, engine=engine))
        if len(lines) != case.ranks:
            sys.exit(f"{engine}, {case.name}, {variant}: {len(lines)} results of {case.ranks} masters")
        for _, suffix, points in faults:
            for point in points.split(","):
                if not os.path.exists(f"{files}{suffix}-{point}"):
                    sys.exit(f"{engine}, {case.name}, {variant}: nothing was lost at {point}")
    total = [sum(int(line[column]) for line in lines) for column in (1, 2, 3)]
    sums = {line[4] for line in lines} - {"0" * 16 if variant == "alone" else ""}
    if len(sums) != 1:
        sys.exit(f"{engine}, {case.name}, {variant}: the masters have several results: {sums}")
    return dict(zip(FIELDS, [case.program, engine, case.name, variant, number, max(float(line[0]) for line in lines), *total, sums.pop()]))


def run(rounds, path, names):
    engines = [engine for engine in ENGINES if engine in names] or ENGINES
    programs = set(names) - set(ENGINES)
    chosen = [case for case in plan.cases() if not programs or case.program in programs]
    there = read(path) if os.path.exists(path) else {}
    with open(path, "a", encoding="ascii", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        if not there:
            writer.writeheader()
        expected = {}
        for number in range(rounds):
            for case in chosen:
                left = [(engine, *one) for engine in engines for one in case.variants()
                        if number not in there.get((case.program, engine), {}).get(case.name, {}).get(one[0], {})]
                if left and case.name not in expected:
                    expected[case.name] = run_once("mpi", case, "alone", (), [], 0)["checksum"]
                for engine, variant, more, faults in left:
                    row = run_once(engine, case, variant, more, faults, number)
                    if row["checksum"] != expected[case.name]:
                        sys.exit(f"{engine}, {case.name}, {variant}: the result is {row['checksum']}, alone it is {expected[case.name]}")
                    writer.writerow(row)
                    file.flush()


def read(path):
    """{(program, engine): {case: {variant: {round: seconds}}}}"""
    found = {}
    with open(path, encoding="ascii") as file:
        for row in csv.DictReader(file):
            variants = found.setdefault((row["program"], row["engine"]), {}).setdefault(row["case"], {})
            variants.setdefault(row["variant"], {})[int(row["round"])] = float(row["seconds"])
    return {which: dict(sorted(of_case.items())) for which, of_case in found.items()}


def overheads(variants, variant):
    """The ratios within each round, less 1, in per cent; in order."""
    plain = variants["plain"]
    return sorted(100 * (seconds / plain[number] - 1) for number, seconds in variants[variant].items() if number in plain)


def tables(path):
    for (program, engine), of_case in read(path).items():
        names = list(dict.fromkeys(variant for variants in of_case.values() for variant in variants))
        print(f"\n| {program}, engine `{engine}`, s | " + " | ".join(names) + " | " + " | ".join(f"{name} / plain" for name in names[1:]) + " |")
        print("| --- |" + " ---: |" * (2 * len(names) - 1))
        for case, variants in of_case.items():
            cells = ["{:.2f} ({:.0f} %)".format(*median_and_deviation(variants[name].values())) for name in names]
            for name in names[1:]:
                ratios = overheads(variants, name)
                rounds = f"{ratios[0]:+.1f} to {ratios[-1]:+.1f}" if len(ratios) > 1 else "one round"
                cells.append(f"{statistics.median(ratios):+.1f} % ({rounds})")
            print(f"| {case} | " + " | ".join(cells) + " |")


def main():
    if len(sys.argv) > 3 and sys.argv[1] == "run":
        run(int(sys.argv[2]), sys.argv[3], sys.argv[4:])
    elif len(sys.argv) == 3 and sys.argv[1] == "tables":
        tables(sys.argv[2])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
