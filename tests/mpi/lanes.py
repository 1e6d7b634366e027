# SPDX-License-Identifier: GPL-2.0-only
"""Parts of `wire` that concern ranks that share memory: a rank that is killed while it writes, more ranks than processors."""

import contextlib
import os
import signal
import time

from checks import CROWDED, a_daemon, ends, held, iteration, last_line, note, ok, progressed, release, same, skip
from fake_crd import Broken
from mid_write import MOMENTS, NotReached, kill_in_write, traps
from stand_in import StandIn, state_of
from steps import Steps


def memories(daemon):
    """@return {rank: inodes of the memories with lanes that it maps}"""
    found = {}
    for n, rank in daemon.ranks.items():
        with open(f"/proc/{rank.pid}/maps", encoding="ascii") as maps:
            found[n] = {int(line.split()[4]) for line in maps if "/memfd:lanes" in line}
    return found


def killed():
    """A rank is killed between two instructions of a write to a lane: in the middle of a frame of which the reader has the
    beginning, before and after the reader is told of bytes. The recovery's memory has nothing of it."""
    count, arguments = 4, ["--phase", "p2p", "--size", "2000000"]
    if not traps():
        return skip("killed", "this machine ignores the debug registers")
    with a_daemon("killed", StandIn(count)) as (daemon, output):
        daemon.start_apart(held(arguments, daemon.folder), output)
        progressed(output, 0, daemon)
        for turn, moment in enumerate(MOMENTS * 2):
            words = daemon.prepare()
            said, images = daemon.finish_with_images(words)
            if any(s[1] != "taken" for s in said.values()):
                raise Broken(f"no wave: {said}")
            progressed(output, iteration(output) + 1, daemon)
            victim, peer = turn % count, (turn + 1) % count
            try:
                where, lane = kill_in_write(daemon.ranks[victim].pid, victim, peer, moment, idle=lambda: daemon.serve(0.001))
            except NotReached as problem:
                raise Broken(str(problem)) from problem
            note(where)
            daemon.until(lambda lane=lane: lane.head() == lane.tail(), 30, "the reader to take what it was told of")
            daemon.go_back(images, restart=(victim,), dead=(victim,))
            daemon.resume((victim,))
            mapped, new = memories(daemon), os.fstat(daemon.memory[0]).st_ino
            ok(new != lane.inode and all(m == {new} for m in mapped.values()),
               f"killed, {moment}: after the recovery all ranks have another memory, and only that", f"{mapped}, before {lane.inode}")
            lane.close()
            progressed(output, iteration(output) + 2, daemon)
        release(daemon.folder)
        last_line(output, daemon)
        daemon.close()
        same(output, arguments, daemon, "killed: the result is that of a run over btl/tcp")


def one_send():
    """After a wave a rank computes, except for one MPI_Send of a short message: that is on its way then."""
    with a_daemon("one-send", StandIn(2)) as (daemon, output):
        steps = Steps(daemon, output)
        steps.start(False)
        steps.acquaint()
        for wave in (1, 2):
            said = daemon.finish(daemon.prepare())
            ok({s[1] for s in said.values()} == {"taken"}, f"one-send: wave {wave} is taken", said)
            daemon.serve_for(1)
            waits = steps.begin(1, "recv", 0, 100)
            sent = steps.step(0, "send", 1, 100)
            with contextlib.suppress(Broken):
                daemon.until(lambda number=waits: steps.result(1, number), 5, "the message")
            ok(sent == steps.result(1, waits) == "ok", "one-send: the message is received while its sender computes",
               f"{sent}, {steps.result(1, waits)}")


@contextlib.contextmanager
def processors(count):
    """What is started meanwhile has so many processors."""
    all_processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_processors)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_processors)


