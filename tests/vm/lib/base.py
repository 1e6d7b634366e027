# SPDX-License-Identifier: GPL-2.0-only
"""Places, exit statuses, messages, locks and commands: shared by all parts."""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

# The tool's own exit statuses; any other status is the command's.
KERNEL_COMPLAINED = 97
NO_STATUS = 98
TIMED_OUT = 124
FAILED = 125

HERE = Path(__file__).resolve().parent.parent
GUEST = HERE / "guest"
PROJECT = Path(os.environ.get("REPRISE_PROJECT") or HERE.parent.parent).resolve()
CACHE = Path(os.environ.get("REPRISE_CACHE") or "/var/cache/reprise").resolve()
RUN = Path(os.environ.get("REPRISE_RUN") or "/run/reprise-vm").resolve()
BUILD = PROJECT / "build" / "vm"


class Error(Exception):
    """An error that ends the tool with a message and a status."""

    def __init__(self, text, status=FAILED):
        super().__init__(text)
        self.status = status


def say(text):
    print(f"vm: {text}", file=sys.stderr, flush=True)


def need_root(why):
    if os.geteuid() != 0:
        raise Error(f"{why} needs root: run it with sudo")


def die_with_parent():
    """For preexec_fn: kill the child when vm dies."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def in_namespaces(arguments, log, progress=True):
    """Runs a script in mount and pid namespaces of its own, its output to `log` (None: ours).

    However it ends, neither its mounts nor its processes stay behind. What it
    writes to descriptor 3 is shown at once. Returns the exit status.
    """
    read_end, write_end = os.pipe()

    def setup():
        os.dup2(write_end, 3)
        die_with_parent()

    environment = {k: v for k, v in os.environ.items()
                   if not k.startswith(("LC_", "LANG", "MAKE", "DESTDIR"))}
    with contextlib.nullcontext() if log is None else open(log, "ab") as output:
        child = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--",
             *map(str, arguments)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env=environment, preexec_fn=setup, close_fds=False)
    os.close(write_end)
    with open(read_end, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if progress:
                say("  " + line.strip())
    return child.wait()


@contextlib.contextmanager
def locked(path, waiting_for):
    """Hold a lock file; the kernel releases it however the holder ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another vm to finish {waiting_for}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def meaningful(path):
    """The lines of a file without comments: editing a comment must not require a new root."""
    lines = path.read_text("utf-8").splitlines()
    return "\n".join(line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def digest(*parts):
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def tail(path, lines=40):
    try:
        text = Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
