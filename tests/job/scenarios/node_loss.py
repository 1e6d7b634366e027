# SPDX-License-Identifier: GPL-2.0-only
"""A node is lost while the program does various things."""

import time

from lib.faults import kill_daemon, stop_daemon
from lib.scenario import (THREE, Job, Survivors, await_wave_of_loop, check, check_result, checked, held, lammps, on_three, scenario,
                          survive)


def lose_node3(cluster, program):
    job = on_three(cluster, program)
    survive(job, program, {"node3"}, lambda: cluster.kill("node3"))
    check(job.events("node-lost"), "no node-lost in the timeline")


@scenario
def lammps_loses_a_node(cluster):
    lose_node3(cluster, lammps(700))


@scenario
def in_messages(cluster):
    lose_node3(cluster, held("p2p"))


@scenario
def in_a_collective(cluster):
    lose_node3(cluster, held("coll"))


@scenario
def in_one_sided_access(cluster):
    lose_node3(cluster, held("rma"))


@scenario
def with_threads(cluster):
    lose_node3(cluster, held("threads"))


@scenario
def in_a_long_computation(cluster):
    # No rank calls MPI for six seconds: neither a wave nor a recovery may wait for that.
    lose_node3(cluster, held("p2p,compute", "--sleep-compute", 6000))


@scenario
def two_ranks_a_node(cluster):
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=6, hosts=("node1:2", "node2:2", "node3:2"), spares=("node4:2",))
    survive(job, program, {"node2"}, lambda: cluster.kill("node2"))


def above(job):
    """By node: the node through which its daemon reaches crrun; nodes that connect directly are left out."""
    return {node["host"]: node["via"] for node in job.status()["nodes"] if "via" in node}


# Every node has another node between it and crrun. Emulated nodes answer slowly, and a daemon that gets no answer for
# 4/9 of the time of --detect-at-least connects to crrun directly.
CHAIN = ["--fan-out", "1", "--detect", "12s", "--detect-at-least", "12s"]


def lost(job):
    return [f"node{event['node'] + 1}" for event in job.events("node-lost")]


@scenario
def in_a_tree_a_leaf(cluster):
    # node1 and node2 connect to crrun, the others to node1: waves and recoveries pass through it.
    program = held("p2p,coll")
    job = on_three(cluster, program, options=["--fan-out", "2", "--detect", "12s", "--detect-at-least", "12s"]).start()
    await_wave_of_loop(job, program)
    tree = {"node3": "node1", "node4": "node1"}
    check(above(job) == tree, f"it is another tree: {above(job)}")
    survivors = Survivors(job, {"node3"})
    cluster.kill("node3")
    job.await_event("recovery-done", seconds=90)
    survivors.check()
    job.await_event("wave-commit", len(job.events("wave-commit")) + 1)
    check(above(job).get("node4") == "node1", f"the spare has left its place: {above(job)}")
    check(lost(job) == ["node3"], f"lost: {lost(job)}")
    check_result(job, program)


@scenario
def in_a_tree_an_inner_node(cluster):
    # Each node is below the previous one. node3 and the spare lose their way with node2, and continue.
    program = held("p2p,coll")
    job = on_three(cluster, program, options=CHAIN).start()
    await_wave_of_loop(job, program)
    tree = {node: "node1" for node in ("node2", "node3", "node4")}
    check(above(job) == tree, f"it is another tree: {above(job)}")
    survivors = Survivors(job, {"node2"})
    cluster.kill("node2")
    job.await_event("recovery-done", seconds=90)
    survivors.check()
    check(lost(job) == ["node2"], f"lost: {lost(job)}")
    check("node3" not in above(job) and "node4" not in above(job), f"they still have another above them: {above(job)}")
    check(job.events("recovery-begin")[-1]["restart"] == [1], "others than the lost rank were restarted")
    job.await_event("wave-commit", len(job.events("wave-commit")) + 1)
    check_result(job, program)


@scenario
def in_a_tree_its_top(cluster):
    # All others reach crrun through node1. Its end is known at once; the messages for the recovery must take another
    # way.
    program = held("p2p,coll")
    job = on_three(cluster, program, options=CHAIN).start()
    await_wave_of_loop(job, program)
    survivors = Survivors(job, {"node1"})
    kill_daemon(cluster, "node1")
    job.await_event("recovery-done", seconds=90)
    survivors.check()
    check(lost(job) == ["node1"], f"lost: {lost(job)}")
    job.await_event("wave-commit", len(job.events("wave-commit")) + 1)
    check_result(job, program)


@scenario
def right_after_init(cluster):
    # There may be no wave yet: then every rank starts from the beginning, and the user must not notice that.
    program = held("p2p")
    job = on_three(cluster, program, every=None).start()
    job.await_output(r"^iteration 0")
    cluster.kill("node3")
    check_result(job, program)
    check(job.events("recovery-begin"), "there was no recovery")


@scenario
def just_before_finalize(cluster):
    # Rank 0 has printed its result and waits in MPI_Finalize for the others.
    program = checked("--phase", "p2p,compute", "--iterations", 30, "--sleep-compute", 300, "--linger", 6)
    job = on_three(cluster, program).start()
    job.await_event("wave-commit")
    job.await_output(r"^mpicheck: .*checksum", seconds=120)
    cluster.kill("node3")
    check_result(job, program)
    check(job.events("recovery-done"), "there was no recovery")


