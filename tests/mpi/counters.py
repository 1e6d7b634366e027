# SPDX-License-Identifier: GPL-2.0-only
"""A part of `wire`: the counters by which crd sees whether a rank progresses (struct cr_rank_counters)."""

import os
import signal
import struct
import time

from checks import CROWDED, a_daemon, ends, held, iteration, ok, progressed, release
from stand_in import StandIn

MAGIC = 0x73746e756f637263
SECOND = 1_000_000_000


def read(daemon, n):
    """@return (moved, CPU time of waiting, CPU time) of a rank; the times in ns"""
    pid, _, address = daemon.ranks[n].counters
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(address)
        magic, moved, waited = struct.unpack("=QQQ", memory.read(24))
    if magic != MAGIC:
        raise OSError(f"rank {n} has no counters at {address:#x}")
    return moved, waited, time.clock_gettime_ns((~pid << 3) | 2)  # the clock of the whole process


def stands_still(daemon, n, seconds):
    """Wait until a rank has moved nothing for so long."""
    moved, since = None, 0

    def there():
        nonlocal moved, since
        if moved != (now := read(daemon, n)[0]):
            moved, since = now, time.monotonic()
        return time.monotonic() - since > seconds

    daemon.until(there, 60, f"rank {n} to wait")


def waiting(daemon, name):
    """While rank 1 is stopped, rank 0 waits for it: nothing moves, and its CPU time is that of waiting."""
    os.kill(daemon.ranks[1].pid, signal.SIGSTOP)
    stands_still(daemon, 0, 1)
    before = read(daemon, 0)
    stands_still(daemon, 0, 3)
    after = read(daemon, 0)
    used, waited = after[2] - before[2], after[1] - before[1]
    ok(after[0] == before[0] and waited > 0, f"counters, {name}: a rank that waits moves nothing", f"{before} {after}")
    ok(abs(used - waited) < 0.05 * 3 * SECOND, f"counters, {name}: its CPU time is that of waiting", f"{used} ns, {waited} ns of them waited")
    os.kill(daemon.ranks[1].pid, signal.SIGCONT)


def counters():
    for name, more in (("polling", {}), ("sleeping", CROWDED)):
        with a_daemon("counters", StandIn(2)) as (daemon, output):
            daemon.start(held(["--phase", "p2p"], daemon.folder), output, more)
            progressed(output, 0, daemon)
            daemon.until(lambda: all(rank.counters for rank in daemon.ranks.values()), 10, "all ranks to tell of counters")
            before = read(daemon, 0)
            progressed(output, iteration(output) + 2, daemon)
            ok(read(daemon, 0)[0] > before[0], f"counters, {name}: messages are counted", before)
            waiting(daemon, name)
            progressed(output, iteration(output) + 1, daemon)
            release(daemon.folder)
            ends(daemon, output)
