#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Coverage of the module: lines and branches by file, and the lines that were never run.

coverage.py BUILD REPORT RUN...
  BUILD   directory in which the module was built with CR_GCOV=y
  REPORT  file for the lines that were not run
  RUN     directory with the counters (.gcda) of one run, as the kernel has them

Run it where gcov belongs to the compiler of BUILD: in the guest root (vm native).
"""

import collections
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def gcov(build, run):
    """gcov's output for the counters of one run."""
    with tempfile.TemporaryDirectory() as folder:
        # gcov looks for the notes file beside a.gcda.
        for counters in sorted(run.rglob("*.gcda")):
            notes = build / "kmod" / f"{counters.stem}.gcno"
            if not notes.exists():
                sys.exit(f"coverage.py: no {notes} goes with {counters}")
            os.symlink(counters.resolve(), Path(folder) / counters.name)
            os.symlink(notes.resolve(), Path(folder) / notes.name)
            result = subprocess.run(["gcov", "--json-format", "--stdout", "--branch-probabilities",
                                     counters.name], cwd=folder, check=False, text=True,
                                    capture_output=True)
            if result.returncode:
                sys.exit(f"coverage.py: gcov of {counters}: {result.stderr}")
            for line in result.stdout.splitlines():
                yield from json.loads(line)["files"]


class Source:
    """One file: execution counts of each line and of each branch."""

    def __init__(self):
        self.lines = collections.Counter()
        self.branches = collections.Counter()
        self.functions = {}

    def add(self, file):
        for function in file.get("functions", ()):
            name = function["demangled_name"]
            self.functions[name] = self.functions.get(name, 0) + function["execution_count"]
        for line in file["lines"]:
            number = line["line_number"]
            self.lines[number] += line["count"]
            # An inlined function has its branches once for each place where it is inlined.
            for way, branch in enumerate(line["branches"]):
                self.branches[number, line.get("function_name"), way] += branch["count"]


def part(counter):
    run = sum(1 for count in counter.values() if count)
    return run, len(counter), 100 * run / len(counter) if counter else 100.0


def ranges(numbers):
    """3 4 5 9 as 3-5, 9."""
    spans = []
    for number in numbers:
        if spans and spans[-1][1] == number - 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return spans


def main(build, report, *runs):
    build = Path(build).resolve()
    sources = collections.defaultdict(Source)
    for run in runs:
        for file in gcov(build, Path(run)):
            path = Path(file["file"])
            path = path if path.is_absolute() else build / path
            if path.is_relative_to(build / "kmod"):
                sources[path].add(file)
    if not sources:
        sys.exit("coverage.py: no counters of the module were found")
    # Files that no run has executed count as well.
    compiled = {path.stem for path in (build / "kmod").glob("*.gcno")}
    missing = compiled - {path.stem for path in sources if path.suffix == ".c"}
    lines, branches = collections.Counter(), collections.Counter()
    print(f"{'file':<22}{'lines':>18}{'branches':>20}")
    with open(report, "w", encoding="utf-8") as out:
        for path in sorted(sources):
            source, name = sources[path], str(path.relative_to(build))
            for key, count in source.lines.items():
                lines[name, key] = count
            for key, count in source.branches.items():
                branches[name, key] = count
            a, b = part(source.lines), part(source.branches)
            print(f"{name:<22}{a[0]:>5} of {a[1]:>4} {a[2]:4.0f} %{b[0]:>7} of {b[1]:>4} {b[2]:4.0f} %")
            text = path.read_text("utf-8").splitlines()
            for first, last in ranges(sorted(n for n, count in source.lines.items() if not count)):
                for number in range(first, last + 1):
                    print(f"{name}:{number}: {text[number - 1].strip()}", file=out)
    a, b = part(lines), part(branches)
    print(f"{'all':<22}{a[0]:>5} of {a[1]:>4} {a[2]:4.0f} %{b[0]:>7} of {b[1]:>4} {b[2]:4.0f} %")
    never = sorted(f"{path.name}: {name}()" for path, source in sources.items()
                   for name, count in source.functions.items() if not count)
    for what in never:
        print(f"never called: {what}")
    for name in sorted(missing):
        print(f"no counters at all: kmod/{name}.c")
    least = float(os.environ.get("COVERAGE_LEAST") or 90)
    good = a[2] >= least and not missing
    print(f"{'ok' if good else 'not ok'} - {a[2]:.1f} % of lines, at least {least:g} % wanted; "
          f"lines not run: {report}")
    print(f"{int(good)} passed, {int(not good)} failed")
    return 0 if good else 1


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
