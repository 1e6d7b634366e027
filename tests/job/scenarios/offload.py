# SPDX-License-Identifier: GPL-2.0-only
"""Programs that offload tasks (liboffload): nodes with boosters, or with masters, are lost, and the results are as without a loss."""

import os
import time

from lib.cluster import wait_until
from lib.scenario import Job, check, scenario

OFFLOAD = os.environ.get("OFFLOAD", "/mnt/project/build/vm/user/tests/offload/offload")
STOP = "stop"  # the program goes on until this file is there


def offload(cluster, *words, ranks=1, hosts=("node1:1", "node2:2", "node3:2"), spares=("node4:4",), options=()):
    return Job(cluster, [OFFLOAD, *map(str, words)], ranks=ranks, hosts=hosts, spares=spares, every=None,
               options=["--recover", "ulfm", "--oversubscribe", *options]).start()


def stencil(cluster, **more):
    job = offload(cluster, "stencil", 2000, 2, 2, 10, "-1:0:0", STOP, **more)
    job.await_output("^step 10 after 0", 90)
    return job


def check_end(job, words=("the line is as without failures", "offload stencil: done"), seconds=180):
    (job.folder / STOP).touch()
    status = job.wait(seconds)
    check(status == 0, f"exit status {status}; messages:\n{job.last_messages()}\n{job.output()[-500:]}")
    for text in words:
        check(text in job.output(), f"{text!r} is not in its output:\n{job.output()[-1000:]}\n{job.last_messages()}")


def boosters_on(job):
    return sorted(process["node"].split(":")[0] for process in job.status()["spawned"] if process["state"] == "running")


@scenario
def boosters_lose_a_node(cluster):
    job = stencil(cluster)
    there = boosters_on(job)
    check(there == ["node2", "node2", "node3", "node3"], f"the boosters are elsewhere: {there}")
    cluster.kill("node3")
    job.await_output("^step [0-9]+ after 1", 120)
    check("node3" not in boosters_on(job), "boosters are on the lost node")
    check_end(job)


def lose_two_nodes(cluster, job):
    cluster.kill("node2")
    cluster.kill("node3")
    job.await_output("^step [0-9]+ after [1-3]", 180)
    check_end(job)


@scenario
def boosters_lose_two_nodes_at_once(cluster):
    lose_two_nodes(cluster, stencil(cluster))


@scenario
def boosters_lose_a_node_while_they_are_replaced(cluster):
    job = stencil(cluster)
    cluster.kill("node3")
    job.await_event("ranks-failed", seconds=60)
    time.sleep(0.5)
    cluster.kill("node2")
    job.await_output("^step [0-9]+ after [1-3]", 180)
    check_end(job)


@scenario
def boosters_of_named_hosts_lose_one(cluster):
    job = stencil(cluster, options=["-x", "CROFF_HOSTS=node2,node4"], spares=(), hosts=("node1:2", "node2:2", "node3:2", "node4:2"))
    there = boosters_on(job)
    check(there == ["node2", "node2", "node4", "node4"], f"the boosters are elsewhere: {there}")
    cluster.kill("node4")
    job.await_output("^step [0-9]+ after 1", 120)
    check_end(job)


@scenario
def masters_on_two_nodes_share_boosters(cluster):
    # One after the other dies at the beginning of step 1 and at the end of step 3.
    job = offload(cluster, "shared", 2000, 2, 2, 6, "1:2:0", ranks=2, hosts=("node1:1", "node2:1", "node3:4"))
    check_end(job, ["the line is as without failures", "offload shared: done"])
    job = offload(cluster, "shared", 2000, 2, 2, 6, "3:9:1", ranks=2, hosts=("node1:1", "node2:1", "node3:4"))
    check_end(job, ["the line is as without failures", "offload shared: done"])


@scenario
def boosters_of_boosters_lose_a_node(cluster):
    # Two boosters with two boosters each; the lost node has some of both kinds, and may have a booster that is a master.
    job = offload(cluster, "nested", STOP, hosts=("node1:1", "node2:3", "node3:3"), spares=("node4:6",))
    job.await_output("^step 1 ", 120)
    cluster.kill("node2")
    job.await_event("ranks-failed", seconds=60)
    before = job.output().count("step ")
    job.await_output(f"^step {before + 2} ", 180)
    check_end(job, ["boosters have boosters", "offload nested: done"])


@scenario
def boosters_are_cut_off(cluster):
    # The boosters of a node that is cut off count as lost. When it is back, they are not there any more.
    job = stencil(cluster, options=["--detect", "4s"])
    cluster.split("node3", True)
    job.await_output("^step [0-9]+ after 1", 180)
    cluster.split("node3", False)
    job.await_event("node-back", seconds=90)
    check_end(job)
    left = cluster.ssh("node3", "pgrep -x offload; true").strip()
    check(not left, f"processes are left on node3: {left}")


