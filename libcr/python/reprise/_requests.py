# SPDX-License-Identifier: LGPL-2.1-or-later
"""What checkpoints, restarts and pauses have in common."""

import ctypes
import errno
import os
from typing import Literal

from ._library import holding, releasing
from .errors import failure

#: What happens to memory and mapped files that other live processes share and that have changed: they are left as they are,
#: or restored under those processes. None: the call is refused if there are any.
SharedMemory = Literal["keep", "restore"] | None


def shared_memory_flag(choice: SharedMemory, keep: int, restore: int) -> int:
    """The flag for a choice."""
    flags = {None: 0, "keep": keep, "restore": restore}
    if choice not in flags:
        raise ValueError(f"shared_memory is 'keep', 'restore' or None, not {choice!r}")
    return flags[choice]


def flags_of(*given: tuple[bool, int]) -> int:
    """The flags whose conditions hold."""
    return sum(flag for wanted, flag in given if wanted)


def is_caller(pid: int) -> bool:
    """Whether the process is this one."""
    return pid in (0, os.getpid())


def process_name(pid: int) -> str:
    """The process in a message."""
    return f"process {pid or os.getpid()}"


def ended(kind: str, handle: ctypes.c_ulong, what: str, thing: str = "", library: ctypes.CDLL = releasing) -> None:
    """Wait until a request has ended. Signal handlers run meanwhile. If one raises an exception, the wait ends, but the
    request goes on."""
    while getattr(library, f"cr_wait_{kind}")(ctypes.byref(handle), None) < 0:
        if ctypes.get_errno() != errno.EINTR:
            raise failure(what, thing)


def outcome(kind: str, handle: ctypes.c_ulong, what: str, thing: str = "",
            library: ctypes.CDLL = releasing) -> tuple[int, tuple[str, ...]]:
    """Wait as ended(), and fetch the request's outcome and its messages."""
    ended(kind, handle, what, thing, library)
    messages = _messages(kind, handle)
    # Reaping may wait, too: for callbacks of the next request.
    value = getattr(library, f"cr_reap_{kind}")(ctypes.byref(handle))
    if value < 0:
        error = failure(what, thing)
        error.messages = messages
        raise error
    return value, messages


def _messages(kind: str, handle: ctypes.c_ulong) -> tuple[str, ...]:
    log = getattr(holding, f"cr_log_{kind}")
    size = log(ctypes.byref(handle), 0, None)
    if size <= 0:
        return ()
    text = ctypes.create_string_buffer(size)
    log(ctypes.byref(handle), size, text)
    return tuple(os.fsdecode(text.value).splitlines())
