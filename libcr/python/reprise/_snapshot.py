# SPDX-License-Identifier: LGPL-2.1-or-later
"""Snapshots of processes in memory."""

import contextlib
import ctypes
import errno
import os
import threading

from . import _library
from ._files import File, shown, source
from ._library import holding, releasing
from ._requests import SharedMemory, flags_of, is_caller, process_name, shared_memory_flag
from ._sections import between_checkpoints, expect_agent
from .errors import Error, failure

# libcr carries out one call of a snapshot at a time. Calls wait for each other here, without the interpreter's lock: a call
# that keeps that lock must not wait in libcr for a call of another thread, which may take a minute (callbacks).
# Reentrant, because handlers of signals and finalizers run between any two instructions of a thread.
_one_at_a_time = threading.RLock()
# A child must not inherit the lock from a thread that it does not have.
os.register_at_fork(before=_one_at_a_time.acquire, after_in_parent=_one_at_a_time.release,
                    after_in_child=_one_at_a_time.release)


def _alone(library: ctypes.CDLL) -> contextlib.AbstractContextManager:
    """For a call of this library object."""
    return between_checkpoints(_one_at_a_time) if library is holding else _one_at_a_time


class Snapshot:
    """A snapshot in the kernel's memory, made by take() or load().

    It exists until close(), or until the caller or the process ends. The snapshots of another process are a tree of states:
    roll it back, or forward, to any of them in any order. A rollback of the calling process forgets what was taken since.
    As a context manager a snapshot closes itself. A child of a fork has no part in it: close() does nothing there.
    """

    def __init__(self, pid: int, handle: int, rollbacks: int, library: ctypes.CDLL):
        self.pid = pid
        """the process"""
        self.rollbacks = rollbacks
        """How often the calling process was rolled back to this snapshot before this return of take(); 0 for the first
        return, and for snapshots of other processes"""
        self._handle = handle
        self._library = library
        self._taker = os.getpid()

    @property
    def rolled_back(self) -> bool:
        """False: the snapshot was taken just now. True: the calling process was rolled back to it"""
        return self.rollbacks > 0

    @property
    def closed(self) -> bool:
        """Whether the snapshot no longer exists"""
        return self._handle == 0 or self._taker != os.getpid()

    def rollback(self) -> None:
        """Roll the process back, or forward. The snapshot stays, and so do those of other states of another process.

        A rollback of the calling process does not return: all its threads are where they were in take(), which returns again.
        No other thread of the interpreter runs Python code in between, because the call keeps the interpreter's lock (except
        for a snapshot with callbacks). Any thread of the process may call this function.

        Raises Error: EINVAL (the snapshot no longer exists), ESRCH (the process has ended), EREFUSED (something cannot be
        restored), EHELPER. Then the process runs on, unchanged.
        """
        what = f"rollback of {process_name(self.pid)}"
        with _alone(self._library):
            if self.closed:
                raise Error(errno.EINVAL, f"{what}: this snapshot was dropped; take another one")
            if self._library.cr_snapshot_rollback(self._handle) != 0:
                raise failure(what)

    def close(self) -> None:
        """Drop the snapshot and free its memory. A second call does nothing."""
        with _one_at_a_time:
            if not self.closed:
                releasing.cr_snapshot_drop(self._handle)  # fails only if there is no such snapshot
            self._handle = 0

    def __enter__(self) -> "Snapshot":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # while the interpreter ends, names are missing
            number = ctypes.get_errno()  # of a call in this thread that was interrupted by the garbage collection
            self.close()
            ctypes.set_errno(number)

    def __repr__(self) -> str:
        return f"<Snapshot of {process_name(self.pid)}, {'closed' if self.closed else f'{self.rollbacks} rollbacks'}>"


def take(pid: int = 0, *, callbacks: bool = False, rewind_files: bool = False, shared_memory: SharedMemory = None) -> Snapshot:
    """Take a snapshot of a process. It is copy-on-write: it protects the pages and does not copy them.

    For the calling process this function returns several times, as os.fork() returns twice: first with rolled_back False, and
    after every rollback with rolled_back True and the number of rollbacks:

        with reprise.take() as snapshot:
            if snapshot.rollbacks < 10 and not attempt(snapshot.rollbacks):
                snapshot.rollback()       # does not return

    The rollback restores all memory and all threads, also those of the interpreter. What must survive it must be kept outside
    of the process, for example in a file; the package's description says what is not rolled back.

    pid: the process; 0: the caller
    callbacks: run the callbacks that the process has registered with libcr. During a snapshot or rollback of the caller the
      interpreter's lock is then released, because the callbacks may need it: other threads run Python code until the process
      is stopped.
    rewind_files: a rollback truncates files that have grown to their old length
    shared_memory: what a rollback does, see SharedMemory

    Raises Error: ESRCH, EPERM or EACCES (the caller may not trace the process), EREFUSED (something cannot be saved), ENOSYS
    (the module is not loaded), ETIMEDOUT, ENOMEM, EHELPER.
    """
    own = is_caller(pid)
    library = holding if own and not callbacks else releasing
    flags = flags_of((callbacks, _library.SNAPSHOT_CALLBACKS), (rewind_files, _library.SNAPSHOT_REWIND_FILES))
    flags |= shared_memory_flag(shared_memory, _library.SNAPSHOT_KEEP_SHARED, _library.SNAPSHOT_RESTORE_SHARED)
    handle = ctypes.c_ulong()
    if own and callbacks:
        expect_agent()
    with _alone(library):
        rollbacks = library.cr_snapshot_take(pid, flags, ctypes.byref(handle))
        if rollbacks < 0:
            raise failure(f"snapshot of {process_name(pid)}")
        return Snapshot(os.getpid() if own else pid, handle.value, rollbacks, library)


def load(pid: int, image: File, *, rewind_files: bool = False, shared_memory: SharedMemory = None) -> Snapshot:
    """Roll another process back to an image of it, as pause() does, and keep the restored state as a snapshot.

    A rollback to the snapshot is a pause to the image that reads nothing and restores only what has changed. Callbacks that
    the process has registered with libcr run as in a pause.

    pid: the process, not the caller
    image: path of the image, or a descriptor from which it is read
    rewind_files, shared_memory: for this rollback and those to the snapshot, see take()

    Raises Error as pause() and take() do. With ENOMEM or EDQUOT the process may have been rolled back without its state being
    kept: the text says so.
    """
    flags = flags_of((rewind_files, _library.SNAPSHOT_REWIND_FILES))
    flags |= shared_memory_flag(shared_memory, _library.SNAPSHOT_KEEP_SHARED, _library.SNAPSHOT_RESTORE_SHARED)
    handle = ctypes.c_ulong()
    with source(image) as fd, _alone(releasing):
        if releasing.cr_snapshot_load(pid, fd, flags, ctypes.byref(handle)) != 0:
            raise failure(f"pause of {process_name(pid)} to {shown(image)}", shown(image))
        return Snapshot(pid, handle.value, 0, releasing)
