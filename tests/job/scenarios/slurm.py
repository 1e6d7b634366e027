# SPDX-License-Identifier: GPL-2.0-only
"""Jobs in allocations of Slurm, which confines them by control groups."""

import re

from lib.cluster import NODES, Failure, quoted, wait_until
from lib.scenario import Job, Survivors, await_wave_of_loop, check, check_result, held, scenario

# Of nodes with two processors and 700 MB for jobs. What is asked for each task is for the ranks, of which srun knows nothing:
# the daemon, its only task on a node, and its children need all of it.
ALLOCATION = ["-N3", "--ntasks-per-node=2", "--cpus-per-task=1", "--mem-per-cpu=300M", "--no-kill"]
PROCESSES = ("crrun", "crd", "mpicheck", "cr_pause", "cr_restart", "cr_checkpoint")


def slurm(cluster):
    cluster.ssh("node1", "sh /mnt/project/tests/job/slurm-up " + " ".join(NODES[:3]), timeout=300)


def job_in(cluster, program):
    """A job in an allocation of node1 to node3: two ranks on each of two nodes, and a spare."""
    return Job(cluster, program.words, ranks=4, hosts=(), spares=("1",))


def group_of(cluster, node, pid):
    """@return the control group of a process"""
    return cluster.ssh(node, f"sed -n 's/^0:://p' /proc/{pid}/cgroup").strip()


def limit(cluster, node, group, name):
    """@return the content of this file of the control group, or of the next one above it that has a limit"""
    while group != "/":
        text = cluster.ssh(node, f"cat /sys/fs/cgroup{group}/{name}").strip()
        if text not in ("", "max"):
            return text
        group = group.rpartition("/")[0] or "/"
    return None


def check_groups(job, where, step):
    """All ranks are in the control group of this step, with the memory and the processors that the job has."""
    for rank, (node, pid) in where.items():
        group = group_of(job.cluster, node, pid)
        check(f"/job_{step[0]}/step_{step[1]}/" in group + "/", f"rank {rank} on {node} is in the control group {group}, "
              f"not in that of job {step[0]}, step {step[1]}")
        memory = limit(job.cluster, node, group, "memory.max")
        check(memory == str(600 << 20), f"rank {rank} on {node} has the memory limit {memory}")
        cpus = job.cluster.ssh(node, f"cat /sys/fs/cgroup{group}/cpuset.cpus.effective").strip()
        check(cpus == "0-1", f"rank {rank} on {node} may use the processors {cpus} of the node's two, which are the job's")


def processes(cluster, node):
    """@return the job's processes on a node: id, state, control group, program"""
    return cluster.ssh(node, f"ps -o pid,stat,cgroup,comm -C {','.join(PROCESSES)} --no-headers; true").strip()


def steps(cluster):
    """@return [(job, step)] that run, without those of batch scripts"""
    lines = cluster.ssh("node1", "squeue -h -s -o %i").split()
    return [tuple(line.split(".")) for line in lines if line.rpartition(".")[2].isdigit()]


@scenario
def inside_slurm(cluster):
    # One step for all nodes. A node dies, and Slurm notices; its ranks go on in the same step on the spare.
    slurm(cluster)
    program = held("p2p,coll")
    job = job_in(cluster, program)
    job.start(["salloc", "-Q", *ALLOCATION, *job.words], where=("ssh", "node1"))
    await_wave_of_loop(job, program, seconds=180)
    one = steps(cluster)
    check(len(one) == 1, f"not one step for all nodes: {one}")
    survivors = Survivors(job, {"node2"})
    check_groups(job, survivors.where, one[0])
    cluster.kill("node2")
    cluster.ssh("node1", "scontrol update NodeName=node2 State=DOWN Reason=power")
    job.await_event("recovery-done", seconds=90)
    survivors.check()
    where = job.where()
    check([where[rank][0] for rank in (2, 3)] == ["node3"] * 2, f"the lost ranks are not on the spare: {where}")
    check_groups(job, where, one[0])
    job.await_event("wave-commit", len(job.events("wave-commit")) + 1)
    check(steps(cluster) == one, f"it is another step: {steps(cluster)}")
    check_result(job, program)
    wait_until(lambda: not cluster.ssh("node1", "squeue -h").strip(), 30, "the end of the allocation")


@scenario
def scancel_leaves_no_process(cluster):
    # In a batch job, and after a recovery: restarted and rolled back ranks end with the job, and so does crrun.
    slurm(cluster)
    program = held("p2p,coll")
    job = job_in(cluster, program)
    script = f"/mnt/share/{job.name}/script"
    (job.folder / "script").write_text(f"#!/bin/sh\nexec {quoted(job.words)}\n", "ascii")
    job.start(["sbatch", "--wait", *ALLOCATION, "-o", f"/mnt/share/{job.name}/out", script], where=("ssh", "node1"))
    job.await_event("wave-staged", 1, seconds=180)
    where = job.where()
    cluster.ssh(where[3][0], f"kill -9 {where[3][1]}")
    job.await_event("recovery-done")
    where = job.where()
    check_groups(job, where, steps(cluster)[0])
    number = re.search(r"\d+", cluster.ssh("node1", "squeue -h -o %i"))[0]
    cluster.ssh("node1", f"scancel {number}")
    wait_until(lambda: not cluster.ssh("node1", "squeue -h").strip(), 60, "the end of the job")
    for node in NODES[:3]:
        try:  # Slurm has killed them, and the kernel may still be ending some
            wait_until(lambda: not processes(cluster, node), 30, "")  # noqa: B023
        except Failure:
            check(False, f"{node} still has {processes(cluster, node)}")
        groups = cluster.ssh(node, f"find /sys/fs/cgroup -name job_{number}")
        check(not groups, f"{node} still has {groups}")
