# SPDX-License-Identifier: LGPL-2.1-or-later
"""Critical sections, which delay checkpoints."""

import contextlib
import ctypes
import errno
from collections.abc import Iterator

from ._library import holding, releasing
from .errors import Error, failure

# cr_init() sets no text of its own.
_WHY = {errno.ENOSYS: "the kernel module is not loaded (no /dev/cr)",
        errno.EACCES: "no permission to open /dev/cr; the administrator can give it to a group by a udev rule"}


_agent = False  # whether this module has made libcr start its thread, without which no checkpoint waits for anything


def expect_agent() -> None:
    """Note that libcr starts its thread."""
    global _agent  # pylint: disable=global-statement
    _agent = True


def _registered() -> int:
    """Register the calling thread with libcr. Returns its identifier."""
    expect_agent()
    thread = releasing.cr_init()
    if thread < 0:
        number = ctypes.get_errno()
        if number in _WHY:
            raise Error(number, f"critical section: {_WHY[number]}")
        raise failure("critical section", reported=False)
    return thread


def _leave(thread: int) -> None:
    if releasing.cr_leave_cs(thread) != 0:
        raise failure("critical section: it cannot be left", reported=False)


@contextlib.contextmanager
def critical_section() -> Iterator[None]:
    """Within this section no checkpoint of the calling process begins: a request waits until the last section of all threads
    is left, for at most its timeout.

        with reprise.critical_section():
            ...

    Entering waits while a checkpoint is in progress, and leaving the last section waits for the request that it has delayed.
    Other threads of the interpreter run meanwhile. Sections nest. A section belongs to its thread: it must be left in the
    thread that entered it. A child of a fork must enter its own ones.

    Only checkpoints wait; pauses and rollbacks to snapshots do not. The first section of a process starts a thread of libcr,
    which sleeps until there is a request and never runs Python code.

    Raises Error: ENOSYS (the module is not loaded), EACCES (no permission to open /dev/cr), EVERSION, ENOMEM, EAGAIN.
    """
    thread = _registered()
    if releasing.cr_enter_cs(thread) != 0:
        raise failure("critical section", reported=False)
    try:
        yield
    finally:
        _leave(thread)


@contextlib.contextmanager
def between_checkpoints(lock: contextlib.AbstractContextManager) -> Iterator[None]:
    """Hold `lock` while no checkpoint of the calling process is in progress or begins.

    At its end a call that saves the caller waits in libcr for a checkpoint in progress. If it kept the interpreter's lock then,
    threads could not leave the sections that the checkpoint waits for. Nor may it keep `lock` until such a thread has left its
    section, because that thread may be waiting for `lock`.
    """
    while True:
        with lock:
            if not _agent:
                yield
                return
            thread = _registered()
            entered = holding.cr_tryenter_cs(thread)
            if entered < 0:
                raise failure("critical section", reported=False)
            if entered == 0:
                try:
                    yield
                finally:
                    _leave(thread)
                return
        with critical_section():
            pass  # the checkpoint is over
