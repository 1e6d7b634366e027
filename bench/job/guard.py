#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""What the guard of crtcp costs: PingPong and PingPing of 0 bytes between two hosts made of network namespaces, beside
Open MPI's own TCP transport.

Runs inside `vm native` (see run), at the machine's own speed. Each round runs every variant once, each time another one first.
A run gives the mean and the median of its messages. For each variant: the median of its runs, the least and the most, and the
median of its ratios to crtcp without the guard, each within a round, with the quartiles of these ratios.
"""

import argparse
import csv
import os
import statistics
import subprocess
import sys

COMMON = ["--allow-run-as-root", "--mca", "pml", "ob1", "--mca", "coll", "^sm,xhc,han", "--bind-to", "none"]
CRTCP = ["--mca", "btl", "crtcp,self", "--mca", "btl_crtcp_if_include", "10.99.0.0/24"]
GUARD = ["--mca", "btl_crtcp_guard", "1"]
BASE = "guard off"
TESTS, OF = ("pingpong", "pingping"), ("mean", "median")
VARIANTS = {  # (mpirun's words, the program's)
    "btl/tcp": (["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.99.0.0/24"], []),
    BASE: (CRTCP, []),
    "guard on": (CRTCP + GUARD, []),
    "guard on, errors returned": (CRTCP + GUARD, ["returned"]),
}


def run(variant, options):
    """@return {(test, mean or median): microseconds}"""
    transport, words = VARIANTS[variant]
    hosts = ",".join(f"{host}:1" for host in os.environ["HOSTS"].split(","))
    argv = ["mpirun", *COMMON, *os.environ["LAUNCH"].split(), "--host", hosts, "-n", "2", "--mca", "mca_base_component_path",
            options.components, *transport, options.program, str(options.times), *words]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=120)
    lines = [line.split() for line in done.stdout.splitlines()]
    times = {(line[0], of): float(value) for line in lines if line and line[0] in TESTS for of, value in zip(OF, line[1:])}
    if done.returncode or len(times) != len(TESTS) * len(OF):
        sys.exit(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--times", type=int, default=1000, help="messages of a run")
    parser.add_argument("--components", required=True, help="directory of mca_btl_crtcp.so")
    parser.add_argument("--program", required=True, help="pingpong")
    parser.add_argument("--out", required=True, help="CSV")
    options = parser.parse_args()

    names, rounds = list(VARIANTS), []
    for number in range(options.rounds):
        first = number % len(names)
        done = {name: run(name, options) for name in names[first:] + names[:first]}
        rounds.append(done)
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)

    with open(options.out, "w", newline="", encoding="ascii") as file:
        table = csv.writer(file)
        table.writerow(["test", "of a run", "variant", "rounds", "times", "median us", "least", "most", "ratio", "lower quartile", "upper quartile"])
        for key in ((test, of) for test in TESTS for of in OF):
            for name in names:
                values = [one[name][key] for one in rounds]
                ratios = [one[name][key] / one[BASE][key] for one in rounds]
                lower, ratio, upper = statistics.quantiles(ratios, n=4)
                table.writerow([*key, name, options.rounds, options.times, f"{statistics.median(values):.2f}", f"{min(values):.2f}",
                                f"{max(values):.2f}", f"{ratio:.3f}", f"{lower:.3f}", f"{upper:.3f}"])
                print(f"{' '.join(key)}, {name}: {statistics.median(values):.2f} us ({min(values):.2f} to {max(values):.2f}), "
                      f"ratio {ratio:.3f} ({lower:.3f} to {upper:.3f})")


main()
