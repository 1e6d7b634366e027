#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Stops a rank in the middle of a write to a lane, by the processor's debug registers, and kills it there.

    mid_write.py PID FROM TO MOMENT      # FROM: the rank of this process, TO: to which it writes, MOMENT: see MOMENTS

Says where it has killed the rank. Needs the right to trace it, and for the memory's content CAP_CHECKPOINT_RESTORE.
"""

import ctypes
import os
import signal
import struct
import sys
import time

MAGIC, PAGE, LINE, PIECE = 0x656e616c, 4096, 64, 16 << 10  # rank_lanes.h, lane.c
SIZE = 8  # of a record's size, at its beginning
KINDS = range(0x51, 0x56)  # the first byte of a frame: enum crtcp_kind

# copying: some bytes are written, the record's size that tells the reader of them is not, and the reader has the beginning
# of the frame. copied: the same, just before the instruction that writes the size. published: just after it.
MOMENTS = ("copying", "copied", "published")

CONT, STEP, PEEKUSER, POKEUSER, SEIZE, INTERRUPT = 7, 9, 3, 6, 0x4206, 0x4207
EXITKILL, WALL = 1 << 20, 0x40000000
RIP, DEBUG, STATUS, CONTROL = 128, 848, 6, 7  # offsets in struct user; numbers of debug registers
STEPS = 200_000  # of one instruction each: a piece may be copied byte by byte


class NotReached(Exception):
    """The rank was not stopped as asked for."""


libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long] * 4


def ptrace(request, pid, address=0, data=0):
    ctypes.set_errno(0)
    result = libc.ptrace(request, pid, address, data)
    if result == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), f"ptrace request {request:#x}: {os.strerror(ctypes.get_errno())}")
    return result


class Lane:
    """The lane from one rank to another, as the process sees it. Stays readable after its end."""

    def __init__(self, pid, sender, receiver):
        with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
            lines = [line for line in maps if "/memfd:" in line and "lanes" in line]
        if len(lines) != 1:
            raise NotReached(f"process {pid} maps {len(lines)} memories with lanes")
        bounds = [int(bound, 16) for bound in lines[0].split()[0].split("-")]
        self.memory = os.open(f"/proc/{pid}/map_files/{bounds[0]:x}-{bounds[1]:x}", os.O_RDONLY)
        self.inode = os.fstat(self.memory).st_ino
        magic, _, ranks, self.bytes = struct.unpack("=IIII", os.pread(self.memory, 16, 0))
        if magic != MAGIC:
            raise NotReached(f"process {pid}: this is no memory with lanes")
        numbers = [struct.unpack("=I", os.pread(self.memory, 4, LINE * (1 + i)))[0] for i in range(ranks)]
        first = -(-LINE * (1 + ranks) // PAGE) * PAGE
        self.at = first + (numbers.index(sender) * ranks + numbers.index(receiver)) * (PAGE + self.bytes)
        self.data = bounds[0] + self.at + PAGE  # address in the process

    def number(self, offset):
        return struct.unpack("=Q", os.pread(self.memory, 8, self.at + offset))[0]

    def tail(self):
        """@return the position of the first record of which the reader does not know yet"""
        tail = self.number(0)
        while size := self.number(PAGE + tail % self.bytes):
            tail += -(-(SIZE + size) // LINE) * LINE
        return tail

    def head(self):
        return self.number(LINE)

    def byte(self, position):
        """@return the first byte of the stream in the record at this position"""
        return os.pread(self.memory, 1, self.at + PAGE + (position + SIZE) % self.bytes)[0]

    def close(self):
        os.close(self.memory)


class Tracer:
    """Traces the main thread of a process. The process is killed if the tracer ends."""

    def __init__(self, pid, idle=lambda: time.sleep(0.001), limit=60):
        self.pid, self.idle, self.limit = pid, idle, limit
        ptrace(SEIZE, pid, 0, EXITKILL)
        ptrace(INTERRUPT, pid)
        self.wait()

    def wait(self):
        """@return the signal with which the thread has stopped"""
        end = time.monotonic() + self.limit
        while True:
            pid, status = os.waitpid(self.pid, WALL | os.WNOHANG)
            if pid and os.WIFSTOPPED(status):
                return os.WSTOPSIG(status)
            if pid:
                raise NotReached(f"process {self.pid} has ended, status {status:#x}")
            if time.monotonic() > end:
                raise NotReached(f"process {self.pid} has not written to the place that is watched in {self.limit} s")
            self.idle()

    def go(self, request=CONT):
        """Let it run to the next trap; other signals reach it."""
        ptrace(request, self.pid)
        while (number := self.wait()) != signal.SIGTRAP:
            ptrace(request, self.pid, 0, number)

    def step(self):
        """One instruction. This is done thousands of times: it does not wait as go() does."""
        ptrace(STEP, self.pid)
        _, status = os.waitpid(self.pid, WALL)
        if not os.WIFSTOPPED(status) or os.WSTOPSIG(status) != signal.SIGTRAP:
            raise NotReached(f"process {self.pid}: status {status:#x} instead of a step")

    def place(self):
        return ptrace(PEEKUSER, self.pid, RIP)

    def watch(self, address, kind):
        """@param kind the bits of the control register: WRITE or EXECUTE"""
        ptrace(POKEUSER, self.pid, DEBUG + 8 * CONTROL, 0)
        ptrace(POKEUSER, self.pid, DEBUG, address)
        ptrace(POKEUSER, self.pid, DEBUG + 8 * CONTROL, kind)

    def unwatch(self):
        ptrace(POKEUSER, self.pid, DEBUG + 8 * CONTROL, 0)

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        while True:
            _, status = os.waitpid(self.pid, WALL)
            if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                return
            if not os.WIFSTOPPED(status):
                raise NotReached(f"process {self.pid} has ended by itself, status {status:#x}")


WRITE = 1 | 1 << 16 | 2 << 18  # register 0: eight bytes, traps after they are written
EXECUTE = 1  # register 0: traps before the instruction


def traps():
    """Whether this machine stops a process at a place that is watched. Some virtual machines ignore the debug registers."""
    word = ctypes.c_uint64()
    go, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(go, 1)
        word.value = 1
        os._exit(0)
    tracer = Tracer(child, limit=10)
    tracer.watch(ctypes.addressof(word), WRITE)
    os.write(tell, b"x")
    os.close(go)
    os.close(tell)
    try:
        tracer.go()
    except NotReached:  # it has ended
        return False
    tracer.kill()
    return True


def in_the_middle_of_copying(tracer, lane):
    """Stop it when it has written bytes of which the reader does not know yet, while the reader has the frame's beginning.
    @return number of bytes that are written behind the position"""
    middle = lane.bytes // 2 + LINE // 2  # where there is never a record's size
    tracer.watch(lane.data + middle, WRITE)
    while True:
        tracer.go()
        tail = lane.tail()
        written = (middle - tail) % lane.bytes + 8
        if written > PIECE + PAGE:
            raise NotReached(f"the position {tail} is not just before the place {middle} that was written")
        # A frame that begins with this record begins with its kind.
        if lane.byte(tail) not in KINDS:
            return written


def before_publishing(tracer, lane):
    """Stop it before the instruction that writes the record's size."""
    tail = lane.tail()
    tracer.unwatch()
    for _ in range(STEPS):
        place = tracer.place()
        tracer.step()
        if lane.tail() != tail:
            break
    else:
        raise NotReached(f"{STEPS} instructions later the position is still {tail}")
    in_the_middle_of_copying(tracer, lane)  # again, since the instruction also writes to other lanes
    tracer.watch(place, EXECUTE)
    tracer.go()
    if tracer.place() != place:
        raise NotReached(f"stopped at {tracer.place():#x} instead of {place:#x}")
    tracer.unwatch()


def kill_in_write(pid, sender, receiver, moment, **options):
    """Kill the process while it writes from one rank to the other. @return (where, the lane)"""
    lane = Lane(pid, sender, receiver)
    tracer = Tracer(pid, **options)
    written = in_the_middle_of_copying(tracer, lane)
    tail = lane.tail()
    if moment != "copying":
        before_publishing(tracer, lane)
        tail, written = lane.tail(), 0
    if moment == "published":
        tracer.step()
        if lane.tail() == tail:
            raise NotReached("the instruction has not written the size")
        tail = lane.tail()
    tracer.kill()
    if lane.tail() != tail:
        raise NotReached(f"the position was {tail} when the process was killed, and is {lane.tail()}")
    behind = f", {written} bytes behind it" if written else ""
    return f"rank {sender} was killed: {moment}, at position {tail} of its lane to rank {receiver}{behind}", lane


def main():
    if len(sys.argv) != 5 or sys.argv[4] not in MOMENTS:
        sys.exit(__doc__)
    print(kill_in_write(*map(int, sys.argv[1:4]), sys.argv[4])[0], flush=True)


if __name__ == "__main__":
    main()
