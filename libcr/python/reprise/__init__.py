# SPDX-License-Identifier: LGPL-2.1-or-later
"""Reprise: roll live Linux processes back in place. The Python interface of the library libcr.

    saved = reprise.checkpoint(4711, "job.img")      # save; the process runs on while the image is written
    reprise.pause(4711, "job.img")                   # roll it back in place
    pid = reprise.restart("job.img").pid             # after it has died: create it again, with its pid and tids

    with reprise.take() as snapshot:                 # of this process, in memory
        if snapshot.rollbacks < 10 and not attempt(snapshot.rollbacks):
            snapshot.rollback()                      # does not return: take() returns again

    with reprise.Image("job.img") as image:          # what is in it
        print(image.pid, image.name, image.threads)

Every failure of libcr raises Error, an OSError whose text names the process, descriptor, thread or mapping that is the cause.

What is rolled back. A rollback of the calling process restores all of the interpreter: objects, frames, threads, locks, the
state of the module random, buffers of open files, the descriptors with their offsets, signal handlers and masks. Threads that
were started since end without any cleanup, and threads that ended since exist again (which needs CAP_CHECKPOINT_RESTORE or
root). Not rolled back are the content of files, memory of keep(), other processes, the other ends of sockets and pipes, and
the clocks. Output that was in a buffer when the state was taken is in it again, and so is written again: flush before take()
or checkpoint().
Values that must not be used twice (keys, nonces, seeds) are there again, too: see generation().

Threads. The kernel stops all threads of the process at the same instant and later continues them from it, each with its
registers and its memory. So the interpreter's own locks, the GIL included, always fit the threads: the thread that held the
GIL at that instant holds it after the rollback, and those that waited for it wait. This holds for every call, whether or not
it keeps the GIL. What the GIL decides is what other threads do between the call and that instant. take() and rollback() of
the calling process, and pause() of it, keep the GIL: between the call and its effect no other thread runs Python code, so the
snapshot has one well-defined place in the program, and no thread acts on a state that is about to be lost. (Threads that are
in a system call or in C code without the GIL do go on.) All other calls release the GIL, because they may take long, or
because callbacks that were registered with libcr by extension modules may need it; among them are checkpoint(), and take()
and rollback() with callbacks. take() and rollback() do not keep the GIL while they wait for a checkpoint in progress. An
interpreter without a GIL has no such lock to keep; there, other threads run until they are stopped.

Forks. A child of os.fork() inherits no request, snapshot or critical section; its Snapshot objects are closed. It may make its
own. Use no rollback of the calling process within functions of os.register_at_fork().
"""

from . import _library
from ._checkpoint import Saved, Scope, checkpoint
from ._generation import generation
from ._image import Image, Run
from ._kept import copy_kept, keep, kept_descriptor
from ._pause import pause
from ._requests import SharedMemory
from ._restart import Restarted, copies, restart
from ._sections import critical_section
from ._snapshot import Snapshot, load, take
from .errors import Code, Error

__version__ = _library.VERSION
__all__ = ["Code", "Error", "Image", "Restarted", "Run", "Saved", "Scope", "SharedMemory", "Snapshot", "checkpoint",
           "copies", "copy_kept", "critical_section", "generation", "keep", "kept_descriptor", "pause", "restart", "take"]
