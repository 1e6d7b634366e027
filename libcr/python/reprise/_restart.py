# SPDX-License-Identifier: LGPL-2.1-or-later
"""Restarts: create processes from images."""

import ctypes
import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from . import _library
from ._files import File, Path, shown, source
from ._library import holding, releasing
from ._requests import SharedMemory, ended, flags_of, outcome, shared_memory_flag
from .errors import failure


class _HasDescriptor(Protocol):
    def fileno(self) -> int:
        """The descriptor."""


#: Descriptors of the image, and those of this process, or files, that take their place.
Descriptors = Mapping[int, int | _HasDescriptor]
#: Names of kept memory of the image, and descriptors (or files) of the memory that it gets.
KeptMemory = Mapping[str, int | _HasDescriptor]


@dataclasses.dataclass(frozen=True)
class Restarted:
    """A process that was created from an image. It is a child of the caller: os.waitpid(pid, 0) waits for its end."""

    pid: int
    messages: tuple[str, ...]
    """messages of the request"""


def restart(image: File, *, signal: int = 0, restore_pid: bool = True, pid_namespace: bool = False, restore_pgid: bool = False,
            restore_sid: bool = False, dead_sockets: bool = False, rewind_files: bool = False, trust: bool = False,
            shared_memory: SharedMemory = None, relocate: Iterable[tuple[Path, Path]] = (), fds: Descriptors | None = None,
            kept: KeptMemory | None = None) -> Restarted:
    """Create a process from an image, and wait until it runs and its callbacks have returned.

    The process is a child of the caller, which must reap it when it ends (os.waitpid()). It is created without a fork of the
    interpreter: functions of os.register_at_fork() do not run. Without dead_sockets, pipes to processes outside of the image
    become the caller's standard input and output. If the restart fails, no process is left.

    image: path of the image, or a descriptor from which it is read
    signal: number of a signal that the process gets when its callbacks have returned; negative: before it runs; 0: none
    restore_pid: restore the ids of the process and its threads, or fail; otherwise it gets new ones
    pid_namespace: restore them in a new pid namespace, as root; Restarted.pid is its id in this one
    restore_pgid: join the process group of the image, or fail
    restore_sid: restore the session (its own, or the caller's), or fail
    dead_sockets: replace sockets and pipes that cannot be restored by closed ones
    rewind_files: truncate files that have grown to their old length
    trust: as root, accept any user's image, and open its files as root
    shared_memory: see SharedMemory
    relocate: up to 16 pairs (old, new): files whose path begins with old are opened below new instead; the first match counts
    fds: descriptors of the image, and those of this process (or files) that take their place and that of their duplicates
    kept: kept memory to give (see keep()): its names, and descriptors of memory with these names and sizes; other is empty

    Raises Error: EEXIST (the pid is in use), EPERM (no permission to restore pids or for a pid namespace, or another user's
    image without trust), EBADARCH or EIMAGE (the file is no image, or a damaged one), EREFUSED (something cannot be restored),
    ENOSYS (the module is not loaded), ERSTRTABRT (a callback failed), EHELPER.
    """
    args = _arguments(signal, restore_pid, pid_namespace, restore_pgid, restore_sid, dead_sockets, rewind_files, trust,
                      shared_memory)
    return _request(image, args, relocate, [fds or {}], kept or {}, f"restart from {shown(image)}")[0]


