# SPDX-License-Identifier: GPL-2.0-only
"""Other faults: of a process, a daemon, the launcher, the network, a disk."""

import time

from lib.cluster import wait_until
from lib.faults import continue_daemon, cut_connections, kill_daemon, stop_daemon
from lib.scenario import THREE, Job, Survivors, await_loop, await_wave_of_loop, check, check_result, held, on_three, scenario


@scenario
def a_rank_is_killed(cluster):
    program = held("p2p,coll")
    job = on_three(cluster, program).start()
    await_wave_of_loop(job, program)
    survivors = Survivors(job, {2})
    node, pid = survivors.where[2]
    cluster.ssh(node, f"kill -9 {pid}")
    job.await_event("recovery-done")
    survivors.check()
    check(job.where()[2][0] == node, "the rank was not restarted where it was")
    check_result(job, program)


@scenario
def a_rank_is_killed_while_it_writes_to_a_lane(cluster):
    # Between two instructions, with a frame in the shared memory that is not complete. A node has twice as many ranks as
    # processors.
    program = held("p2p", "--size", 1000000)
    job = Job(cluster, program.words, ranks=8, hosts=("node1:4", "node2:4"), spares=("node3:4",), every=None).start()
    for turn, (victim, moment) in enumerate(((1, "copying"), (6, "copied"), (1, "published")), 1):
        await_loop(job, program)
        job.checkpoint()
        survivors = Survivors(job, {victim})
        node, pid = survivors.where[victim]
        said = cluster.ssh(node, f"python3 /mnt/project/tests/mpi/mid_write.py {pid} {victim} {victim + 1} {moment}", timeout=120)
        check(f"rank {victim} was killed: {moment}" in said, said)
        job.await_event("recovery-done", turn, seconds=90)
        survivors.check()
        check(job.where()[victim][0] == node, f"rank {victim} was not restarted where it was")
    check_result(job, program)


@scenario
def connections_between_ranks_are_cut(cluster):
    # The kernel resets connections in traffic. What was in flight is lost: only going back to a wave helps, and the job
    # does so by itself, without moving anybody.
    program = held("p2p,coll")
    job = on_three(cluster, program, options=["--detect", "10s"]).start()  # nobody shall be lost because he is slow
    job.await_event("wave-commit", 2)
    where = job.where()
    tries = 0
    while len(job.events("recovery-done")) < 2:
        tries += 1
        check(tries < 20, f"no message was in flight in {tries} cuts: {job.events('link-lost')}")
        node, pid = job.where()[tries % 3]
        before = len(job.events("recovery-begin"))
        cut = cut_connections(cluster, node, pid)
        check("10.77" in cut, f"nothing was cut: {cut}")
        time.sleep(2)
        if len(job.events("recovery-begin")) > before:
            job.await_event("recovery-done", before + 1)
            job.await_event("wave-commit", len(job.events("wave-commit")) + 1)
    check({rank: node for rank, (node, _) in job.where().items()} == {rank: node for rank, (node, _) in where.items()},
          f"a rank was moved: {where}, now {job.where()}")
    check("broken connection between rank" in job.messages(), "the user was not told why")
    check_result(job, program)


@scenario
def a_daemon_is_killed(cluster):
    program = held("p2p,coll")
    job = on_three(cluster, program).start()
    job.await_event("wave-commit", 2)
    kill_daemon(cluster, "node3")
    job.await_event("recovery-done", seconds=60)
    check_result(job, program)


@scenario
def a_daemon_is_stopped(cluster):
    # The daemon cannot do anything about its ranks, so the module parks them before they run elsewhere.
    program = held("p2p,coll")
    job = on_three(cluster, program).start()
    job.await_event("wave-commit", 2)
    node, pid = job.where()[2]

    def used():
        fields = cluster.ssh(node, f"cat /proc/{pid}/stat").rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    stop_daemon(cluster, node)
    try:
        job.await_event("node-lost")
        before = used()
        job.await_event("recovery-done")
        time.sleep(3)
        check(used() == before, f"the old process of rank 2 has run for {used() - before} ticks beside the new one")
    finally:
        continue_daemon(cluster, node)
    job.await_event("node-back", seconds=60)
    check(not cluster.ssh(node, f"test -d /proc/{pid} && echo there", check=False), "the old process of rank 2 still runs")
    check_result(job, program)


