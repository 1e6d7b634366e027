# SPDX-License-Identifier: LGPL-2.1-or-later
"""Restarts: create processes from images."""

import ctypes
import dataclasses
import os
from collections.abc import Iterable

from . import _library
from ._files import File, Path, shown, source
from ._library import releasing
from ._requests import SharedMemory, flags_of, outcome, shared_memory_flag
from .errors import failure


@dataclasses.dataclass(frozen=True)
class Restarted:
    """A process that was created from an image. It is a child of the caller: os.waitpid(pid, 0) waits for its end."""

    pid: int
    messages: tuple[str, ...]
    """messages of the request"""


def restart(image: File, *, signal: int = 0, restore_pid: bool = True, restore_pgid: bool = False, restore_sid: bool = False,
            dead_sockets: bool = False, rewind_files: bool = False, trust: bool = False, shared_memory: SharedMemory = None,
            relocate: Iterable[tuple[Path, Path]] = ()) -> Restarted:
    """Create a process from an image, and wait until it runs and its callbacks have returned.

    The process is a child of the caller, which must reap it when it ends (os.waitpid()). It is created without a fork of the
    interpreter: functions of os.register_at_fork() do not run. Without dead_sockets, pipes to processes outside of the image
    become the caller's standard input and output. If the restart fails, no process is left.

    image: path of the image, or a descriptor from which it is read
    signal: number of a signal that the process gets when its callbacks have returned; negative: before it runs; 0: none
    restore_pid: restore the ids of the process and its threads, or fail; otherwise it gets new ones
    restore_pgid: join the process group of the image, or fail
    restore_sid: restore the session (its own, or the caller's), or fail
    dead_sockets: replace sockets and pipes that cannot be restored by closed ones
    rewind_files: truncate files that have grown to their old length
    trust: as root, accept any user's image, and open its files as root
    shared_memory: see SharedMemory
    relocate: up to 16 pairs (old, new): files whose path begins with old are opened below new instead; the first match counts

    Raises Error: EEXIST (the pid is in use), EPERM (no permission to restore pids, or another user's image without trust),
    EBADARCH or EIMAGE (the file is no image, or a damaged one), EREFUSED (something cannot be restored), ENOSYS (the module is
    not loaded), ERSTRTABRT (a callback failed), EHELPER.
    """
    what = f"restart from {shown(image)}"
    args, handle = _library.RestartArgs(), ctypes.c_ulong()
    releasing.cri_init_restart_args_t(_library.RESTART_ARGS_VERSION, ctypes.byref(args))
    args.cr_signal = signal
    args.cr_flags = flags_of((restore_pid, _library.RSTRT_RESTORE_PID), (restore_pgid, _library.RSTRT_RESTORE_PGID),
                             (restore_sid, _library.RSTRT_RESTORE_SID), (dead_sockets, _library.RSTRT_DEAD_SOCKETS),
                             (rewind_files, _library.RSTRT_REWIND_FILES), (trust, _library.RSTRT_TRUST))
    args.cr_flags |= shared_memory_flag(shared_memory, _library.RSTRT_KEEP_SHARED, _library.RSTRT_RESTORE_SHARED)
    pairs = [(os.fsencode(old), os.fsencode(new)) for old, new in relocate]
    paths = _library.relocate_type(len(pairs))()  # until the request is made
    if pairs:
        paths.count, paths.path[:] = len(pairs), pairs
        args.cr_relocate = ctypes.addressof(paths)
    with source(image) as args.cr_fd:
        if releasing.cr_request_restart(ctypes.byref(args), ctypes.byref(handle)) != 0:
            raise failure(what, shown(image))
        return Restarted(*outcome("restart", handle, what, shown(image)))
