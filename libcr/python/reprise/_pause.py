# SPDX-License-Identifier: LGPL-2.1-or-later
"""Pauses: roll live processes back to images."""

import ctypes

from . import _library
from ._files import File, shown, source
from ._library import holding, releasing
from ._requests import SharedMemory, flags_of, is_caller, outcome, process_name, shared_memory_flag
from .errors import failure


def pause(pid: int, image: File, *, signal: int = 0, timeout: int = 0, rewind_files: bool = False, tracking: bool = True,
          shared_memory: SharedMemory = None) -> tuple[str, ...]:
    """Roll a live process back, in place, to an image of it, and wait until it is rolled back. It keeps its pid, its threads
    and its open sockets. Returns the messages of the request, for example about files that have grown.

    If the process is the caller, the function does not return: the process goes on where the image was taken. Until then no
    other thread of the interpreter runs Python code, because the call keeps the interpreter's lock.

    pid: the process; 0: the caller
    image: path of the image, or a descriptor from which it is read
    signal: number of a signal that the process gets before it runs again; 0: none
    timeout: longest time to stop all threads, in whole seconds; 0: 5
    rewind_files: truncate files that have grown to their old length
    tracking: restore only pages that are known to have changed, where these are tracked
    shared_memory: see SharedMemory

    Raises Error: ESRCH (no such process, or the image is of another one), EPERM or EACCES (the caller may not trace the
    process), EBADARCH or EIMAGE (the file is no image, or a damaged one), EREFUSED (something cannot be restored), ENOSYS (the
    module is not loaded), ETIMEDOUT, EHELPER; ETEMPFAIL, EPERMFAIL or a code of its own from a callback. After a refusal the
    process runs on, unchanged.
    """
    what = f"pause of {process_name(pid)}"
    library = holding if is_caller(pid) else releasing
    args, handle = _library.PauseArgs(), ctypes.c_ulong()
    releasing.cri_init_pause_args_t(_library.PAUSE_ARGS_VERSION, ctypes.byref(args))
    args.cr_target, args.cr_signal, args.cr_timeout = pid, signal, timeout
    args.cr_flags = flags_of((rewind_files, _library.PAUSE_REWIND_FILES), (not tracking, _library.PAUSE_NO_TRACKING))
    args.cr_flags |= shared_memory_flag(shared_memory, _library.PAUSE_KEEP_SHARED, _library.PAUSE_RESTORE_SHARED)
    with source(image) as args.cr_fd:
        if library.cr_request_pause(ctypes.byref(args), ctypes.byref(handle)) != 0:
            raise failure(f"{what} to {shown(image)}", shown(image))
        return outcome("pause", handle, f"{what} to {shown(image)}", shown(image), library)[1]
