# SPDX-License-Identifier: GPL-2.0-only
"""Programs that are told of failures (--recover ulfm), and deal with them by MPI's user-level failure mitigation."""

import random
import time

from lib.cluster import wait_until
from lib.faults import cut_connections
from lib.scenario import Job, check, scenario

ULFM = "/mnt/project/build/vm/user/tests/job/programs/ulfm"
STEPS = "/mnt/project/build/vm/user/tests/mpi/steps"
STOP = "stop"  # the file that ends a program which waits


def told(cluster, *words, ranks=6, hosts=("node1:2", "node2:2", "node3:2"), spares=("node4:2",), options=()):
    return Job(cluster, [ULFM, *map(str, words)], ranks=ranks, hosts=hosts, spares=spares, every=None,
               options=["--recover", "ulfm", *options]).start()


def check_end(job, words, seconds=120, code=0):
    status = job.wait(seconds)
    check(status == code, f"exit status {status}; messages:\n{job.last_messages()}\n{job.output()[-500:]}")
    for text in words:
        check(text in job.output(), f"{text!r} is not in its output:\n{job.output()}\n{job.last_messages()}")
    check(not job.events("recovery-begin"), "a recovery was begun")


def failed(job):
    return sorted(rank for event in job.events("ranks-failed") for rank in event["ranks"])


@scenario
def told_of_ranks_that_die(cluster):
    job = told(cluster, "calls")
    check_end(job, ["point-to-point", "any source", "agree", "collectives", "revoke", "shrink", "ulfm calls: done"])
    check(failed(job) == [4, 5], f"others have failed: {failed(job)}")


@scenario
def told_by_a_pmix_server_that_is_late(cluster):
    # It sees the ends of all connections at once. The daemon asks it before it tells crrun of the ends. MPI_Finalize has a fence of all.
    job = told(cluster, "wait", STOP, ranks=8, hosts=("node1:8",), spares=())
    job.await_output("^ready")
    where = job.where()
    cluster.ssh("node1", "pkill -STOP -f -- '[-]-pmix-server'")
    cluster.ssh("node1", "kill -9 " + " ".join(str(where[rank][1]) for rank in (4, 5, 6, 7)))
    time.sleep(2)
    cluster.ssh("node1", "pkill -CONT -f -- '[-]-pmix-server'")
    job.await_output("^4 ranks are left")
    (job.folder / STOP).touch()
    check_end(job, ["ulfm wait: done"])


# Stops the threads of the PMIx server that serve its clients while processes are killed, so that it is told of the failures first.
LATE = """
import ctypes, os, subprocess, sys, time
SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000
ptrace = ctypes.CDLL(None).ptrace
server = int(subprocess.check_output(["pgrep", "-f", "--", "[-]-pmix-server"]))
for thread in map(int, os.listdir(f"/proc/{server}/task")):
    if thread != server:
        ptrace(SEIZE, thread, None, None)
        ptrace(INTERRUPT, thread, None, None)
        os.waitpid(thread, WALL)
for pid in map(int, sys.argv[1:]):
    os.kill(pid, 9)
time.sleep(1)
"""


@scenario
def replaced_beside_a_pmix_server_that_is_late(cluster):
    # The new processes' connections have the descriptors of the old ones.
    job = told(cluster, "replace", STOP, ranks=8, hosts=("node1:8",), spares=())
    job.await_output("^ready")
    where = job.where()
    cluster.ssh("node1", f"python3 -c '{LATE}' " + " ".join(str(where[rank][1]) for rank in (4, 5, 6, 7)))
    job.await_output("^all ranks are there again", 90)
    (job.folder / STOP).touch()
    check_end(job, ["ulfm replace: done"])


@scenario
def told_while_the_others_repair(cluster):
    for what in ("shrink", "agree"):
        check_end(told(cluster, "during", what), [f"after a failure in {what}: 4 ranks", "ulfm during: done"])
    check_end(told(cluster, "during", "spawn"), ["a spawn has failed", "ulfm during: done"])


