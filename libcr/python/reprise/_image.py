# SPDX-License-Identifier: LGPL-2.1-or-later
"""Images: what they contain."""

import contextlib
import ctypes
import json
import os
import threading
from typing import Any, NamedTuple

from ._files import Path, shown
from ._library import ImageRun, holding, releasing
from .errors import Error, failure

_free = ctypes.PyDLL(None).free
_free.restype, _free.argtypes = None, (ctypes.c_void_p,)


class Run(NamedTuple):
    """A contiguous range of saved memory, in bytes."""

    address: int
    length: int


class Image:
    """An image that is open for reading. As a context manager it closes itself.

    Several threads may use it: their calls wait for each other. Other threads of the interpreter run meanwhile.
    """

    def __init__(self, path: Path):
        """Open an image and check its structure.

        Raises Error: ENOENT, EACCES and so on, EBADARCH (the file is no image), EIMAGE (it is damaged), ENOSYS
        (libcr-image.so is not installed).
        """
        self._handle: int | None = None
        self._lock = threading.Lock()
        self.path = path
        handle = ctypes.c_void_p()
        if releasing.cr_image_open(os.fsencode(path), ctypes.byref(handle)) != 0:
            raise self._failure()
        self._handle = handle.value
        self.pid: int = holding.cr_image_pid(handle)
        """pid of the saved process"""
        self.name: str = os.fsdecode(holding.cr_image_name(handle))
        """name of the program"""
        self.threads: tuple[int, ...] = tuple(holding.cr_image_tid(handle, i) for i in range(holding.cr_image_threads(handle)))
        """ids of the threads; the leader is the first"""

    @property
    def closed(self) -> bool:
        """Whether the image is closed"""
        return self._handle is None

    def runs(self) -> list[Run]:
        """The ranges of saved memory, sorted by address."""
        with self._lock:
            handle, run, found = self._opened(), ImageRun(), []
            for index in range(holding.cr_image_runs(handle)):
                if holding.cr_image_get_run(handle, index, ctypes.byref(run)) != 0:
                    raise self._failure()
                found.append(Run(run.addr, run.len))
            return found

    def read(self, address: int, length: int) -> bytes:
        """Read up to `length` bytes of saved memory from an address in the process. The result is shorter where saved memory
        ends. The memory is checked against its checksums.

        Raises Error: EFAULT (no saved memory at the address), EIO, EIMAGE (damaged).
        """
        if not 0 <= address < 2**64 or length < 0:
            raise ValueError(f"there is no memory of {length} bytes at {address}")
        content = ctypes.create_string_buffer(length)
        with self._lock:
            size = releasing.cr_image_read(self._opened(), address, content, length)
            if size < 0:
                raise self._failure(f"{shown(self.path)}, memory at {address:#x}")
        return ctypes.string_at(content, size)

    def verify(self) -> None:
        """Verify all checksums. Raises Error EIMAGE, which names the damaged part."""
        with self._lock:
            if releasing.cr_image_verify(self._opened()) != 0:
                raise self._failure()

    def state(self) -> dict[str, Any]:
        """The saved state: process, threads, mappings, descriptors, timers and so on, as in libcr/image/state.proto. As in
        all JSON of protobuf, numbers of 64 bits are strings, and names, paths and other byte strings are base64."""
        with self._lock:
            text = releasing.cr_image_json(self._opened())
            if not text:
                raise self._failure()
        try:
            return json.loads(ctypes.string_at(text))
        finally:
            _free(text)

    def close(self) -> None:
        """Close the image and free its memory. A second call does nothing."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is not None:
                releasing.cr_image_close(handle)

    def __enter__(self) -> "Image":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def __del__(self) -> None:
        # Nobody else has this object, so nobody waits for its lock. While the interpreter ends, names are missing.
        with contextlib.suppress(Exception):
            self.close()

    def __repr__(self) -> str:
        return f"<Image {shown(self.path)!r}{', closed' if self.closed else ''}>"

    def _opened(self) -> int:
        if self._handle is None:
            raise ValueError(f"the image {shown(self.path)} is closed")
        return self._handle

    def _failure(self, what: str = "") -> Error:
        return failure(what or shown(self.path), shown(self.path))
