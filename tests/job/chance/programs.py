# SPDX-License-Identifier: GPL-2.0-only
"""The programs that a round may run. A further one needs a line in PROGRAMS only."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Callable

from lib.cluster import PROJECT, VM, Failure
from lib.job import Job
from lib.scenario import Program, lammps, mpicheck

# Milliseconds that each rank adds to an iteration on emulated nodes.
COST = {"p2p": 150, "coll": 100, "rma": 250, "threads": 250, "late": 110}
TARGET = 50_000
SHORTEST = 35_000  # on faster nodes


class Whole(Program):
    """A program of whose output every byte counts, except what `changing` (a regular expression for lines) matches.

    `file`: its result is this file in its working directory. `grows`: a file there that shows its progress.
    `like_nodes`: its result depends on the processor, because libraries choose their code by it (FFTW, glibc). So the run
    without failures takes place on the nodes, too, and under crrun: mpirun's transports poll, and the nodes share processors.
    `prepare`: makes its input.
    """

    def __init__(self, words, changing=None, without_pauses=None, file=None, grows=None, like_nodes=False, prepare=None):
        super().__init__(words, None)
        self.changing = changing and re.compile(rf"^(?:{changing}).*\n?", re.M)
        self.without_pauses = [str(word) for word in without_pauses or words]
        self.file, self.grows, self.like_nodes, self.prepare = file, grows, like_nodes, prepare

    def wanted(self, cluster, plan):
        """@return the result without failures"""
        if self.prepare:
            self.prepare()
        if not self.like_nodes:
            return self.reference(plan.ranks, self.without_pauses)
        key = (plan.ranks, *self.words)
        if key not in self.references:
            job = Job(cluster, self.words, ranks=plan.ranks, hosts=[f"{node}:{plan.slots}" for node in plan.hosts], spares=(),
                      every=None, name=f"reference-{plan.name}")
            status = job.start().wait(900)
            if status or not self.result_of(job):
                raise Failure(f"the run without failures itself failed ({status}): {job.last_messages()}")
            self.references[key] = self.result_of(job)
            shutil.rmtree(job.folder)
        return self.references[key]

    def result_of(self, job):
        if not self.file:
            return self.of(job.output())
        path = job.folder / self.file
        return path.read_bytes().decode("latin-1") if path.exists() else ""

    def of(self, output):
        return self.changing.sub("", output) if self.changing else output

    def progress(self, job):
        """@return a number that grows while the program runs"""
        path = job.folder / self.grows if self.grows else job.log("stdout")
        return path.stat().st_size if path.exists() else 0


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


def input_file(name):
    """@return a file of this directory's parent, as the nodes see it"""
    return f"/mnt/project/tests/job/{name}"


WATER = PROJECT / "build" / "test" / "water.tpr"


def make_water():
    """GROMACS's input: what is to be computed, by a file of parameters, coordinates and a force field."""
    WATER.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([VM, "native", "--", "gmx_mpi", "-quiet", "grompp", "-f", input_file("water.mdp"), "-p",
                           input_file("water.top"), "-c", "/usr/share/gromacs/top/spc216.gro", "-po", "/tmp/out.mdp", "-o",
                           f"/mnt/project/{WATER.relative_to(PROJECT)}"], check=False, capture_output=True, text=True)
    if done.returncode:
        raise Failure(f"gmx_mpi grompp failed ({done.returncode}): {done.stderr[-1000:]}")


def gromacs(_chance, _ranks):
    """216 molecules of water; the energies of every twentieth step, as GROMACS stores them. Whatever it chooses by the clock
    is switched off."""
    return Whole(["gmx_mpi", "-quiet", "mdrun", "-s", f"/mnt/project/{WATER.relative_to(PROJECT)}", "-deffnm", "water",
                  "-ntomp", 1, "-pin", "off", "-reprod", "-notunepme", "-dlb", "no", "-cpt", -1, "-nobackup"],
                 file="water.edr", grows="water.log", like_nodes=True, prepare=make_water)


# Dates, times, and what depends on where it runs.
ESPRESSO_TIMES = (r" +Program PWSCF|.*\d+ nodes$| +total cpu time|.* dynamical memory:| +\S+ +: .*(?:CPU|WALL)|"
                  r" +This run was terminated|[ \d.]*secs$|[ \d.]*Mb$|[ \d.:sm]*(?:CPU|WALL)|[ \d:]*$")


def espresso(_chance, _ranks):
    """The electrons of silicon, self-consistently."""
    return Whole(["pw.x", "-in", input_file("in.silicon")], ESPRESSO_TIMES, like_nodes=True)


APART = "/mnt/project/build/vm/user/tests/job/crd/mpi_apart"
APART_ROUNDS = 1500


def spawning(chance, children):
    """Ranks that spawn children, which are other recovery domains as long as they do not talk with the ranks.
    @return the name of the processes, and the program"""
    pause_us, talk = TARGET * 1000 // APART_ROUNDS // 2, chance.choice([0, 0, 100])
    # The ranks print a line after some steps of their own: the children must not be through by then.
    return "mpi_apart", Whole([APART, children, APART_ROUNDS, pause_us, talk, "steps"], None, [APART, children, APART_ROUNDS, 2000, talk],
                              grows="steps")


@dataclass
class Kind:
    process: str  # the name of its processes
    weight: int  # how often it is chosen
    make: Callable  # of a random.Random and the number of ranks: the program


PROGRAMS = [
    Kind("mpicheck", 6, random_mpicheck),
    Kind("lmp", 2, random_lammps),
    Kind("gmx_mpi", 1, gromacs),
    Kind("pw.x", 1, espresso),
]


def random_program(chance, ranks):
    """@return the name of its processes, and the program"""
    kind = chance.choices(PROGRAMS, [one.weight for one in PROGRAMS])[0]
    return kind.process, kind.make(chance, ranks)
