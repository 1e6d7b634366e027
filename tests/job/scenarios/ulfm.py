# SPDX-License-Identifier: GPL-2.0-only
"""Programs that are told of failures (--recover ulfm), and deal with them by MPI's user-level failure mitigation."""

import random
import time

from lib.scenario import Job, check, scenario

ULFM = "/mnt/project/build/vm/user/tests/job/programs/ulfm"
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


@scenario
def a_failure_may_be_fatal(cluster):
    # Under MPI_ERRORS_ARE_FATAL, MPI's default, a failure ends the job as MPI_Abort does.
    job = told(cluster, "fatal", 2)
    status = job.wait(60)
    check(status != 0, "it ended well")
    check("MPI_Abort was called" in job.messages(), f"other messages:\n{job.last_messages()}")