# ------------------------------------------------------------------------------- the engine reprise

def beside(cluster, *words, recover="ulfm", options=(), **more):
    """The boosters are jobs of their own, beside that of the masters."""
    job = Job(cluster, [OFFLOAD, *map(str, words)], every="3s" if recover == "all" else None,
              **{"ranks": 1, "hosts": ("node1:1", "node2:2", "node3:2"), "spares": ("node4:4",), **more},
              options=["--recover", recover, "--oversubscribe", "--detect", "4s", "-x", "CROFF_ENGINE=reprise", *options])
    job.has_jobs_beside = True
    return job.start()


def stencil_beside(cluster, **more):
    job = beside(cluster, "stencil", 2000, 2, 2, 10, "-1:0:0", STOP, **more)
    job.await_output("^step 10 after 0", 120)
    return job


def programs_on(cluster, node):
    return len(cluster.ssh(node, "pgrep -x offload; true").split())


def none_left(cluster, *nodes, seconds=120):
    """Boosters of a crrun that was lost with its node are parked, and end after a minute."""
    for node in nodes:
        wait_until(lambda: programs_on(cluster, node) == 0, seconds, f"the end of all boosters on {node}")


@scenario
def boosters_beside_lose_a_node(cluster):
    job = stencil_beside(cluster)
    check([programs_on(cluster, node) for node in ("node1", "node2", "node3")] == [1, 2, 2], "the boosters are elsewhere")
    staying = cluster.ssh("node2", "pgrep -x offload")
    cluster.kill("node3")
    job.await_output("^step [0-9]+ after 1", 120)
    check(cluster.ssh("node2", "pgrep -x offload") == staying, "the siblings are other processes")
    check(programs_on(cluster, "node4") == 2, "the lost boosters are not on the spare")
    check_end(job)
    none_left(cluster, "node1", "node2", "node4", seconds=10)


@scenario
def boosters_beside_lose_two_nodes(cluster):
    lose_two_nodes(cluster, stencil_beside(cluster))


@scenario
def boosters_beside_are_cut_off(cluster):
    job = stencil_beside(cluster)
    cluster.split("node3", True)
    job.await_output("^step [0-9]+ after [1-3]", 180)
    cluster.split("node3", False)
    check_end(job)
    none_left(cluster, "node3")


@scenario
def masters_on_two_nodes_share_boosters_beside(cluster):
    job = beside(cluster, "shared", 2000, 2, 2, 6, "1:2:0", ranks=2, hosts=("node1:1", "node2:1", "node3:4"))
    check_end(job, ["the line is as without failures", "offload shared: done"])


@scenario
def boosters_of_boosters_beside_lose_a_node(cluster):
    job = beside(cluster, "nested", STOP, hosts=("node1:1", "node2:3", "node3:3"), spares=("node4:6",))
    job.await_output("^step 1 ", 180)
    cluster.kill("node2")
    before = job.output().count("step ")
    job.await_output(f"^step {before + 3} ", 240)
    check_end(job, ["boosters have boosters", "offload nested: done"])


@scenario
def a_master_of_boosters_beside_is_lost(cluster):
    # The masters' job goes back by its pause; the group that it had begins anew.
    job = stencil_beside(cluster, recover="all")
    begun = max(event["wave"] for event in job.events("wave-begin"))  # perhaps while the group was being allocated
    job.await_event("wave-staged", seconds=60, such=lambda event: event["wave"] > begun)
    cluster.kill("node1")
    job.await_event("recovery-done", seconds=120)
    job.await_output("^step [0-9]+ after [1-9]", 180)
    check_end(job)
    none_left(cluster, "node2", "node3", "node4")


@scenario
def masters_of_boosters_beside_go_back(cluster):
    # One of two masters is killed: it is restarted, the other one is rolled back in place with its connections to the boosters.
    job = beside(cluster, "shared", 2000, 2, 2, 1500, "-1:0:0", ranks=2, hosts=("node1:1", "node2:1", "node3:4"), recover="all")
    wait_until(lambda: programs_on(cluster, "node3") == 4, 90, "boosters on node3")
    begun = max(event["wave"] for event in job.events("wave-begin"))
    job.await_event("wave-commit", count=2, seconds=60, such=lambda event: event["wave"] > begun)
    node, pid = job.where()[1]
    cluster.ssh(node, f"kill -9 {pid}")
    job.await_event("recovery-done", seconds=60)
    check_end(job, ["the line is as without failures", "offload shared: done"], seconds=300)
    none_left(cluster, "node1", "node2", "node3", seconds=60)
