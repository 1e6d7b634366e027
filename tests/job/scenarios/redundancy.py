# SPDX-License-Identifier: GPL-2.0-only
"""Without shared storage: nodes keep what brings the images of others back."""

import re
import time

from lib.cluster import NODES, wait_until
from lib.scenario import THREE, Job, Program, Survivors, await_wave_of_loop, check, check_result, held, scenario

PROGRAM = ("p2p,coll",)
RING = "/mnt/project/build/vm/user/tests/job/crd/mpi_ring"


def kept(cluster, redundancy, program, hosts=THREE, spares=("node4",), options=(), **others):
    """A job with a rank on each of its hosts; a wave is safe when nodes keep what `redundancy` says."""
    return Job(cluster, program.words, ranks=len(hosts), hosts=hosts, spares=spares, shared=False,
               options=["--redundancy", redundancy, *options], **others)


def safe_wave(job, program):
    return await_wave_of_loop(job, program, kind="wave-safe")


def went_back_to(job, count=1):
    """@return the wave of the last of so many recoveries, when it is done"""
    job.await_event("recovery-done", count=count, seconds=120)
    return job.events("recovery-begin")[-1]["wave"]


def lose(cluster, redundancy, *nodes, hosts=THREE, spares=("node4",)):
    program = held(*PROGRAM)
    job = kept(cluster, redundancy, program, hosts, spares).start()
    wave = safe_wave(job, program)
    survivors = Survivors(job, set(nodes))
    for node in nodes:
        cluster.kill(node)
    back = went_back_to(job)
    check(back >= wave, f"wave {wave} was safe, and the job went back to {back}; messages:\n{job.last_messages()}")
    survivors.check()
    check_result(job, program)


@scenario
def partner_brings_a_node_back(cluster):
    lose(cluster, "partner", "node3")


def checksum(job):
    status = job.wait(300)
    check(status == 0, f"exit status {status}; messages:\n{job.last_messages()}")
    return [line for line in job.output().splitlines() if line.startswith("ballast: checksum")]


@scenario
def partner_brings_a_node_back_from_deltas(cluster):
    # A program that changes little of its memory: copies of its images are deltas, as the images are.
    program = ("/mnt/project/build/vm/user/bench/job/ballast", 16, 500, 0.0001)

    def run(**how):
        return Job(cluster, program, ranks=3, hosts=THREE, spares=("node4",), shared=False,
                   options=["--redundancy", "partner", "--incremental"], **how).start()
    job = run()
    job.await_event("wave-safe", 3, seconds=90)
    where = {rank: node for rank, (node, _) in job.where().items()}
    found = [name for node in THREE for rank in where if where[rank] != node
             for name in cluster.ssh(node, f"ls /var/tmp/cr/*/wave-*/rank-{rank}.base-* 2>/dev/null || true").split()]
    check(found, "copies of deltas have become whole images")
    wave = job.events("wave-safe")[-1]["wave"]
    survivors = Survivors(job, {"node3"})
    cluster.kill("node3")
    back = went_back_to(job)
    check(back >= wave, f"wave {wave} was safe, and the job went back to {back}; messages:\n{job.last_messages()}")
    survivors.check()
    result = checksum(job)
    expected = checksum(run(every=None))
    check(result and result == expected, f"another result: {result} instead of {expected}")


@scenario
def partner_brings_two_nodes_back_at_once(cluster):
    lose(cluster, "partner:2", "node2", "node3", hosts=("node1:2", "node2", "node3"), spares=("node4:2",))


@scenario
def partner_brings_one_node_back_after_the_other(cluster):
    program = held(*PROGRAM)
    job = kept(cluster, "partner", program, hosts=("node1", "node2"), spares=("node3", "node4")).start()
    for count, node in enumerate(("node2", "node1"), 1):
        begun = max((event["wave"] for event in job.events("wave-begin")), default=0)
        wave = safe_wave(job, program)
        check(wave > begun or count == 1, f"no new wave is safe after the loss of a node: {wave}, {begun} was begun")
        cluster.kill(node)
        back = went_back_to(job, count)
        check(back >= wave, f"wave {wave} was safe, and the job went back to {back}; messages:\n{job.last_messages()}")
    check_result(job, program)


