# SPDX-License-Identifier: GPL-2.0-only
"""A part of `wire`: what becomes of messages to a process that fails. Open MPI takes them back in a call that waits, before
crtcp hears of the failure; later crtcp must not mistake what it still has of them for messages of others."""

import os
import signal

from checks import a_daemon, ok
from stand_in import StandIn
from steps import FAILED, Steps

SHORT, LONG = 100, 1 << 21
SMALL_SOCKETS = {"OMPI_MCA_btl_crtcp_sndbuf": "65536", "OMPI_MCA_btl_crtcp_rcvbuf": "65536"}


def told(daemon, output):
    """Three ranks which compute, and are told of failures by mpirun. Ranks 0 and 2 are connected."""
    steps = Steps(daemon, output)
    steps.start_told(SMALL_SOCKETS)
    steps.exchange(0, 2)
    steps.exchange(0, 2)
    return steps


def taken_back(daemon, steps, number, name):
    """The process to which rank 0 is sending fails."""
    daemon.serve_for(0.3)
    ok(steps.result(0, number) is None, f"{name}: a rank waits for its peer", steps.result(0, number))
    os.kill(daemon.ranks[1].pid, signal.SIGKILL)
    daemon.until(lambda: steps.result(0, number), 20, "the sender to be told")
    ok(steps.result(0, number) == FAILED, f"{name}: it is told of the failure", steps.result(0, number))


def received(daemon, steps, sending, size, what):
    """The end of a message can be queued, as the sockets are small, until the sender calls MPI again: it sends another one."""
    number = steps.begin(2, "recv", 0, size)
    daemon.until(lambda: steps.result(0, sending), 20, "the sender")
    steps.exchange(0, 2, SHORT)
    results = steps.result(0, sending), steps.result(2, number)
    ok(results == ("ok", "ok"), what, results)


def nobody_else(daemon, steps, name):
    """Messages between the others, before and after the daemon tells of the failure."""
    first = steps.begin(0, "send", 2, 200000)  # Open MPI uses the request of the message to the failed one again
    daemon.serve_for(0.3)
    daemon.gone(1)
    daemon.serve_for(0.3)
    ok(steps.result(0, first) is None, f"{name}: another message is still under way", steps.result(0, first))
    received(daemon, steps, first, 200000, f"{name}: it is received")
    steps.exchange(0, 2, 60000)
    for what in ("send", "vector"):
        received(daemon, steps, steps.begin(0, what, 2, LONG), LONG, f"{name}: a long message is received, {what}")
    ok(all(steps.step(n, "send", 1, SHORT) == FAILED for n in (0, 2)), f"{name}: nothing can be sent to the failed one")


def connecting():
    """The peer does not answer, so that the message is queued."""
    name = "failures, connecting"
    for reuse in (False, True):
        with a_daemon(name, StandIn(3)) as (daemon, output):
            steps = told(daemon, output)
            os.kill(daemon.ranks[1].pid, signal.SIGSTOP)
            taken_back(daemon, steps, steps.begin(0, "send", 1, SHORT), name)
            if not reuse:
                daemon.gone(1)
                daemon.serve_for(0.3)
                steps.exchange(0, 2)
            nobody_else(daemon, steps, name)


def tested():
    """The program keeps a request that has failed until the other one is complete, too."""
    name = "failures, MPI_Testall"
    with a_daemon(name, StandIn(3)) as (daemon, output):
        steps = told(daemon, output)
        os.kill(daemon.ranks[1].pid, signal.SIGSTOP)
        number = steps.begin(0, "testall", 1, SHORT, 2)
        daemon.serve_for(0.3)
        os.kill(daemon.ranks[1].pid, signal.SIGKILL)
        daemon.serve_for(1)
        daemon.gone(1)
        daemon.serve_for(0.3)
        ok(steps.result(0, number) is None, f"{name}: it waits for the other one", steps.result(0, number))
        ok(steps.step(2, "send", 0, SHORT) == "ok", f"{name}: which is sent", steps.result(2))
        daemon.until(lambda: steps.result(0, number), 20, "the result of MPI_Testall")
        ok(steps.result(0, number) == FAILED, f"{name}: one has failed, the other one is received", steps.result(0, number))
        nobody_else(daemon, steps, name)


def halfway():
    """The peer has received a half of the message."""
    for what in ("send", "vector"):
        name = f"failures, halfway, {what}"
        with a_daemon(name, StandIn(3)) as (daemon, output):
            steps = told(daemon, output)
            steps.begin(1, "half", 0, LONG)
            taken_back(daemon, steps, steps.begin(0, what, 1, LONG), name)
            nobody_else(daemon, steps, name)


def failures():
    connecting()
    tested()
    halfway()
