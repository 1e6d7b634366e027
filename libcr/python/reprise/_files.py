# SPDX-License-Identifier: LGPL-2.1-or-later
"""The files of images: paths, or descriptors that the caller has opened."""

import contextlib
import errno
import os
import stat
from collections.abc import Iterator

from ._library import DEST_CWD
from .errors import Error

Path = str | bytes | os.PathLike
File = Path | int


def shown(file: File | None) -> str:
    """The name of a file in a message."""
    if file is None:
        return "the working directory"
    return f"descriptor {file}" if isinstance(file, int) else os.fsdecode(file)


@contextlib.contextmanager
def source(image: File) -> Iterator[int]:
    """A descriptor from which an image is read."""
    if isinstance(image, int):
        yield image
        return
    try:
        fd = os.open(image, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise Error(error.errno, f"{shown(image)}: {error.strerror}") from error
    try:
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def destination(image: File | None, clobber: bool) -> Iterator[int]:
    """A descriptor to which an image is written. libcr needs an open file even if the image replaces it: a file that was
    created for that is removed again when no image replaces it."""
    if image is None or isinstance(image, int):
        yield DEST_CWD if image is None else image
        return
    try:
        fd, created = _open_to_write(image, clobber)
    except OSError as error:
        raise Error(error.errno, f"{shown(image)}: {error.strerror}") from error
    try:
        yield fd
    except BaseException:
        if created is not None:
            _remove_if_still(image, created)
        raise
    finally:
        os.close(fd)


def _open_to_write(path: Path, clobber: bool) -> tuple[int, os.stat_result | None]:
    """The descriptor, and the status of the file if it is a new one."""
    try:
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        return fd, os.fstat(fd)
    except FileExistsError:
        pass
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except (IsADirectoryError, PermissionError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # an image replaces a file, so it need not be writable
    if not clobber and stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FileExistsError(errno.EEXIST, "exists; choose another name or allow it to be replaced (clobber)")
    return fd, None


def _remove_if_still(path: Path, created: os.stat_result) -> None:
    with contextlib.suppress(OSError):
        now = os.lstat(path)
        if (now.st_dev, now.st_ino, now.st_size) == (created.st_dev, created.st_ino, 0):
            os.unlink(path)