@scenario
def a_partner_is_lost_while_it_copies(cluster):
    # Copies are slow, so that a node is lost before the newest wave is safe.
    program = held(*PROGRAM)
    job = kept(cluster, "partner", program, options=["--stage-rate", "2M"], every="10s").start()
    wave = safe_wave(job, program)
    newer = job.await_event("wave-commit", seconds=60, such=lambda event: event["wave"] > wave)["wave"]
    time.sleep(1)
    cluster.kill("node3")
    back = went_back_to(job)
    check(wave <= back <= newer, f"wave {wave} was safe, and the job went back to {back}; messages:\n{job.last_messages()}")
    check_result(job, program)


@scenario
def a_damaged_copy_is_not_used(cluster):
    program = held(*PROGRAM)
    job = kept(cluster, "partner", program, every="1h").start()
    waves = []
    for _ in range(2):
        waves.append(job.checkpoint())
        job.await_event("wave-safe", wave=waves[-1])
    older, wave = waves
    rank = next(number for number, (node, _) in job.where().items() if node == "node3")
    found = 0
    for node in NODES[:2]:
        # A byte in the middle of the copy.
        found += int(cluster.ssh(node, f"""count=0
            for file in /var/tmp/cr/*/wave-*/rank-{rank}.img; do
              number=${{file#*wave-}}; number=${{number%%/*}}
              [ -f "$file" ] && [ "$number" -eq {wave} ] || continue
              printf X | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") / 2)) conv=notrunc status=none && count=$((count + 1))
            done; sync; echo $count"""))
    check(found == 1, f"{found} copies of rank {rank} of wave {wave} were found")
    cluster.kill("node3")
    back = went_back_to(job)
    check(back == older, f"the newest copy is damaged: wave {older} was to be used, not {back}; messages:\n{job.last_messages()}")
    check_result(job, program)


@scenario
def parity_brings_a_node_back(cluster):
    lose(cluster, "xor:3", "node3")


def counts(redundancy, cluster):
    """Each rank counts its rounds in kept memory whose content images have. A node is lost, then the rank on the spare."""
    rounds = 1500
    program = Program([RING, rounds, 20000, 0, "copy"], r"^total .*$")
    job = kept(cluster, redundancy, program, every="1h").start()
    job.await_output(r"^round 100$", seconds=150)
    job.crjob("checkpoint")
    wave = job.await_event("wave-safe")["wave"]
    time.sleep(2)
    cluster.kill("node3")
    check(went_back_to(job) == wave, f"not back to wave {wave}; messages:\n{job.last_messages()}")
    time.sleep(2)
    rank = next(number for number, (node, _) in job.where().items() if node == "node4")
    return job, program, rank, rounds


def counted(job, rank):
    found = re.findall(rf"rank {rank} has counted (\d+) rounds", job.output() + job.messages())
    check(len(found) == 1, f"rank {rank} has not said once what it has counted: {found}")
    return int(found[0])


@scenario
def copied_memory_is_brought_back(cluster):
    job, program, rank, rounds = counts("partner", cluster)
    check_result(job, program)
    found = [counted(job, one) for one in range(job.ranks)]
    check(found[rank] == rounds, f"the counter of rank {rank} is not that of the wave: {found}")
    check(all(count > rounds for one, count in enumerate(found) if one != rank), f"others were rolled back: {found}")


@scenario
def copied_memory_stays_with_a_rank_that_dies_on_its_new_node(cluster):
    job, program, rank, rounds = counts("xor:3", cluster)
    cluster.ssh("node4", "pkill -KILL -x mpi_ring")
    went_back_to(job, 2)
    check_result(job, program)
    found = [counted(job, one) for one in range(job.ranks)]
    check(rounds < found[rank] < min(count for one, count in enumerate(found) if one != rank),
          f"the counter of rank {rank} is not its own: {found}")


@scenario
def memory_that_was_copied_between_waves_is_brought_back(cluster):
    rounds = 1500
    program = Program([RING, rounds, 20000, 0, "ask"], r"^total .*$")
    job = kept(cluster, "partner", program, every="1h").start()
    job.await_output(r"^round 100$", seconds=150)
    job.crjob("checkpoint")
    job.await_event("wave-safe")
    lost = next(number for number, (node, _) in job.where().items() if node == "node3")

    def copies():
        return len(re.findall(rf"rank {lost} is copied", job.messages()))
    before = copies()
    wait_until(lambda: copies() > before, 60, "a copy after the wave")
    cluster.kill("node3")
    went_back_to(job)
    check_result(job, program)
    found = [counted(job, one) for one in range(job.ranks)]
    check(found[lost] > rounds, f"the counter of rank {lost} is that of the wave, or older: {found}")
    check("is not copied" not in job.messages(), f"a copy failed; messages:\n{job.last_messages()}")
