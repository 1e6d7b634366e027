#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""crtcp compared with Open MPI's own TCP transport: NetPIPE and LAMMPS between two hosts made of network namespaces.

Runs inside `vm native` (see run), at the machine's own speed. Rounds of both alternate; the results are medians.
"""

import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile

COMMON = ["--allow-run-as-root", "--mca", "pml", "ob1", "--mca", "coll", "^sm,xhc,han"]
TRANSPORTS = {
    "tcp": ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.99.0.0/24"],
    "crtcp": ["--mca", "btl", "crtcp,self", "--mca", "btl_crtcp_if_include", "10.99.0.0/24"],
}


def mpirun(transport, ranks, components, *program):
    words = ["mpirun", *COMMON, *os.environ["LAUNCH"].split(), "--host",
             ",".join(f"{host}:{(ranks + 1) // 2}" for host in os.environ["HOSTS"].split(",")), "-n", str(ranks),
             *TRANSPORTS[transport]]
    if transport == "crtcp":
        words += ["--mca", "mca_base_component_path", components]
    done = subprocess.run([*words, *program], check=False, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{' '.join(words)} {' '.join(program)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def netpipe(transport, components):
    """@return size -> (microseconds one way, Mbit/s)"""
    with tempfile.NamedTemporaryFile("r") as out:
        mpirun(transport, 2, components, "NPopenmpi", "-u", "4194304", "-p", "0", "-o", out.name)
        rows = [line.split() for line in out]
    return {int(row[0]): (float(row[2]) * 1e6, float(row[1])) for row in rows}


def crrun(ranks, components, program):
    """The same under crrun, whose daemons configure crtcp."""
    hosts = ",".join(f"{host}:{(ranks + 1) // 2}" for host in os.environ["HOSTS"].split(","))
    words = ["crrun", "-q", "-n", str(ranks), "--hosts", hosts, "--interface", "10.99.0.0/24",
             "--mca", "mca_base_component_path", os.path.abspath(components), *program]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def lammps(how, components, steps):
    """@return seconds of its loop: under mpirun with a transport, or under crrun"""
    source = "tests/job/in.melt"
    with tempfile.NamedTemporaryFile("w", suffix=".melt", dir=os.environ["BOTH"], delete=False) as script:
        script.write(open(source, encoding="ascii").read().replace("STEPS", str(steps))
                     .replace("thermo 20", "thermo 1000").replace("0 6 0 6 0 6", "0 12 0 12 0 12"))
    program = ["lmp", "-in", script.name, "-log", "none"]
    text = crrun(2, components, program) if how == "crrun" else mpirun(how, 2, components, *program)
    os.unlink(script.name)
    return float(next(line for line in text.splitlines() if line.startswith("Loop time")).split()[3])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=300, help="time steps of LAMMPS")
    parser.add_argument("--components", required=True, help="directory of mca_btl_crtcp.so")
    parser.add_argument("--out", required=True, help="CSV")
    options = parser.parse_args()

    pipes = {name: [] for name in TRANSPORTS}
    loops = {name: [] for name in (*TRANSPORTS, "crrun")}
    for number in range(options.rounds):
        order = list(TRANSPORTS) if number % 2 else list(reversed(TRANSPORTS))
        for name in order:
            pipes[name].append(netpipe(name, options.components))
        for name in [*order, "crrun"] if number % 2 else ["crrun", *order]:
            loops[name].append(lammps(name, options.components, options.steps))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)

    with open(options.out, "w", newline="", encoding="ascii") as file:
        table = csv.writer(file)
        table.writerow(["what", "bytes", "unit", "tcp", "crtcp", "ratio"])
        for size in sorted(pipes["tcp"][0]):
            for column, unit in ((0, "us"), (1, "Mbit/s")):
                tcp, ours = (statistics.median(run[size][column] for run in pipes[name]) for name in TRANSPORTS)
                # Use the ratios within rounds, not the ratio of medians: both values of a round had the same load on
                # the machine.
                ratio = statistics.median(b[size][column] / a[size][column] for a, b in zip(pipes["tcp"], pipes["crtcp"]))
                table.writerow(["netpipe", size, unit, f"{tcp:.3f}", f"{ours:.3f}", f"{ratio:.3f}"])
        tcp = statistics.median(loops["tcp"])
        for name, what in (("crtcp", "lammps loop, mpirun with crtcp"), ("crrun", "lammps loop, crrun")):
            ours = statistics.median(loops[name])
            ratio = statistics.median(b / a for a, b in zip(loops["tcp"], loops[name]))
            table.writerow([what, 0, "s", f"{tcp:.3f}", f"{ours:.3f}", f"{ratio:.3f}"])
    sizes = [size for size in pipes["tcp"][0] if size <= 64]
    small = statistics.median(b[s][0] / a[s][0] for a, b in zip(pipes["tcp"], pipes["crtcp"]) for s in sizes)
    sizes = [size for size in pipes["tcp"][0] if size >= 262144]
    large = statistics.median(b[s][1] / a[s][1] for a, b in zip(pipes["tcp"], pipes["crtcp"]) for s in sizes)
    print(f"latency up to 64 bytes: {small:.3f} of btl/tcp's; bandwidth from 256 kB: {large:.3f}; LAMMPS under crrun: {ratio:.3f}")


main()