@scenario
def told_of_nodes_until_one_is_left(cluster):
    # The program goes on with fewer ranks; a node that comes back gets none.
    job = told(cluster, "wait", STOP, spares=())
    job.await_output("^ready")
    cluster.kill("node3")
    job.await_output("^4 ranks are left")
    cluster.kill("node2")
    job.await_output("^2 ranks are left")
    (job.folder / STOP).touch()
    check_end(job, ["ulfm wait: done"])
    check(failed(job) == [2, 3, 4, 5], f"others have failed: {failed(job)}")


@scenario
def lost_nodes_are_replaced_by_spawning(cluster):
    # First the spare takes what is spawned, then the node that has come back.
    job = told(cluster, "replace", STOP)
    job.await_output("^ready")
    cluster.kill("node3")
    job.await_output("^all ranks are there again", 90)
    cluster.start("node3")
    job.await_event("node-back", seconds=90)
    cluster.kill("node2")
    job.await_output("^all ranks are there again[^$]*^all ranks are there again", 90)
    status = job.status()
    states = [rank["state"] for rank in status["ranks"]]
    check(states == ["running"] * 2 + ["failed"] * 4, f"not the states of the ranks: {states}")
    there = sorted(process["node"].split(":")[0] for process in status["spawned"] if process["state"] == "running")
    check(there == ["node3", "node3", "node4", "node4"], f"the spawned processes are elsewhere: {there}")
    check("the program is told of failures" in job.crjob("status"), "crjob status does not say it")
    (job.folder / STOP).touch()
    check_end(job, ["ulfm replace: done"])


@scenario
def twenty_losses_that_shrink(cluster):
    job = told(cluster, "shrink", 20, ranks=22, hosts=("node1:6", "node2:6", "node3:6", "node4:4"), spares=())
    check_end(job, ["2 ranks are left", "ulfm shrink: done"], seconds=240)
    check(len(failed(job)) == 20, f"so many have failed: {failed(job)}")


@scenario
def twenty_losses_that_spawn(cluster):
    job = told(cluster, "respawn", 20, ranks=4, hosts=("node1:2", "node2:2"), spares=("node4:2",))
    check_end(job, ["round 20: 4 ranks", "ulfm respawn: done"], seconds=300)
    check(len(failed(job)) == 20, f"so many have failed: {failed(job)}")


@scenario
def losses_until_no_first_process_is_left(cluster):
    # Open MPI then used the identifiers of communicators again, and found old agreements under the new ones' names.
    job = told(cluster, "turns", 12, ranks=3, hosts=("node1:2", "node2:2"), spares=())
    check_end(job, ["round 12: 3 ranks", "ulfm turns: done"], seconds=240)
    check("cycling of identifiers" not in job.messages(), f"identifiers were used again:\n{job.messages()[-1000:]}")


@scenario
def told_of_a_node_that_is_cut_off(cluster):
    # Its ranks stand still before the others are told, and are killed when it is back.
    job = told(cluster, "wait", STOP, spares=(), options=["--detect", "4s"])
    job.await_output("^ready")
    where = job.where()
    cluster.split("node3", True)
    job.await_output("^4 ranks are left")
    cluster.split("node3", False)
    job.await_event("node-back", seconds=60)
    for rank in (4, 5):
        node, pid = where[rank]
        check(not cluster.ssh(node, f"ls -d /proc/{pid} 2>/dev/null; true").strip(), f"rank {rank} is still there")
    (job.folder / STOP).touch()
    check_end(job, ["ulfm wait: done"])


@scenario
def told_by_the_next_launcher(cluster):
    # A node is lost before crrun dies, another one while no crrun runs.
    job = told(cluster, "wait", STOP, spares=())
    job.await_output("^ready")
    cluster.kill("node3")
    job.await_output("^4 ranks are left")
    job.kill_launcher()
    cluster.kill("node2")
    time.sleep(1)
    job.attach()
    job.await_output("^2 ranks are left", 90)
    (job.folder / STOP).touch()
    check_end(job, ["ulfm wait: done"])


