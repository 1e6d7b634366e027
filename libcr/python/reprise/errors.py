# SPDX-License-Identifier: LGPL-2.1-or-later
"""The exception of all failures, and libcr's own error codes."""

import ctypes
import enum
import errno as _errno
import os

from ._library import holding


class Code(enum.IntEnum):
    """Values of Error.errno in addition to those of the module errno."""

    ETEMPFAIL = 2354
    """a callback refused the checkpoint for now"""
    EPERMFAIL = 2355
    """a callback failed for good; its process was killed"""
    ENOSUPPORT = 2356
    """the process cannot take part in a checkpoint"""
    EVERSION = 2357
    """library and module are of different versions"""
    EOMITTED = 2358
    """a callback left its process out of the checkpoint"""
    EBADARCH = 2359
    """the image is of another architecture or not an image"""
    EPTRACED = 2360
    """a target is being traced, for example by a debugger"""
    EPTRACER = 2361
    """a target traces another process"""
    ERSTRTABRT = 2362
    """a callback failed after the restart; the restarted process was killed"""
    ERESTARTED = 2363
    """the request is void: this process was restarted or rolled back since it was made"""
    ENOTCB = 2364
    """only allowed inside a callback"""
    ENOINIT = 2365
    """the calling thread is not registered with the library"""
    EREFUSED = 2366
    """cannot be saved or restored; nothing has changed"""
    EIMAGE = 2367
    """the image is damaged or of an unknown format"""
    EHELPER = 2368
    """the helper process could not be started or died"""


class Error(OSError):
    """A call of libcr has failed.

    `errno` is a code of the module errno or one of Code, and `name` is its name, such as "ESRCH" or "CR_EREFUSED".
    `strerror` (and str()) says what was to be done to what, and libcr's own text: it names the descriptor, thread or mapping
    that is the cause, and the way out if there is one. `messages` are the messages of the request until it failed.
    """

    messages: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        try:
            return f"CR_{Code(self.errno).name}"
        except ValueError:
            return _errno.errorcode.get(self.errno, str(self.errno))

    def __str__(self) -> str:
        return f"{self.strerror} [{self.name}]"


def failure(what: str, thing: str = "", *, reported: bool = True) -> Error:
    """The error of the call of libcr that has just failed in this thread.

    what: what was to be done
    thing: what libcr's text may begin with, because `what` names it already
    reported: whether the function sets the text of cr_last_error()
    """
    number = ctypes.get_errno()
    text = holding.cr_last_error() if reported else b""
    sentence = os.fsdecode(text or holding.cr_strerror(number))
    return Error(number, f"{what}: {sentence.removeprefix(thing + ': ') if thing else sentence}")