def in_one_direction():
    """After a rollback the rest of a long message crosses a lane, and its receiver has nothing to send. It tells the sender, which
    sleeps until there is room. A byte on the connection would do so only if messages went through a lane in this direction, too."""
    long = 1 << 22
    with processors(1), a_daemon("one-direction", StandIn(2)) as (daemon, output):
        steps = Steps(daemon, output)
        steps.start(False)
        steps.acquaint()
        sending = steps.begin(0, "send", 1, long)
        steps.begin(1, "half", 0, long)
        pid = daemon.ranks[1].pid
        daemon.until(lambda: state_of(pid) == "T", 20, "a part of the message")
        os.kill(pid, signal.SIGCONT)
        daemon.until(lambda: steps.result(1), 20, "the receiver to leave MPI")
        half = steps.result(1), steps.result(0, sending)
        daemon.roll_back(daemon.prepare(), restart=(0, 1))
        daemon.resume((0, 1), spin=1)  # ranks that wait sleep at once
        steps.begin(1, "recv", 0, 100)
        with contextlib.suppress(Broken):
            daemon.until(lambda: steps.result(0, sending), 20, "the rest")
        sent = steps.result(0, sending), steps.step(0, "send", 1, 100)
        back = steps.step(1, "send", 0, 100), steps.step(0, "recv", 1, 100)
        ok(half == ("half has come", None), "one-direction: a part of the message is received before the wave", half)
        ok(sent == ("ok", "ok"), "one-direction: the rest and another message are sent after the rollback", sent)
        ok(back == ("ok", "ok") and not daemon.lost, "one-direction: then a message in the other direction", f"{back}, {daemon.lost}")


def spent(daemon, numbers):
    """@return how often the main threads of these ranks have left their processor to wait, and processor seconds used"""
    waits = ticks = 0
    for n in numbers:
        with open(f"/proc/{daemon.ranks[n].pid}/status", encoding="ascii") as file:
            waits += next(int(line.split()[1]) for line in file if line.startswith("voluntary"))
        with open(f"/proc/{daemon.ranks[n].pid}/stat", encoding="ascii") as file:
            ticks += sum(map(int, file.read().rpartition(")")[2].split()[11:13]))
    return waits, ticks / os.sysconf("SC_CLK_TCK")


def they_sleep(daemon):
    """While all ranks wait for one that is stopped: do they leave their processors a hundred times before they have used them
    for 0.3 s? That does not depend on what else the machine does."""
    others = [n for n in daemon.ranks if n != 0]
    os.kill(daemon.ranks[0].pid, signal.SIGSTOP)
    begin = spent(daemon, others)
    seen = []

    def enough():
        now = spent(daemon, others)
        seen[:] = now[0] - begin[0], now[1] - begin[1]
        return seen[0] >= 100 or seen[1] >= 0.3

    daemon.until(enough, 100, "ranks to wait")
    os.kill(daemon.ranks[0].pid, signal.SIGCONT)
    note(f"they left their processors {seen[0]} times in {seen[1]:.2f} s of processor time")
    return seen[0] >= 100


def crowded():
    """Eight ranks on two processors. Ranks that wait for a message, or for room in a lane, leave the processors to the others,
    and are woken; with processors of their own they do not sleep."""
    count, arguments = 8, ["--phase", "p2p,coll", "--size", "400000"]
    with processors(2), a_daemon("crowded", StandIn(count)) as (daemon, output):
        daemon.start(held(arguments, daemon.folder), output, {"OMPI_MCA_mpi_yield_when_idle": "1"})
        progressed(output, 1, daemon)
        ok(not they_sleep(daemon), "crowded: ranks with processors of their own do not leave them")
        daemon.roll_back(daemon.prepare())
        daemon.resume(spin=int(CROWDED["OMPI_MCA_btl_crtcp_spin"]))
        progressed(output, iteration(output) + 2, daemon)
        ok(they_sleep(daemon), "crowded: ranks that share processors leave them to each other while they wait")
        progressed(output, iteration(output) + 2, daemon)
        daemon.finish(daemon.prepare())
        progressed(output, iteration(output) + 2, daemon)
        ok(they_sleep(daemon), "crowded: also after a wave")
        daemon.roll_back(daemon.prepare())
        daemon.resume()
        progressed(output, iteration(output) + 1, daemon)
        ok(not they_sleep(daemon), "crowded: not any longer, when a recovery has given them processors of their own")
        daemon.roll_back(daemon.prepare())
        daemon.resume(spin=int(CROWDED["OMPI_MCA_btl_crtcp_spin"]))
        release(daemon.folder)
        ends(daemon, output)
        ok(not daemon.lost, "crowded: no connection broke", daemon.lost)
        same(output, arguments, daemon, "crowded: the result is that of a run over btl/tcp")