def copies(image: File, number: int, *, signal: int = 0, pid_namespace: bool = False, restore_pgid: bool = False,
           restore_sid: bool = False, dead_sockets: bool = False, rewind_files: bool = False, trust: bool = False,
           shared_memory: SharedMemory = None, relocate: Iterable[tuple[Path, Path]] = (), fds: Sequence[Descriptors] = (),
           kept: KeptMemory | None = None) -> list[Restarted]:
    """Create several processes from an image, at most 1,000, and wait until all run. They share the pages of their private
    memory until they write to them. Either all of them run or, if one cannot be restored, none does.

    They are children of the caller, as by restart(). A process that makes them is a child, too, for a moment; it is reaped.

    pid_namespace: the ids of the image, each in a pid namespace of its own, as root; otherwise new ids
    fds: for each copy its descriptors, as by restart(); what one has a descriptor for, all must have one for
    kept: kept memory that all copies share; other is empty, and each copy has its own

    The messages are with the first; all else is as by restart(). What only one process can have is refused (EREFUSED): a port
    without SO_REUSEPORT, an exclusive lock, both ends of a FIFO.
    """
    if number < 1:
        raise ValueError(f"the number of copies is at least 1, not {number}")
    if fds and len(fds) != number:
        raise ValueError(f"descriptors for {len(fds)} copies, but {number} are asked for")
    args = _arguments(signal, pid_namespace, pid_namespace, restore_pgid, restore_sid, dead_sockets, rewind_files, trust,
                      shared_memory)
    args.cr_copies = number
    return _request(image, args, relocate, fds, kept or {}, f"{number} copies from {shown(image)}")


def _arguments(signal: int, restore_pid: bool, pid_namespace: bool, restore_pgid: bool, restore_sid: bool, dead_sockets: bool,
               rewind_files: bool, trust: bool, shared_memory: SharedMemory) -> _library.RestartArgs:
    args = _library.RestartArgs()
    releasing.cri_init_restart_args_t(_library.RESTART_ARGS_VERSION, ctypes.byref(args))
    args.cr_signal = signal
    args.cr_flags = flags_of((restore_pid, _library.RSTRT_RESTORE_PID), (pid_namespace, _library.RSTRT_PID_NAMESPACE),
                             (restore_pgid, _library.RSTRT_RESTORE_PGID), (restore_sid, _library.RSTRT_RESTORE_SID),
                             (dead_sockets, _library.RSTRT_DEAD_SOCKETS), (rewind_files, _library.RSTRT_REWIND_FILES),
                             (trust, _library.RSTRT_TRUST))
    args.cr_flags |= shared_memory_flag(shared_memory, _library.RSTRT_KEEP_SHARED, _library.RSTRT_RESTORE_SHARED)
    return args


def _number(given: int | _HasDescriptor) -> int:
    return given if isinstance(given, int) else given.fileno()


def _request(image: File, args: _library.RestartArgs, relocate: Iterable[tuple[Path, Path]], fds: Sequence[Descriptors],
             kept: KeptMemory, what: str) -> list[Restarted]:
    pairs = [(os.fsencode(old), os.fsencode(new)) for old, new in relocate]
    paths = _library.relocate_type(len(pairs))()  # until the request is made
    if pairs:
        paths.count, paths.path[:] = len(pairs), pairs
        args.cr_relocate = ctypes.addressof(paths)
    replaced = [(copy if args.cr_copies else 0, fd, _number(other))
                for copy, of_copy in enumerate(fds, 1) for fd, other in of_copy.items()]
    descriptors = _library.fds_type(len(replaced))()
    if replaced:
        descriptors.count, descriptors.fd[:] = len(replaced), replaced
        args.cr_fds = ctypes.addressof(descriptors)
    given = [(name.encode(), _number(memory)) for name, memory in kept.items()]
    memories = _library.kept_type(len(given))()
    if given:
        memories.count, memories.memory[:] = len(given), given
        args.cr_kept = ctypes.addressof(memories)
    handle = ctypes.c_ulong()
    with source(image) as args.cr_fd:
        if releasing.cr_request_restart(ctypes.byref(args), ctypes.byref(handle)) != 0:
            raise failure(what, shown(image))
        ended("restart", handle, what, shown(image))
        pids = (ctypes.c_int * (args.cr_copies or 1))()
        holding.cr_restart_pids(ctypes.byref(handle), pids, len(pids))  # if it fails, so does what follows
        _, messages = outcome("restart", handle, what, shown(image))
    return [Restarted(pid, () if at else messages) for at, pid in enumerate(pids)]
