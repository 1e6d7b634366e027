# SPDX-License-Identifier: GPL-2.0-only
"""Programs of the benchmark under a launcher on this node: what they print, and what they have recorded."""

import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = "/mnt/project/build/vm/user/bench/fenix/"
ENGINES = {"ulfm": ["--recover", "ulfm"], "reprise": ["-x", "FENIX_ENGINE=reprise"]}
RESULT = re.compile(r"^s3d: (\d+) ranks .*? (\d+) steps.*?, ([\d.]+) s(?:, error (\S+), of time (\S+))?, checksum ([0-9A-Fa-f]{16})$", re.M)


@dataclass
class Record:
    """A line of the log of record.h."""

    what: str
    begin: float
    end: float
    step: int
    rank: int


@dataclass
class Run:
    """What a run of s3d has said."""

    steps: int
    seconds: float
    error: float
    time_error: float
    checksum: str
    records: list
    messages: str

    def of(self, what):
        return [record for record in self.records if record.what == what]


def crrun(program, *words, ranks=1, engine="ulfm", variables=(), timeout=300):
    """@return its standard output and error; if it fails, the measurement ends"""
    with tempfile.TemporaryDirectory() as folder:
        command = ["crrun", "-q", "--oversubscribe", "-n", str(ranks), "--mca", "btl_crtcp_spin", "200", *ENGINES[engine]]
        if engine == "reprise":
            command += ["--local", folder + "/local", "--shared", folder + "/shared"]
        for variable in variables:
            command += ["-x", variable]
        command += [PROGRAMS + program, *map(str, words)]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
                                  cwd="/tmp")
        except subprocess.TimeoutExpired:
            sys.exit(f"{' '.join(command)}: it did not end in {timeout} s")
        if done.returncode:
            sys.exit(f"{' '.join(command)}: {done.returncode}\n{done.stdout[-1000:]}{done.stderr}")
        return done.stdout, done.stderr


def s3d(program, *words, kills=(), **more):
    """Run s3d. @param kills of ranks: (seconds, rank)"""
    with tempfile.TemporaryDirectory() as folder:
        variables = [f"S3D_FOLDER={folder}"]
        if kills:
            variables.append("S3D_KILLS=" + ",".join(f"{seconds:.3f}:{rank}" for seconds, rank in kills))
        output, messages = crrun(program, *words, variables=variables, **more)
        found = RESULT.findall(output)
        if len(found) != 1:
            sys.exit(f"{program} {words}: {len(found)} results\n{output[-1000:]}{messages}")
        records = []
        for line in (Path(folder) / "log").read_text("ascii").splitlines():
            what, begin, end, step, rank = line.split()
            records.append(Record(what, float(begin), float(end), int(step), int(rank)))
    _, steps, seconds, error, time_error, checksum = found[0]
    return Run(int(steps), float(seconds), float(error or 0), float(time_error or 0), checksum.lower(), records, messages)


def median_and_range(values, form="{:.3g}"):
    """@return the median, and the smallest and largest value, as text"""
    values = sorted(values)
    shown = [form.format(value) for value in (statistics.median(values), values[0], values[-1])]
    return f"{shown[0]} ({shown[1]} to {shown[2]})" if len(values) > 1 else shown[0]
