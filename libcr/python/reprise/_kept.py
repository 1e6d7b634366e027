# SPDX-License-Identifier: LGPL-2.1-or-later
"""Kept memory, which no rollback changes."""

import ctypes
import errno

from ._library import holding, releasing
from .errors import failure

_COPIED = 1  # CR_KEPT_COPIED


def keep(name: str, size: int, copied: bool = False) -> memoryview:
    """Memory of `size` bytes that no rollback of the calling process changes: for logs, statistics, stores of results. The first
    call for a name allocates it, rounded up to whole pages; later calls return the same memory, also after a restart.

    A pause and a rollback to a snapshot leave its content as it is. An image holds the content only if `copied` was true in the
    first call: in a restart the memory is as at the checkpoint then, otherwise empty (zeros), unless it is given
    (restart(kept=...)). Memory that was first asked for after the checkpoint is gone after
    the rollback: do not use an old view then. A child of os.fork() shares the memory. It exists as long as the process, or
    another one that has a descriptor of it (kept_descriptor()).

    name: 1 to 200 letters, digits, or . _ -

    Raises ValueError if the memory is there and has another size, and Error: EINVAL, ENOMEM.
    """
    what = f"kept memory {name}"
    address, found = ctypes.c_void_p(), ctypes.c_size_t()
    if holding.cr_kept_attach(name.encode(), -1, ctypes.byref(address), ctypes.byref(found)) == 0:
        if not size <= found.value < size + 4096:
            raise ValueError(f"{what} is there with {found.value} bytes")
    else:
        if ctypes.get_errno() != errno.ENOENT:
            raise failure(what, what)
        # Its descriptor stays open, for kept_descriptor().
        if holding.cr_kept_alloc(name.encode(), size, _COPIED if copied else 0, ctypes.byref(address)) < 0:
            raise failure(what, what)
    assert address.value
    return memoryview((ctypes.c_char * size).from_address(address.value)).cast("B")


def copy_kept(name: str) -> None:
    """Copy memory of keep(copied=True) to another node, now. For ranks under crrun --redundancy partner with the transport crtcp, after
    MPI_Init: if the node is lost, a restart begins with this content, or with what is newer. No other thread may write to it meanwhile.

    Raises Error: EOPNOTSUPP (there are no copies), EHOSTUNREACH (no other node can keep one now), EINVAL, ENOENT, EIO, ENOSPC.
    """
    if releasing.cr_kept_copy(name.encode()) < 0:
        raise failure(f"kept memory {name}", f"kept memory {name}")


def kept_descriptor(name: str) -> int:
    """A new descriptor of kept memory, to hand it to another process or to restart(kept=...). The caller closes it.

    Raises Error: ENOENT (the process has no memory of that name).
    """
    descriptor = holding.cr_kept_fd(name.encode())
    if descriptor < 0:
        raise failure(f"kept memory {name}", f"kept memory {name}")
    return descriptor