@scenario
def told_at_random_moments(cluster):
    # Ranks die at any moment, also while others repair what the loss of the one before has broken.
    job = told(cluster, "wait", STOP, ranks=12, hosts=("node1:3", "node2:3", "node3:3", "node4:3"), spares=())
    job.await_output("^ready")
    where = job.where()
    chance = random.Random(15)
    victims = chance.sample(range(1, 9), 6)  # node4 is lost as a whole
    for number, rank in enumerate(victims):
        node, pid = where[rank]
        cluster.ssh(node, f"kill -9 {pid}")
        if number == 3:
            cluster.kill("node4")
        time.sleep(chance.choice((0, 0, 0.05, 0.3, 1)))
    job.await_event("node-lost", seconds=60)
    job.await_output("^3 ranks are left", 60)
    (job.folder / STOP).touch()
    check_end(job, ["ulfm wait: done"])
    check(failed(job) == sorted([*victims, 9, 10, 11]), f"others have failed: {failed(job)}, killed {sorted(victims)}")


def step(job, steps):
    """Have ranks carry out the next step of tests/mpi/steps.c at the same time. @return their results"""
    numbers = {rank: len(list(job.folder.glob(f"{rank}.*.result"))) for rank in steps}
    results = [job.folder / f"{rank}.{number}.result" for rank, number in numbers.items()]
    for rank, words in steps.items():
        (job.folder / f"{rank}.{numbers[rank]}.step").write_text(words, "ascii")
        (job.folder / f"{rank}.{numbers[rank]}.step").rename(job.folder / f"{rank}.{numbers[rank]}")
    wait_until(lambda: all(path.exists() for path in results), 60, f"the results of {steps}")
    return [path.read_text("utf-8") for path in results]


@scenario
def told_while_they_compute(cluster):
    # With the guard a rank that makes no call of MPI reports that a connection has ended, and the next call is told.
    job = Job(cluster, [STEPS, "."], ranks=3, hosts=("node1:1", "node2:1", "node3:1"), spares=(), every=None,
              options=["--recover", "ulfm", "--mca", "btl_crtcp_guard", "1"]).start()
    wait_until(lambda: len(list(job.folder.glob("*.0.result"))) == 3, 60, "the ranks to compute")
    for a, b in ((0, 1), (1, 2), (0, 2)):
        for _ in range(2):
            check(step(job, {a: f"send {b} 100", b: f"recv {a} 100"}) == ["ok", "ok"], f"no message from {a} to {b}")
    where = job.where()
    node, pid = where[1]
    cluster.ssh(node, f"kill -9 {pid}")
    job.await_event("link-lost", 2, seconds=20)
    reports = sorted((event["rank"], event["peer"]) for event in job.events("link-lost"))
    check(reports == [(0, 1), (2, 1)], f"not each rank that computes has reported rank 1 once: {reports}")
    job.await_event("ranks-failed", seconds=20)
    said = step(job, {0: "send 1 100", 2: "send 1 100"})
    check(said == ["process failed"] * 2, f"the next call says {said}")
    cut = cut_connections(cluster, *where[0])
    check("10.77" in cut, f"nothing was cut: {cut}")
    wait_until(lambda: any((event["rank"], event["peer"]) == (2, 0) for event in job.events("link-lost")), 20, "rank 2's report")
    check(step(job, {0: "send 2 100", 2: "recv 0 100"}) == ["ok", "ok"], "no message over a new connection")
    check(step(job, {0: "end", 2: "end"}) == ["ok", "ok"], "the ranks do not end")
    check_end(job, [])


@scenario
def a_failure_may_be_fatal(cluster):
    # Under MPI_ERRORS_ARE_FATAL, MPI's default, a failure ends the job as MPI_Abort does.
    job = told(cluster, "fatal", 2)
    status = job.wait(60)
    check(status != 0, "it ended well")
    check("MPI_Abort was called" in job.messages(), f"other messages:\n{job.last_messages()}")
