# SPDX-License-Identifier: GPL-2.0-only
"""Programs that recover by Fenix (libfenix, both engines): nodes are lost, and the results are as without a loss."""

import os
import time

from lib.scenario import Job, check, scenario

FENIX = os.environ.get("FENIX", "/mnt/project/build/vm/user/tests/fenix/fenix")


def fenix(cluster, *words, ranks=4, hosts=("node1:2", "node2:2"), spares=("node3:2", "node4:2")):
    return Job(cluster, [FENIX, *words], ranks=ranks, hosts=hosts, spares=spares, every=None,
               options=["--recover", "ulfm", "--oversubscribe", "--detect", "4s"]).start()


def result(job, seconds=240):
    status = job.wait(seconds)
    check(status == 0, f"exit status {status}; messages:\n{job.last_messages()}\n{job.output()[-500:]}")
    return sorted(set(line for line in job.output().splitlines() if line.startswith("result")))


def undisturbed(cluster, words):
    """The result of four ranks that lose nobody, and so need no others."""
    words = [word for word in words if not word.startswith(("kill=", "spares="))]
    return result(fenix(cluster, *words, hosts=("node1:4",), spares=()))


def compare(cluster, words, lose, **more):
    """The program's result, while nodes are lost, and without. `words` are such that it runs for some 20 s."""
    job = fenix(cluster, *words, **more)
    job.await_event("launch", seconds=60)
    lose(job)
    found = result(job)
    check(job.events("ranks-failed"), "it had ended before the loss")
    expected = undisturbed(cluster, words)
    check(expected and found == expected, f"{found} instead of {expected}")


def after(seconds, *losses):
    def lose(_job):
        time.sleep(seconds)
        for loss in losses:
            loss()
    return lose


@scenario
def fenix_replaces_the_ranks_of_a_lost_node(cluster):
    # By spawned processes on a spare node; the data comes from the partners, which are on the other node.
    compare(cluster, ["stored", "spawn=1", "steps=6000"], after(8, lambda: cluster.kill("node2")))


@scenario
def fenix_has_spare_ranks_take_the_place_of_a_lost_node(cluster):
    compare(cluster, ["stored", "spares=2", "steps=6000"], after(8, lambda: cluster.kill("node2")), ranks=6,
            hosts=("node1:2", "node2:2", "node3:2"), spares=())


# ---- the engine reprise

def reprised(cluster, *words, shared=True):
    return Job(cluster, [FENIX, *words], ranks=4, hosts=("node1:2", "node2:2"), spares=("node3:2", "node4:2"), every=None, shared=shared,
               options=["--oversubscribe", "--detect", "4s", "-x", "FENIX_ENGINE=reprise",
                        *([] if shared else ["--redundancy", "partner"])]).start()


def compare_reprised(cluster, words, lose, losses=1, shared=True):
    """As compare(). All recoveries must go back to the one wave, which is taken in Fenix_Init. @return the job"""
    job = reprised(cluster, *words, shared=shared)
    job.await_event("wave-staged" if shared else "wave-safe", seconds=120)
    lose(job)
    found = result(job, 400)
    waves = job.events("wave-commit")
    check(len(waves) == 1 and waves[0]["pinned"], f"waves: {waves}")
    begun = job.events("recovery-begin")  # one that is interrupted by a loss is followed by the next
    check(len(begun) >= losses, f"{len(begun)} recoveries")
    check(all(one["wave"] == waves[0]["wave"] for one in begun), "a recovery went elsewhere")
    cluster.up_again()
    expected = undisturbed(cluster, words)
    check(expected and found == expected, f"{found} instead of {expected}")
    return job


@scenario
def fenix_goes_back_to_its_wave_when_a_node_is_lost(cluster):
    job = compare_reprised(cluster, ["stored", "steps=2500"], after(6, lambda: cluster.kill("node2")))
    # Survivors that met their partners after the wave keep their connections to PMIx.
    stayed = [one for one in job.events("restored-rank") if not one["restarted"]]
    check(stayed and not any(one["fresh_pmix"] for one in stayed), f"survivors: {stayed}")


@scenario
def fenix_goes_back_to_its_wave_without_shared_storage(cluster):
    compare_reprised(cluster, ["stored", "steps=2500"], after(6, lambda: cluster.kill("node2")), shared=False)


@scenario
def fenix_goes_back_to_its_wave_again_and_again(cluster):
    # A rank dies in a store, one in a commit, one while it goes back, and both nodes are lost one after the other.
    def lose(job):
        time.sleep(4)
        cluster.kill("node2")
        job.await_event("recovery-done", seconds=120)
        time.sleep(6)
        cluster.kill("node1")
    compare_reprised(cluster, ["stored", "steps=2500", "kill=store30:1,commit60:2,restore:3"], lose, losses=5)


@scenario
def fenix_pauses_ranks_that_were_restarted(cluster):
    # On their nodes: they are not restarted again when others are lost.
    job = compare_reprised(cluster, ["stored", "steps=1500", "kill=step100:1,step200:2,step300:1,step400:0"], lambda _job: None, losses=4)
    restarted = [event["restart"] for event in job.events("recovery-begin")]
    check(restarted == [[1], [2], [1], [0]], f"these were restarted: {restarted}")
    check(not job.events("recovery-failed"), f"a recovery has failed: {job.last_messages()}")
