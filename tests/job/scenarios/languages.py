# SPDX-License-Identifier: GPL-2.0-only
"""Programs in other languages than C lose a node."""

from lib.cluster import wait_until
from lib.scenario import Held, Job, Survivors, await_wave_of_loop, check_result, scenario

BUILT = "/mnt/project/build/vm/user/tests/job/programs"
SOURCE = "/mnt/project/tests/job/programs"


def lose_node2(job, program):
    """All lines that the program prints are those of a run without failures."""
    job.start()
    await_wave_of_loop(job, program, seconds=120)
    survivors = Survivors(job, {"node2"})
    job.cluster.kill("node2")
    job.await_event("recovery-done", seconds=90)
    survivors.check()
    # It must not end before the step that it had reached: the lines up to there are printed already.
    printed = len(job.output())
    wait_until(lambda: len(job.output()) > printed, 120, "more output than before the loss")
    check_result(job, program)


@scenario
def a_fortran_program_loses_a_node(cluster):
    # mpi_f08, derived datatypes, nonblocking messages, a communicator of each node.
    program = Held([f"{BUILT}/heat"], r"^(?:step|heat).*$", r"^step")
    job = Job(cluster, program.words, ranks=6, hosts=("node1:2", "node2:2", "node3:2"), spares=("node4:2",))
    lose_node2(job, program)


@scenario
def a_python_program_loses_a_node(cluster):
    # mpi4py with numpy's buffers and pickled objects, in messages and collectives.
    program = Held(["python3", f"{SOURCE}/poisson.py"], r"^(?:step|poisson).*$", r"^step")
    job = Job(cluster, program.words, ranks=4, hosts=("node1:2", "node2:2"), spares=("node3:2",))
    lose_node2(job, program)
