#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Messages between ranks of one node: crtcp through lanes and over TCP, compared with Open MPI's own btl/sm. NetPIPE and two
small collectives.

Runs inside `vm native` (see run), at the machine's own speed, without the module: fake_crd hands out the lanes. Rounds of all
transports alternate; the results are medians, the ratios those within rounds.
"""

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/mpi"))
from checks import CROWDED  # noqa: E402
from fake_crd import ENVIRONMENT  # noqa: E402
from stand_in import StandIn  # noqa: E402

TRANSPORTS = ["sm", "tcp", "lanes"]
TIMES = {2: 200000, 4: 10000, 8: 5000}  # of a collective: for some 0.1 s and more, in which the first messages, over TCP, do not count


def run(transport, ranks, program):
    """@return what the program prints"""
    crowded = CROWDED if ranks > len(os.sched_getaffinity(0)) else {}
    if transport == "sm":
        names = {**{name: value for name, value in ENVIRONMENT.items() if name.startswith("OMPI_MCA_coll")}, **crowded,
                 "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "sm,self"}
        done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *program],
                              env={**os.environ, **names}, check=False, capture_output=True, text=True, timeout=300)
        if done.returncode:
            sys.exit(f"{' '.join(program)} with btl/sm: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout
    daemon = StandIn(ranks)
    daemon.lanes = transport == "lanes"
    output = os.path.join(daemon.folder, "output")
    try:
        daemon.start(program, output, crowded)
        daemon.until(lambda: daemon.mpirun.poll() is not None, 300, "the program's end")
    finally:
        daemon.close()
    return Path(output).read_text("utf-8")


def netpipe(transport):
    """@return {(what, bytes): value}"""
    with tempfile.NamedTemporaryFile("r") as out:
        run(transport, 2, ["NPopenmpi", "-u", "4194304", "-p", "0", "-o", out.name])
        rows = [line.split() for line in out]
    return {(what, int(row[0])): value for row in rows
            for what, value in (("netpipe, us", float(row[2]) * 1e6), ("netpipe, Mbit/s", float(row[1])))}


def collectives(transport, ranks, program):
    lines = [line.split() for line in run(transport, ranks, [program, str(TIMES[ranks])]).splitlines()]
    sizes = {"allreduce": 8, "alltoall": 4096}
    return {(f"{line[0]} of {ranks} ranks, us", sizes[line[0]]): float(line[1]) for line in lines if line and line[0] in sizes}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--collectives", required=True, help="the program")
    parser.add_argument("--out", required=True, help="CSV")
    options = parser.parse_args()

    rounds = []
    for number in range(options.rounds):
        values = {name: {} for name in TRANSPORTS}
        for name in TRANSPORTS[number % 3:] + TRANSPORTS[:number % 3]:
            values[name].update(netpipe(name))
            for ranks in TIMES:
                values[name].update(collectives(name, ranks, options.collectives))
        rounds.append(values)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)

    def ratio(key, other):
        return statistics.median(one["lanes"][key] / one[other][key] for one in rounds)

    with open(options.out, "w", newline="", encoding="ascii") as file:
        table = csv.writer(file)
        table.writerow(["what", "bytes", *TRANSPORTS, "lanes/sm", "lanes/tcp"])
        for key in rounds[0]["sm"]:
            table.writerow([*key, *(f"{statistics.median(one[name][key] for one in rounds):.3f}" for name in TRANSPORTS),
                            f"{ratio(key, 'sm'):.3f}", f"{ratio(key, 'tcp'):.3f}"])
    latency = ("netpipe, us", 8)
    large = [key for key in rounds[0]["sm"] if key[0] == "netpipe, Mbit/s" and key[1] >= 65536]
    print(f"latency of 8 bytes: {ratio(latency, 'sm'):.2f} of btl/sm's, {ratio(latency, 'tcp'):.2f} of TCP's")
    print(f"bandwidth from 64 kB: {min(ratio(key, 'sm') for key in large):.2f} of btl/sm's at least")
    for key in rounds[0]["sm"]:
        if not key[0].startswith("netpipe"):
            print(f"{key[0]}: {ratio(key, 'sm'):.2f} of btl/sm's")


main()
