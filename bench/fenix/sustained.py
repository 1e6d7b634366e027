#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""A rank of a stencil program is lost again and again for an hour, in one guest. Runs on the host.

    bench/fenix/sustained.py [--engine ulfm|reprise] [--seconds 3600] [--period 47]... FILE.csv

Then the program without Fenix computes as many steps on the host, where it is much faster. Both results must be the same bits. Appends to
the file of measure.py.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from launch import PROGRAMS, RESULT  # noqa: E402
from measure import EDGE, RANKS  # noqa: E402

VM = Path(__file__).resolve().parents[2] / "tests" / "vm" / "vm"
# The mathematics library of an emulated processor has no fused operations, which round differently.
PLAIN = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"


def reference(steps):
    """@return the checksum of the program without Fenix"""
    command = [VM, "native", "--", "env", PLAIN, "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), "--mca", "pml", "ob1",
               "--mca", "btl", "self,sm", PROGRAMS + "s3d", str(EDGE), str(steps)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    return RESULT.findall(output)[0][-1].lower()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="ulfm", choices=("ulfm", "reprise"))
    parser.add_argument("--seconds", type=float, default=3600, help="of a run (default %(default)s)")
    parser.add_argument("--period", dest="periods", type=float, action="append", help="seconds between losses; 0: none (default 47)")
    parser.add_argument("--kernel", default="6.12")
    parser.add_argument("file", help="below the project's folder")
    options = parser.parse_args()
    periods = options.periods or [47]
    limit = int(len(periods) * (900 + 3 * options.seconds))
    command = [VM, "run", "--kernel", options.kernel, "--mem", "3072", "--timeout", str(limit), "--", "bench/fenix/measure.py", "--engines",
               options.engine, "--seconds", str(options.seconds), *(word for period in periods for word in ("--period", str(period))),
               options.file, "sustained"]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    runs = re.findall(r"^checksum (\d+) ([0-9a-f]{16})$", output, re.M)
    if len(runs) != len(periods):
        sys.exit(f"sustained: {len(runs)} results:\n{output}")
    wrong = 0
    for period, (steps, checksum) in zip(periods, runs):
        expected = reference(steps)
        wrong += checksum != expected
        print(f"a loss each {period:g} s, {steps} steps: {checksum}, " + ("as without Fenix" if checksum == expected else f"without Fenix {expected}"))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
