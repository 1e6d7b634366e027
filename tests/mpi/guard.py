# SPDX-License-Identifier: GPL-2.0-only
"""Parts of `wire` that concern the guard: a thread of a rank that sees connections end while the rank computes."""

import contextlib
import os
import signal
import time

from checks import a_daemon, note, ok
from fake_crd import Broken
from sockets import deafen
from stand_in import StandIn
from steps import FAILED, Steps

SOON = 5  # seconds, on a busy machine
SILENCE = {"OMPI_MCA_btl_crtcp_keepalive": "1"}  # noticed after 4 s
VERBOSE = {"OMPI_MCA_btl_base_verbose": "10"}


def computing(daemon, output, guard, more=None, plain=False):
    """Ranks with connections between each two, which compute."""
    steps = Steps(daemon, output)
    (steps.start_plain if plain else steps.start)(guard, more)
    steps.acquaint()
    return steps


def kill(daemon, rank):
    os.kill(daemon.ranks[rank].pid, signal.SIGKILL)


def hears(daemon, who, peer, seconds):
    """Does the daemon hear in this time from a rank that it has lost a peer?"""
    with contextlib.suppress(Broken):
        daemon.until(lambda: any(f"rank {who} lost {peer}:" in line for line in daemon.lost), seconds, "a report")
        return True
    return False


def lost_with_daemon():
    with a_daemon("guard-lost", StandIn(2)) as (daemon, output):
        computing(daemon, output, False)
        kill(daemon, 1)
        ok(not hears(daemon, 0, 1, 3), "guard-lost: without the guard a rank that computes notices no loss", daemon.lost)
    with a_daemon("guard-lost", StandIn(3)) as (daemon, output):
        steps = computing(daemon, output, True)
        sizes = (0, 100, 60000, 100)
        for size in sizes:
            steps.step(1, "send", 0, size)
        begun = time.monotonic()
        kill(daemon, 1)
        ok(hears(daemon, 0, 1, SOON) and hears(daemon, 2, 1, SOON), "guard-lost: ranks that compute report the loss", daemon.lost)
        note(f"after {(time.monotonic() - begun) * 1000:.0f} ms")
        got = [steps.step(0, "recv", 1, size) for size in sizes]
        ok(got == ["ok"] * len(sizes), "guard-lost: what the peer has sent before is received", got)
        steps.exchange(0, 2)
        ok(len(daemon.lost) == 2, "guard-lost: nothing else is lost", daemon.lost)


def lost_without_daemon():
    """The first call of MPI after the loss is the sending of a short message, which the kernel would take."""
    for guard in (False, True):
        with a_daemon("guard-lost", StandIn(3)) as (daemon, output):
            steps = computing(daemon, output, guard, plain=True)
            steps.step(1, "send", 0, 1000)
            kill(daemon, 1)
            time.sleep(1)
            first = steps.step(0, "send", 1, 100)
            if not guard:
                ok(first == "ok", "guard-lost: without the guard the first call after a loss may succeed", first)
                continue
            ok(first == FAILED, "guard-lost: without crd the next call fails", first)
            ok(steps.step(0, "recv", 1, 1000) == "ok", "guard-lost: but what was sent before is received", steps.result(0))
            ok(steps.step(0, "recv", 1, 1) == FAILED, "guard-lost: and nothing more", steps.result(0))
            steps.exchange(0, 2)


def lost():
    """A rank is killed while others compute."""
    lost_with_daemon()
    lost_without_daemon()


