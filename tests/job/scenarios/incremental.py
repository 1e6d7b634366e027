# SPDX-License-Identifier: GPL-2.0-only
"""Waves that save and copy only what has changed since the one before."""

import signal

from lib.cluster import wait_until
from lib.scenario import Survivors, check, check_result, held, on_three, scenario

OPTIONS = ["--incremental"]


def inherited(job, wave):
    """By rank: whether pages of its image were taken from the image before. The program changes most of its memory."""
    return {event["rank"]: event["inherited"] > 0 for event in job.events("wave-rank", wave=wave)}


def committed(job, since=0):
    return [event["wave"] for event in job.events("wave-commit") if event["t"] > since]


def await_kept(job):
    """Wait for a staged wave of which all copies were written over older ones."""
    def there():
        kept = {}
        for event in job.events("staged-rank"):
            if event["kept"] > 0:
                kept.setdefault(event["wave"], set()).add(event["rank"])
        return [wave for wave, ranks in kept.items() if len(ranks) == job.ranks and job.events("wave-staged", wave=wave)]
    return wait_until(there, 120, "a wave that is written over an older one")


@scenario
def incremental_waves_lose_a_node(cluster):
    program = held("p2p,coll")
    job = on_three(cluster, program, options=OPTIONS).start()
    await_kept(job)
    waves = committed(job)
    check(not any(inherited(job, waves[0]).values()), "the first images cannot have a parent")
    check(all(all(inherited(job, wave).values()) for wave in waves[1:]), f"some images are whole: {job.events('wave-rank')}")
    here = cluster.ssh("node1", f"ls /var/tmp/cr/{job.directory().name}").split()
    check(len(here) <= 6, f"older waves are not removed: {here}")
    survivors = Survivors(job, {"node3"})
    cluster.kill("node3")
    done = job.await_event("recovery-done", seconds=90)["t"]
    survivors.check()
    # Survivors go on from the image that they were brought back to. The moved rank had its own from shared storage.
    job.await_event("wave-commit", len(committed(job)) + 2)
    after = committed(job, done)[:2]
    check(inherited(job, after[0]) == {0: True, 1: True, 2: False}, f"wave {after[0]}: {job.events('wave-rank', wave=after[0])}")
    check(all(inherited(job, after[1]).values()), f"wave {after[1]}: {job.events('wave-rank', wave=after[1])}")
    # Once more, from images with such a past.
    await_kept(job)
    job.await_event("wave-staged", len(job.events("wave-staged")) + 1)
    cluster.kill("node2")
    job.await_event("recovery-done", 2, seconds=90)
    check_result(job, program)


@scenario
def incremental_waves_and_a_restart(cluster):
    program = held("p2p,coll")
    job = on_three(cluster, program, options=OPTIONS).start()
    await_kept(job)
    check(job.signal_launcher(signal.SIGINT), "there is no crrun")
    check(job.wait(60) == 128 + signal.SIGINT, "the exit status is not that of an interrupt")
    begun, waves = len(job.events("recovery-done")), committed(job)
    job.start(["crrun", "-v", "--restart", job.directory("/mnt/share"), "--hosts", "node1,node2,node4"])
    job.await_event("recovery-done", begun + 1, seconds=90)
    job.await_event("wave-commit", len(waves) + 2, seconds=90)
    new = [wave for wave in committed(job) if wave > max(waves)]
    check(not any(inherited(job, new[0]).values()) and all(inherited(job, new[1]).values()),
          f"what was asked for once does not go on: {job.events('wave-rank')}")
    check_result(job, program)
    check(not list(job.directory().glob("wave-*")), "a job that has ended well keeps waves")
