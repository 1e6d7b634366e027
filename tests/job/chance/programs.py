# SPDX-License-Identifier: GPL-2.0-only
"""The programs that a round may run. A further one needs a line in PROGRAMS only."""

import re
from dataclasses import dataclass
from typing import Callable

from lib.scenario import Program, lammps, mpicheck

# Milliseconds that each rank adds to an iteration on emulated nodes.
COST = {"p2p": 150, "coll": 100, "rma": 250, "threads": 250, "late": 110}
TARGET = 50_000
SHORTEST = 35_000  # on faster nodes


class Whole(Program):
    """A program of whose output every byte counts, except what `changing` (a regular expression for lines) matches."""

    def __init__(self, words, changing=None, without_pauses=None):
        super().__init__(words, None)
        self.changing = changing and re.compile(rf"^(?:{changing}).*\n?", re.M)
        self.without_pauses = [str(word) for word in without_pauses or words]

    def expected(self, ranks, _got=None):
        return self.reference(ranks, self.without_pauses)

    def of(self, output):
        return self.changing.sub("", output) if self.changing else output


def random_mpicheck(chance, ranks):
    phases = [phase for phase in (*COST, "compute") if chance.random() < 0.4]
    if not set(phases) & set(COST):
        phases.insert(0, chance.choice(list(COST)))
    compute = chance.choice([100, 500, 2000]) if "compute" in phases else 0
    iterations = max(4, round(TARGET / (ranks * sum(COST.get(phase, 0) for phase in phases) + compute)))
    options = ["--phase", ",".join(phases), "--iterations", iterations, "--seed", chance.randrange(1, 1000),
               "--size", chance.choice([1 << 16, 4 << 20])]
    # Its result does not depend on the pauses.
    return Whole(mpicheck(*options, "--sleep-compute", compute, "--pace", SHORTEST // iterations), None,
                 mpicheck(*options, "--sleep-compute", 0))


# Times, and what is computed of them. The numbers of the grid of processors and of neighbours stay. After a rollback, crrun
# repeats the output from the first byte that differs: a rest of a line with a time.
LAMMPS_TIMES = (r"Loop time|Performance:|[\d.]+% CPU use|MPI task timing|Section +\||-{20,}|"
                r"(?:Pair|Neigh|Comm|Output|Modify|Other) +\||"
                r"Total wall time|.* CPU = |[\d.]+ seconds$|[\d.]+ on \d+ procs")


def random_lammps(chance, ranks):
    step = 25 * ranks  # milliseconds
    return Whole(lammps(20 * round(TARGET * chance.choice([1, 1.5, 2]) / step / 20)).words, LAMMPS_TIMES)


@dataclass
class Kind:
    process: str  # the name of its processes
    weight: int  # how often it is chosen
    make: Callable  # of a random.Random and the number of ranks: the program


# GROMACS and Quantum ESPRESSO belong here once tests/vm/packages.txt has them.
PROGRAMS = [
    Kind("mpicheck", 7, random_mpicheck),
    Kind("lmp", 3, random_lammps),
]


def random_program(chance, ranks):
    """@return the name of its processes, and the program"""
    kind = chance.choices(PROGRAMS, [one.weight for one in PROGRAMS])[0]
    return kind.process, kind.make(chance, ranks)