@scenario
def a_restarted_rank_stands_still_for_a_moment(cluster):
    # Rank 2 was restarted, so a cr_restart waits for its end. Its node is cut off long enough for the lease to run out, but
    # is not given up.
    program = held("p2p,coll")
    job = on_three(cluster, program, options=["--detect", "20s", "--detect-at-least", "20s"]).start()
    job.await_event("wave-commit", 2)
    cluster.kill("node3")
    job.await_event("recovery-done")
    job.await_event("wave-commit", len(job.events("wave-commit")) + 1)
    node, pid = job.where()[2]
    cluster.split(node, True)
    time.sleep(15)
    cluster.split(node, False)
    job.await_event("wave-commit", len(job.events("wave-commit")) + 1, seconds=90)
    check(len(job.events("node-lost")) == 1, f"{node} was given up: {job.events('node-lost')}")
    check(job.where()[2] == (node, pid), f"rank 2 was moved: {job.where()}")
    check_result(job, program)


@scenario
def the_launcher_is_killed(cluster):
    program = held("p2p,coll")
    job = on_three(cluster, program).start()
    job.await_event("wave-commit", 2)
    where = job.where()
    job.kill_launcher()
    time.sleep(4)
    for rank, (node, pid) in where.items():
        check(cluster.ssh(node, f"test -d /proc/{pid} && echo there", check=False), f"rank {rank} died with crrun")
    job.attach()
    job.await_event("wave-commit", len(job.events("wave-commit")) + 1)
    cluster.kill("node3")  # its ranks repeat what the first crrun has printed
    job.await_event("recovery-done")
    check_result(job, program)
    said = [int(line.split()[1]) for line in job.output().splitlines() if line.startswith("iteration ")]
    check(said == list(range(len(said))), f"output is missing or appears twice: {said}")


@scenario
def the_launcher_of_a_tree_is_killed(cluster):
    # No daemon reaches crrun through another one any more; each detects by itself that crrun is dead, and reconnects.
    program = held("p2p,coll")
    job = on_three(cluster, program, options=["--fan-out", "1", "--detect", "6s"]).start()
    job.await_event("wave-commit", 2)
    where = job.where()
    job.kill_launcher()
    time.sleep(8)
    for rank, (node, pid) in where.items():
        state = cluster.ssh(node, f"cut -d' ' -f3 /proc/{pid}/stat", check=False).strip()
        check(state and state != "T", f"rank {rank} does not run on without crrun: {state!r}")
    job.attach()
    job.await_event("wave-commit", len(job.events("wave-commit")) + 1)
    check(job.where() == where, f"a rank was moved or restarted: {where}, now {job.where()}")
    cluster.kill("node3")
    job.await_event("recovery-done")
    check_result(job, program)


@scenario
def a_node_reboots(cluster):
    # The node answers at once at its old address, but has no state of the job; it then becomes a spare.
    program = held("p2p,coll")
    job = on_three(cluster, program).start()
    job.await_event("wave-commit", 2)
    cluster.kill("node3")
    cluster.start("node3")
    job.await_event("recovery-done")
    check_result(job, program)


@scenario
def the_network_is_split(cluster):
    # node3 is unreachable for ten seconds; its ranks are started elsewhere, and the old ones must not continue.
    program = held("p2p,coll")
    job = on_three(cluster, program).start()
    job.await_event("wave-commit", 2)
    node, pid = job.where()[2]
    cluster.split(node, True)
    try:
        job.await_event("recovery-done")
        time.sleep(6)
    finally:
        cluster.split(node, False)
    job.await_event("node-back", seconds=60)
    left = cluster.ssh(node, f"test -d /proc/{pid} && echo there", check=False)
    check(not left, "the old process of rank 2 still runs on the node that was cut off")
    check_result(job, program)


@scenario
def a_node_is_silent_for_a_moment(cluster):
    # A silence too short for a loss: the preparations are dropped. When the node is lost later, they are used.
    program = held("p2p,coll")
    job = on_three(cluster, program, every=None, options=["--detect", "4s"]).start()
    job.checkpoint()
    job.await_event("wave-staged", 1, seconds=90)
    cluster.split("node3", True)
    try:
        job.await_event("nodes-silent", 1)
    finally:
        cluster.split("node3", False)
    back = job.await_event("nodes-silent", 2)
    check(not back["nodes"] and not job.events("node-lost"), f"node3 was given up: {job.events('node-lost')}")
    for node in ("node1", "node2", "node4"):
        wait_until(lambda node=node: not cluster.ssh(node, "pgrep '^cr_(pause|restart)$'", check=False), 20,
                   f"what stood by on {node} to end")
    survivors = Survivors(job, {2})
    cluster.kill("node3")
    job.await_event("recovery-done")
    survivors.check()
    restored = job.events("restored-rank")
    check(len(restored) == 3 and all(event["stood_by"] for event in restored), f"nobody stood by: {restored}")
    check_result(job, program)


