# SPDX-License-Identifier: GPL-2.0-only
"""Running commands and timing them."""

import ctypes
import os
import signal
import time

PR_SET_CHILD_SUBREAPER = 36


class Failed(Exception):
    """A measurement cannot be made."""


def adopt(yes=True):
    """Become the parent of processes whose parent ends, as the command does that has started or restored them; or not any more."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, int(yes))


def timed(argv, log):
    """Run a command, its output in the file `log`. Returns wall clock ns of spawn to end."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 0), (os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, out, 2)]
    begin = time.monotonic_ns()
    pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)
    _, status = os.waitpid(pid, 0)
    took = time.monotonic_ns() - begin
    os.close(out)
    os.close(null)
    if status:
        with open(log, encoding="utf-8", errors="replace") as text:
            raise Failed(f"{' '.join(argv)}: exit {os.waitstatus_to_exitcode(status)}\n{text.read()}")
    return took


def kill(pid):
    """Kill a child, also an adopted one; returns the ns until it is gone."""
    begin = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return time.monotonic_ns() - begin


def available():
    """Bytes of memory available to programs."""
    with open("/proc/meminfo", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    raise Failed("no MemAvailable in /proc/meminfo")


def stored(path):
    """Disk usage in bytes of a file or of the files of a directory."""
    names = [os.path.join(path, name) for name in os.listdir(path)] if os.path.isdir(path) else [path]
    return sum(os.stat(name).st_blocks * 512 for name in names)
