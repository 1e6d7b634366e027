# SPDX-License-Identifier: LGPL-2.1-or-later
"""Checkpoints: save processes to images."""

import ctypes
import dataclasses
import enum
import os

from . import _library
from ._files import File, Path, destination, shown
from ._library import releasing
from ._requests import flags_of, is_caller, outcome
from ._sections import expect_agent
from .errors import Code, Error, failure


class Scope(enum.IntEnum):
    """What a pid refers to. The processes are saved one after the other, not at the same instant."""

    PROCESS = 0
    """one process with all its threads"""
    GROUP = 1
    """a process group"""
    SESSION = 2
    """a session"""
    TREE = 3
    """a process and its descendants"""


@dataclasses.dataclass(frozen=True)
class Saved:
    """How checkpoint() returned."""

    rolled_back: bool
    """False: the image was taken. True: this process was since rolled back to the image, or restarted from it"""
    messages: tuple[str, ...]
    """messages of the request"""


def _includes_caller(scope: Scope, pid: int) -> bool:
    if scope == Scope.GROUP:
        return pid in (0, os.getpgrp())
    if scope == Scope.SESSION:
        return pid in (0, os.getsid(0))
    return is_caller(pid)


def checkpoint(pid: int = 0, image: File | None = None, *, scope: Scope = Scope.PROCESS, clobber: bool = True,
               sync: bool = True, parent: Path | None = None, delta: bool = False, compress: str = "", signal: int = 0,
               timeout: int = 0, prohibit_self: bool = False, ptraced_skip: bool = False, ptracer_skip: bool = False) -> Saved:
    """Save a process, and wait until the image is complete. The process runs on while the image is written.

    The calling process can save itself. Then this function returns twice, like os.fork(): with rolled_back False when the
    image was taken, and with rolled_back True in the process that was rolled back to it (pause()) or restarted from it.
    Other threads of the interpreter run during the call; they are saved wherever they are.

    pid: the process, process group or session; 0: the caller's
    image: path of the file that the image becomes, or of a directory in which it becomes context.PID; or a descriptor, to
      which it is written. None: context.PID in the working directory. Several processes need a directory or None.
    scope: what pid refers to
    clobber: replace an existing file
    sync: write the image to disk before it gets its name
    parent: path of an image of the same process, or of the directory with the images of several: only what has changed since is
      saved, and the rest taken from there. It may be the file that the new image replaces.
    delta: with parent, refer to it for what has not changed. The image then needs the parent, in the same directory.
    compress: "lz4", "zstd", or with a level "zstd:19"
    signal: number of a signal that each process gets once it is saved; 0: none
    timeout: longest time for the callbacks of each process, in whole seconds; 0: 60
    prohibit_self: fail with EDEADLK if the caller is among the processes
    ptraced_skip, ptracer_skip: leave out processes that are traced, or that trace others. Otherwise they are refused.

    Raises Error: ESRCH (no such process), EPERM or EACCES (the caller may not trace it), EEXIST (not clobber), EBUSY (another
    request is in progress), EREFUSED (something cannot be saved), EPTRACED, EPTRACER, ENOSYS (the module is not loaded),
    ETIMEDOUT, ENOSPC, EIO, EHELPER; ETEMPFAIL, EPERMFAIL or a code of its own from a callback; ERESTARTED (the caller was
    rolled back while it waited for the checkpoint of others). An existing image stays.
    """
    target = Scope(scope).name.lower()
    what = f"checkpoint of {f'{target} {pid}' if pid else f'the caller as {target}'}"
    own = _includes_caller(scope, pid)  # decided now: after a restart the caller may have another pid
    args, handle = _library.CheckpointArgs(), ctypes.c_ulong()
    releasing.cri_init_checkpoint_args_t(_library.CHECKPOINT_ARGS_VERSION, ctypes.byref(args))
    args.cr_scope, args.cr_target, args.cr_signal, args.cr_timeout = scope, pid, signal, timeout
    args.cr_flags = flags_of((prohibit_self, _library.CHKPT_PROHIBIT_SELF), (ptraced_skip, _library.CHKPT_PTRACED_SKIP),
                             (ptracer_skip, _library.CHKPT_PTRACER_SKIP), (not sync, _library.CHKPT_NO_SYNC),
                             (delta, _library.CHKPT_DELTA))
    args.cr_parent = None if parent is None else os.fsencode(parent)
    args.cr_compress = compress.encode() or None
    if own or scope != Scope.PROCESS:
        expect_agent()
    with destination(image, clobber) as args.cr_fd:
        if releasing.cr_request_checkpoint(ctypes.byref(args), ctypes.byref(handle)) != 0:
            raise failure(what, shown(image))
        try:
            return Saved(False, outcome("checkpoint", handle, what, shown(image))[1])
        except Error as error:
            if error.errno == Code.ERESTARTED and own:
                return Saved(True, ())
            raise
