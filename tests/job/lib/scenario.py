# SPDX-License-Identifier: GPL-2.0-only
"""Shared by the scenarios: their list, the programs they run, and the proof that a recovery took place."""

import re
import subprocess

from .cluster import PROJECT, VM, Failure, wait_until
from .job import Job, addresses

SCENARIOS = {}
THREE = ("node1", "node2", "node3")
MPICHECK = "/mnt/project/build/vm/user/tests/mpi/mpicheck"
# As under crrun, so that sums of floating-point numbers are made in the same order.
COLLECTIVES = "^sm,xhc,han,acoll,ucc,hcoll"


def scenario(function):
    """Add function(cluster) to the list, under its name."""
    SCENARIOS[function.__name__.replace("_", "-")] = function
    return function


def check(condition, text):
    if not condition:
        raise Failure(text)


def mpicheck(*options):
    return [MPICHECK, "--progress", *map(str, options)]


class Program:
    """A program, its arguments, and the part of its output that must be the same as without failures.

    `loop`: what it prints once its main loop runs. Its ranks have communicated by then.
    """

    references = {}

    def __init__(self, words, result, loop=r"^iteration \d"):
        self.words = [str(word) for word in words]
        self.result = result
        self.loop = loop

    def expected(self, ranks, _got):
        """Its result on the head node with Open MPI's own launcher and transport."""
        return self.reference(ranks, self.words)

    def reference(self, ranks, words):
        key = (ranks, *words)
        if key not in self.references:
            done = subprocess.run(
                [VM, "native", "--", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks),
                 "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
                 "--mca", "mpi_yield_when_idle", "1", "--mca", "coll", COLLECTIVES, *words],
                check=False, capture_output=True, text=True, timeout=300)
            found = self.of(done.stdout)
            if done.returncode or not found:
                raise Failure(f"the run without failures itself failed ({done.returncode}): "
                              f"{done.stdout[-1000:]}{done.stderr[-1000:]}")
            self.references[key] = found
        return self.references[key]

    def of(self, output):
        return re.findall(self.result, output, re.M)


class Held(Program):
    """A program of the project's, which runs as long as the scenario needs it (Job.release()).

    Its last line has the number of iterations, and a sum over all that it has computed or received: a run without
    failures of as many iterations must say the same.
    """

    def __init__(self, fixed, result, *loop):
        """@param fixed the words of its command line but those for how long it runs"""
        self.fixed = fixed
        # A few iterations at least: a job that starts from the beginning may find that it was released already.
        super().__init__([*fixed, "--iterations", 3, "--while", Job.HOLD], result, *loop)

    def expected(self, ranks, got):
        count = re.search(r"(\d+) iterations, checksum", got[-1]) if got else None
        if not count:
            raise Failure(f"no result: {got[-3:]}")
        return self.reference(ranks, [*self.fixed, "--iterations", count[1]])


def checked(*options):
    """The project's own program, for a given number of iterations."""
    return Program(mpicheck(*options), r"^mpicheck: .*checksum.*$")


def held(phases, *options):
    """The same program, running as long as the scenario needs it."""
    return Held(mpicheck("--phase", phases, *options), r"^mpicheck: .*checksum.*$")


def lammps(steps):
    """A melt of 864 atoms; its thermodynamics to the last digit."""
    source = (PROJECT / "tests" / "job" / "in.melt").read_text("ascii")
    path = PROJECT / "build" / "test"
    path.mkdir(parents=True, exist_ok=True)
    name = f"in.melt.{steps}"
    (path / name).write_text(source.replace("STEPS", str(steps)), "ascii")
    step = r"^ +\d+ +[-\d.]+ +[-\d.]+ .*$"
    return Program(["lmp", "-in", f"/mnt/project/build/test/{name}", "-log", "none"], step, step)


def check_result(job, program, code=0, seconds=240):
    """Check that the job ends well, and prints the output of a run without failures once."""
    job.release()
    status = job.wait(seconds)
    check(status == code, f"exit status {status}; messages:\n{job.last_messages()}\n{job.output()[-500:]}")
    got = program.of(job.output())
    expected = program.expected(job.ranks, got)
    check(got == expected, f"another result: {got} instead of {expected}; messages:\n{job.last_messages()}")


class Survivors:
    """The sockets between surviving ranks, before and after a loss."""

    def __init__(self, job, lost):
        self.job = job
        self.where = job.where()
        self.ranks = [rank for rank, (node, _) in self.where.items() if node not in lost and rank not in lost]
        self.before = job.sockets(self.where, self.ranks)
        self.listening = job.listening(self.where, self.ranks)  # daemons may connect to each other
        self.syns = len(job.cluster.syn_list())
        check(len(self.listening) >= len(self.ranks), f"not all of the ranks {self.ranks} listen: {self.listening}")
        check(len(self.ranks) < 2 or self.before, f"no connection between the ranks {self.ranks} was found: {self.where}")

    def check(self):
        """Check for the same processes and the same sockets; on the wire, no new connection between their nodes."""
        now = self.job.where()
        for rank in self.ranks:
            check(now[rank] == self.where[rank], f"rank {rank} is not where it was: {self.where[rank]}, now {now[rank]}")
        after = self.job.sockets(now, self.ranks)
        check(self.before <= after, f"sockets between survivors are others: {self.before}, now {after}")
        homes = addresses({self.where[rank][0] for rank in self.ranks})
        ports = {(address, port) for node, port in self.listening for address in addresses({node})}
        moved = addresses({node for rank, (node, _) in now.items() if rank not in self.ranks})
        syns = self.job.cluster.syn_list()[self.syns:]
        bad = [syn for syn in syns if syn[0] in homes and (syn[2], syn[3]) in ports and not {syn[0], syn[2]} & moved]
        check(not bad, f"connections between survivors' nodes were begun anew: {bad}")


def await_wave_of_loop(job, program, seconds=90, kind="wave-staged"):
    """Wait until a wave of the program's main loop is in shared storage, or what else `kind` tells of it. @return its number

    On a slow machine the first waves have the program as it starts. A recovery to one of them makes the connections anew
    that are younger, and the times that a program prints of its start are others.
    """
    job.await_output(program.loop, seconds)
    begun = max((event["wave"] for event in job.events("wave-begin")), default=0)
    return job.await_event(kind, seconds=seconds, such=lambda event: event["wave"] > begun)["wave"]


def await_loop(job, program, more=2, seconds=120):
    """Wait until the main loop has gone on. Then the connections that it uses are there, also those made anew by a recovery."""
    def passed():
        return len(re.findall(program.loop, job.output(), re.M))
    before = passed()
    wait_until(lambda: passed() >= before + more, seconds, f"{more} more passes of the program's loop")


def survive(job, program, lost, fault):
    """Run `program`, wait for a wave, call `fault`, prove the recovery and the result."""
    job.start()
    await_wave_of_loop(job, program)
    survivors = Survivors(job, lost)
    fault()
    job.await_event("recovery-done", seconds=90)
    survivors.check()
    check_result(job, program)


def on_three(cluster, program, **options):
    """A job with a rank on each of three nodes, and a spare."""
    return Job(cluster, program.words, ranks=3, hosts=THREE, spares=("node4",), **options)


__all__ = ["Failure", "Held", "Job", "MPICHECK", "Program", "SCENARIOS", "Survivors", "THREE", "await_wave_of_loop", "check",
           "check_result", "checked", "held", "lammps", "mpicheck", "on_three", "scenario", "survive"]
