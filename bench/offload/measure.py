# SPDX-License-Identifier: GPL-2.0-only
"""Shared by table.py and programs.py: a program under crrun, and medians."""

import statistics
import subprocess
import sys

PROGRAMS = "/mnt/project/build/vm/user/bench/offload/"


def crrun(program, *words, ranks=1, variables=(), engine="mpi"):
    """Run it with as many masters on this node. @return its output; if it fails, the measurement ends"""
    command = ["crrun", "-q", "--recover", "ulfm", "--oversubscribe", "-n", str(ranks), "--mca", "btl_crtcp_spin", "200",
               "-x", "CROFF_ENGINE=" + engine]
    for variable in variables:
        command += ["-x", variable]
    command += [PROGRAMS + program, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def median_and_deviation(values):
    """@return the median, and the median distance from it in per cent of it"""
    median = statistics.median(values)
    spread = statistics.median(abs(value - median) for value in values)
    return median, 100 * spread / median