@scenario
def two_one_after_the_other(cluster):
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=2, hosts=("node1", "node2"), spares=("node3", "node4"))
    job.start()
    job.await_event("wave-commit", 2)
    cluster.kill("node2")
    job.await_event("recovery-done")
    job.await_event("wave-commit", len(job.events("wave-commit")) + 1)
    cluster.kill("node3")
    job.await_event("recovery-done", 2)
    check_result(job, program)


@scenario
def two_before_the_next_wave(cluster):
    # Both recoveries go back to the same wave, whose images do not contain the first recovery.
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=2, hosts=("node1", "node2"), spares=("node3", "node4"), every=None)
    job.start()
    job.checkpoint()
    job.await_event("wave-staged", 1)
    cluster.kill("node2")
    job.await_event("resume")
    cluster.kill("node3")
    job.await_event("recovery-done", 1, seconds=90)
    check_result(job, program)


@scenario
def two_at_once(cluster):
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=2, hosts=("node1", "node2"), spares=("node3", "node4")).start()
    job.await_event("wave-staged", 1)
    cluster.kill("node1")
    cluster.kill("node2")
    check_result(job, program)


@scenario
def the_spare_while_taking_over(cluster):
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=2, hosts=("node1", "node2"), spares=("node3", "node4")).start()
    job.await_event("wave-staged", 1)
    cluster.kill("node2")
    taken = job.await_event("recovery-begin")
    spare = next(f"node{node + 1}" for node in taken["placement"] if node >= 2)
    cluster.kill(spare)
    # A recovery may be done before its beginning is seen here: the spare is then lost directly after it.
    job.await_event("recovery-begin", 2, seconds=90)
    check_result(job, program)


@scenario
def a_survivor_during_the_recovery(cluster):
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=2, hosts=("node1", "node2"), spares=("node3", "node4")).start()
    job.await_event("wave-staged", 1)
    cluster.kill("node2")
    job.await_event("recovery-begin")
    cluster.kill("node1")
    check_result(job, program)


@scenario
def more_than_there_are_spares(cluster):
    # With no spare left, the survivors take the ranks.
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=3, hosts=THREE, spares=()).start()
    job.await_event("wave-staged", 1)
    cluster.kill("node3")
    job.await_event("recovery-done")
    check(all(node != 2 for node in job.events("recovery-begin")[-1]["placement"]), "a rank is on the lost node")
    check_result(job, program)


@scenario
def a_clear_end_and_restart(cluster):
    # No spare and no doubling up: the job ends, prints how to restart it, and is restarted on other nodes.
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=3, hosts=THREE, spares=(), options=["--no-double-up"]).start()
    job.await_event("wave-staged", 1)
    cluster.kill("node3")
    status = job.wait(60)
    check(status != 0, "the launcher ended with 0 although the job could not go on")
    directory = job.directory("/mnt/share")
    check("--restart" in job.messages(), f"nothing is said of --restart:\n{job.last_messages()}")
    job.start(["crrun", "-v", "--restart", directory, "--hosts", "node1,node2,node4"])
    check_result(job, program)
    check(job.events("job-begin")[-1]["how"] == "restart", "it was not a restart")


@scenario
def before_a_wave_is_committed(cluster):
    # The daemon of node3 is stopped: the wave can begin there, but not end.
    program = held("p2p,coll")
    job = on_three(cluster, program, every="5s", options=["--detect", "30s"]).start()
    first = job.await_event("wave-commit", 2)["wave"]
    stop_daemon(cluster, "node3")
    job.await_event("wave-begin", wave=first + 1)
    time.sleep(1.5)
    cluster.kill("node3")
    cluster.start("node3")  # its address answers again, so its end is detected at once
    done = job.await_event("recovery-begin", seconds=90)
    check(done["wave"] <= first, f"went back to wave {done['wave']}, which was never committed")
    check_result(job, program)


@scenario
def while_staging(cluster):
    # Only the lost node has the newest wave: the wave before it is used.
    program = held("p2p,coll")
    job = on_three(cluster, program, every=None, options=["--stage-rate", "1M"]).start()
    job.checkpoint()
    job.await_event("wave-staged", 1, seconds=120)
    job.checkpoint()
    newest = job.events("wave-commit")[-1]["wave"]
    cluster.kill("node3")
    begun = job.await_event("recovery-begin")
    staged = {event["wave"] for event in job.events("wave-staged")}
    check(begun["wave"] == newest if newest in staged else begun["wave"] < newest,
          f"went back to wave {begun['wave']}; newest {newest}, staged {staged}")
    check_result(job, program)


@scenario
def twenty_recoveries(cluster):
    # Two nodes take turns: the ranks of one are moved away, and it returns as a spare. Descriptors and memory must
    # not grow.
    program = held("p2p,coll")
    job = Job(cluster, program.words, ranks=2, hosts=("node1", "node2"), spares=("node3",), every=None).start()
    job.checkpoint()
    counts = []
    for number in range(20):
        where = job.where()
        if number % 5 == 4:
            job.crjob("drain", where[1][0])
        else:
            node, pid = where[1]
            cluster.ssh(node, f"kill -9 {pid}")
        job.await_event("recovery-done", number + 1)
        job.checkpoint()
        counts.append(job.descriptors({0: job.where()[0]})[0])
        memory = int(cluster.ssh(*(lambda w: (w[0], f"awk '/VmRSS/{{print $2}}' /proc/{w[1]}/status"))(job.where()[0])))
        counts[-1] = (counts[-1], memory)
    check(counts[-1][0] <= counts[3][0] + 1, f"descriptors grow: {counts}")
    check(counts[-1][1] <= counts[3][1] * 1.1 + 2048, f"memory grows: {counts}")
    check_result(job, program, seconds=400)
