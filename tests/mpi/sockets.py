# SPDX-License-Identifier: GPL-2.0-only
"""The sockets of a rank, from outside."""

import contextlib
import ctypes
import os
import socket
import struct

PIDFD_GETFD = 438
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27


@contextlib.contextmanager
def inside(daemon):
    """Sockets that are made here are in the ranks' network."""
    with open("/proc/self/ns/net", "rb") as own, open(f"/proc/{daemon.mpirun.pid}/ns/net", "rb") as theirs:
        os.setns(theirs.fileno(), os.CLONE_NEWNET)
        try:
            yield
        finally:
            os.setns(own.fileno(), os.CLONE_NEWNET)


def sockets_of(pid):
    """Copies of the sockets of a process, which are closed afterwards: yields (inode, socket)."""
    pidfd = os.pidfd_open(pid)
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/{pid}/fd/{fd}")
            if not name.startswith("socket:"):
                continue
            with socket.socket(fileno=ctypes.CDLL(None).syscall(PIDFD_GETFD, pidfd, int(fd), 0)) as copy:
                yield name.strip("socket:[]"), copy
    os.close(pidfd)


def between_ranks(daemon, rank):
    """Copies of the sockets of a rank's connections to other ranks."""
    inodes = {inode for n, inode, _, _ in daemon.sockets() if n == rank}
    for inode, copy in sockets_of(daemon.ranks[rank].pid):
        if inode in inodes:
            yield copy


def deafen(daemon, rank, deaf=True):
    """Have the kernel drop all that comes for a rank from other ranks, before it is acknowledged: as if its host were gone.
    @param deaf False: not any longer"""
    nothing = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, 0))  # a filter that accepts no byte
    program = struct.pack("@HP", 1, ctypes.addressof(nothing))
    for copy in between_ranks(daemon, rank):
        if deaf:
            copy.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
        else:
            copy.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)


def cut(daemon, rank):
    """Have the kernel reset the connections of a rank to other ranks, and drop what the rank has not read."""
    unspecified = ctypes.create_string_buffer(struct.pack("@H14x", socket.AF_UNSPEC))
    libc = ctypes.CDLL(None, use_errno=True)
    for copy in between_ranks(daemon, rank):
        if libc.connect(copy.fileno(), unspecified, 16):
            raise OSError(ctypes.get_errno(), "a connection cannot be cut")