def silent():
    """Hosts do not answer any more: with and without data on their way to them. One whose rank does not read is not silent."""
    for guard in (False, True):
        with a_daemon("guard-silent", StandIn(3)) as (daemon, output):
            steps = computing(daemon, output, guard, SILENCE)
            for rank in range(3):
                deafen(daemon, rank)  # all, so that nobody learns from a reset that another one has given up
            steps.step(0, "send", 2, 1000)
            begun = time.monotonic()
            for peer, what in ((1, "nothing on its way"), (2, "data on their way")):
                noticed = hears(daemon, 0, peer, 20 if guard else 4)
                if guard:
                    note(f"{what}: {time.monotonic() - begun:.1f} s")
                    why = [line for line in daemon.lost if f"rank 0 lost {peer}: Connection timed out" in line]
                    ok(noticed and why, f"guard-silent, {what}: noticed by a rank that computes", daemon.lost)
                else:
                    ok(not noticed, f"guard-silent, {what}: without the guard nothing is noticed", daemon.lost)
    with a_daemon("guard-silent", StandIn(2)) as (daemon, output):
        steps = computing(daemon, output, True, SILENCE, plain=True)
        for rank in range(2):
            deafen(daemon, rank)
        begun = time.monotonic()
        ok(steps.step(0, "send", 1, 1000) == "ok", "guard-silent: a message is sent before the silence is noticed", steps.result(0))
        waits = steps.step(0, "recv", 1, 1000)
        note(f"MPI_Recv returned after {time.monotonic() - begun:.1f} s")
        ok(waits == FAILED, "guard-silent: without crd a call that waits for the peer fails", waits)
    small = {"OMPI_MCA_btl_crtcp_sndbuf": "4096", "OMPI_MCA_btl_crtcp_rcvbuf": "4096"}
    with a_daemon("guard-silent", StandIn(2)) as (daemon, output):
        steps = computing(daemon, output, True, {**SILENCE, **small})
        number = steps.begin(0, "send", 1, 60000)
        daemon.serve_for(8)
        ok(daemon.unread() and not daemon.lost, "guard-silent: a rank that does not read is not silent", daemon.lost or "all is read")
        ok(steps.step(1, "recv", 0, 60000) == "ok", "guard-silent: it receives the message later", steps.result(1))
        daemon.until(lambda: steps.result(0, number), 20, "the sender")
        ok(not daemon.lost and steps.result(0, number) == "ok", "guard-silent: its connection was kept", daemon.lost)


def goodbye():
    """A peer that says goodbye is not lost."""
    with a_daemon("guard-goodbye", StandIn(3)) as (daemon, output):
        steps = computing(daemon, output, True, {"OMPI_MCA_async_mpi_finalize": "1"})
        steps.step(1, "send", 0, 1000)
        ok(steps.step(1, "end") == "ok", "guard-goodbye: a rank ends while others compute", steps.result(1))
        daemon.serve_for(2)
        ok(not daemon.lost, "guard-goodbye: it is not lost", daemon.lost)
        ok(steps.step(0, "recv", 1, 1000) == "ok", "guard-goodbye: its last message is received", steps.result(0))
        kill(daemon, 2)
        ok(hears(daemon, 0, 2, SOON), "guard-goodbye: a rank that is killed later is lost", daemon.lost)
        ok(steps.step(0, "end") == "ok", "guard-goodbye: the last rank ends, too", steps.result(0))
    if os.environ.get("WIRE") == "lanes":
        return  # spawned processes have none
    with a_daemon("guard-goodbye", StandIn(1)) as (daemon, output):
        steps = computing(daemon, output, True, VERBOSE, plain=True)
        def broken():
            with open(steps.output + ".0", encoding="utf-8") as file:
                return [line for line in file if ": connection to rank" in line]

        ok(steps.step(0, "spawn") == "ok", "guard-goodbye: a process is spawned", steps.result(0))
        both = [(100, steps.begin(100, "disconnect")), (0, steps.begin(0, "disconnect"))]
        daemon.until(lambda: all(steps.result(*one) for one in both), 20, "both to disconnect")
        ok(steps.step(100, "end") == "ok", "guard-goodbye: a process ends after MPI_Comm_disconnect", steps.result(100))
        daemon.serve_for(1)
        ok(not broken(), "guard-goodbye: it is not lost", broken())
        ok(steps.step(0, "spawn") == "ok", "guard-goodbye: another one is spawned", steps.result(0))


def rolled_back():
    """The guard of ranks that were rolled back, and what happens to it in a wave."""
    with a_daemon("guard-rolled-back", StandIn(3)) as (daemon, output):
        steps = computing(daemon, output, True)
        for moved in ((), (2,), (0, 1, 2)):
            daemon.roll_back(daemon.prepare(), restart=moved)
            daemon.serve_for(0.3)
            resumed = daemon.resume(moved=moved)
            ok(not daemon.lost, f"guard-rolled-back: no connection is lost in a rollback, moved {moved}", f"{daemon.lost} {resumed}")
            steps.acquaint()
        words = daemon.prepare()
        kill(daemon, 2)
        ok(not hears(daemon, 0, 2, 1), "guard-rolled-back: in a wave the guard stands still", daemon.lost)
        words.pop(2)
        daemon.leave(words, b"g")
        ok(hears(daemon, 0, 2, SOON) and hears(daemon, 1, 2, SOON), "guard-rolled-back: it reports the loss after the wave", daemon.lost)
        daemon.lost.clear()
        steps.exchange(0, 1)
        kill(daemon, 1)
        ok(hears(daemon, 0, 1, SOON), "guard-rolled-back: and the next one", daemon.lost)