@scenario
def local_storage_is_full(cluster):
    program = held("p2p,coll")
    for node in THREE:
        cluster.ssh(node, "mkdir -p /var/tmp/small && mount -t tmpfs -o size=64m tmpfs /var/tmp/small")
    try:
        job = Job(cluster, program.words, ranks=3, hosts=THREE, spares=("node4",), local="/var/tmp/small").start()
        job.await_event("wave-staged", 1)
        cluster.ssh("node2", "dd if=/dev/zero of=/var/tmp/small/filler bs=1M count=64 2>/dev/null; true")
        failed = job.await_event("wave-abort", seconds=60, such=lambda event: not event["again"])
        check("node2" in job.messages() and "space" in job.messages(), f"the user was not told: {failed}")
        cluster.kill("node3")
        job.await_event("recovery-done")
        check_result(job, program)
    finally:
        job.stop()
        for node in THREE:
            cluster.ssh(node, "umount -l /var/tmp/small", check=False) if node != "node3" else None


@scenario
def shared_storage_is_full(cluster):
    # Waves continue on the nodes' own disks, and the newest staged wave counts. When there is space again, the next
    # ones are staged.
    program = held("p2p,coll")
    job = on_three(cluster, program)
    try:
        job.start()
        job.await_event("wave-staged", 1)
        cluster.leave_room(1 << 20)
        wait_until(lambda: "space" in job.messages(), 60, "a word about the full disk")
        staged = max(event["wave"] for event in job.events("wave-staged"))
        time.sleep(6)
        cluster.kill("node3")
        wait_until(lambda: "recovery 1 is done" in job.messages(), 60, "the recovery")
        cluster.leave_room()  # the events can be written now
        begun = job.await_event("recovery-begin")
        check(begun["wave"] == staged, f"went back to wave {begun['wave']}, staged was {staged}")
        job.await_event("recovery-done")
        job.await_event("wave-staged", len(job.events("wave-staged")) + 1, seconds=90)
        check_result(job, program)
    finally:
        job.stop()
        cluster.leave_room()


@scenario
def shared_storage_is_gone(cluster):
    # Nothing can be staged until the directory is back. The job continues, and the timeline has the events of that
    # time.
    program = held("p2p,coll")
    job = on_three(cluster, program).start()
    job.await_event("wave-staged", 1)
    shared = job.folder / "cr"
    before = len(job.events("wave-commit"))
    shared.rename(job.folder / "gone")
    wait_until(lambda: "cannot" in job.messages(), 60, "a word about the missing directory")
    time.sleep(9)
    (job.folder / "gone").rename(shared)
    job.await_event("wave-commit", before + 2)
    job.await_event("wave-staged", len(job.events("wave-staged")) + 1, seconds=90)
    survivors = Survivors(job, {"node3"})
    cluster.kill("node3")
    job.await_event("recovery-done")
    survivors.check()
    check_result(job, program)


@scenario
def the_disk_of_the_launcher_is_slow(cluster):
    # Waves and recoveries wait for it, and nobody else: no rank is stopped because crrun does not answer.
    program = held("p2p,coll")
    job = on_three(cluster, program)
    job.start(["env", "LD_PRELOAD=/mnt/project/build/vm/user/tests/job/crd/libslow_fsync.so", "SLOW_FSYNC=2", *job.words])
    job.await_event("wave-staged", 2, seconds=120)
    cluster.kill("node3")
    job.await_event("recovery-done", seconds=90)
    check("stand still" not in job.messages(), "crrun did not answer while it wrote")
    check_result(job, program)


@scenario
def a_damaged_image(cluster):
    # The newest staged image of the lost rank is damaged on disk: the wave before it is used.
    program = held("p2p,coll")
    job = on_three(cluster, program, every=None).start()
    job.checkpoint()
    job.await_event("wave-staged", 1, seconds=90)
    job.checkpoint()
    newest = job.await_event("wave-staged", 2, seconds=90)["wave"]
    image = job.directory() / f"wave-{newest}" / "rank-2.img"
    with open(image, "r+b") as file:
        file.seek(image.stat().st_size // 2)
        data = file.read(4096)
        file.seek(image.stat().st_size // 2)
        file.write(bytes(byte ^ 0x55 for byte in data))
    cluster.kill("node3")
    job.await_event("recovery-done", seconds=90)
    check(job.events("recovery-begin")[-1]["wave"] < newest, "the damaged wave was used")
    check("damaged" in job.messages(), "the user was not told")
    check_result(job, program)
