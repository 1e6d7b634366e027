# SPDX-License-Identifier: LGPL-2.1-or-later
"""libcr.so.0: its structures, constants and functions, each declared once as in libcr.h."""

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_long, c_size_t, c_ssize_t, c_uint, c_uint64, c_ulong, c_void_p

SONAME = "libcr.so.0"
VERSION = "0.1.0"  # CR_REPRISE_VERSION
CHECKPOINT_ARGS_VERSION = 2
RESTART_ARGS_VERSION = 3
PAUSE_ARGS_VERSION = 1

DEST_CWD = -4096
CHKPT_PROHIBIT_SELF = 0x1
CHKPT_PTRACED_SKIP = 0x4
CHKPT_PTRACER_SKIP = 0x8
CHKPT_NO_SYNC = 0x20000
CHKPT_DELTA = 0x40000
RSTRT_RESTORE_PID = 0x2
RSTRT_RESTORE_PGID = 0x4
RSTRT_RESTORE_SID = 0x8
RSTRT_DEAD_SOCKETS = 0x10000
RSTRT_REWIND_FILES = 0x20000
RSTRT_TRUST = 0x40000
RSTRT_PID_NAMESPACE = 0x80000
RSTRT_KEEP_SHARED = 0x100000
RSTRT_RESTORE_SHARED = 0x200000
PAUSE_REWIND_FILES = 0x20000
PAUSE_NO_TRACKING = 0x40000
PAUSE_KEEP_SHARED = 0x100000
PAUSE_RESTORE_SHARED = 0x200000
SNAPSHOT_CALLBACKS = 0x1
SNAPSHOT_REWIND_FILES = 0x2
SNAPSHOT_KEEP_SHARED = 0x4
SNAPSHOT_RESTORE_SHARED = 0x8


class CheckpointArgs(ctypes.Structure):
    """struct cr_checkpoint_args"""
    _fields_ = [("cr_version", c_int), ("cr_scope", c_int), ("cr_target", c_int), ("cr_fd", c_int), ("cr_signal", c_int),
                ("cr_timeout", c_uint), ("cr_flags", c_uint), ("cr_parent", c_char_p), ("cr_compress", c_char_p)]


class RestartArgs(ctypes.Structure):
    """struct cr_restart_args"""
    _fields_ = [("cr_version", c_int), ("cr_fd", c_int), ("cr_signal", c_int), ("cr_flags", c_uint), ("cr_relocate", c_void_p),
                ("cr_fds", c_void_p), ("cr_copies", c_uint), ("cr_kept", c_void_p)]


class PauseArgs(ctypes.Structure):
    """struct cr_pause_args"""
    _fields_ = [("cr_version", c_int), ("cr_target", c_int), ("cr_fd", c_int), ("cr_signal", c_int), ("cr_timeout", c_uint),
                ("cr_flags", c_uint)]


class RelocatePair(ctypes.Structure):
    """struct cr_rstrt_relocate_pair"""
    _fields_ = [("oldpath", c_char_p), ("newpath", c_char_p)]


class RestartFd(ctypes.Structure):
    """struct cr_rstrt_fd"""
    _fields_ = [("copy", c_uint), ("fd", c_int), ("with", c_int)]


class RestartKept(ctypes.Structure):
    """struct cr_rstrt_kept_one"""
    _fields_ = [("name", c_char_p), ("with", c_int)]


class ImageRun(ctypes.Structure):
    """struct cr_image_run"""
    _fields_ = [("addr", c_uint64), ("len", c_uint64)]


def relocate_type(count: int) -> type[ctypes.Structure]:
    """struct cr_rstrt_relocate with room for `count` pairs: in C its last member has no fixed length."""
    return type("Relocate", (ctypes.Structure,), {"_fields_": [("count", c_uint), ("path", RelocatePair * count)]})


def fds_type(count: int) -> type[ctypes.Structure]:
    """struct cr_rstrt_fds with room for `count` descriptors."""
    return type("Fds", (ctypes.Structure,), {"_fields_": [("count", c_uint), ("fd", RestartFd * count)]})


def kept_type(count: int) -> type[ctypes.Structure]:
    """struct cr_rstrt_kept with room for `count` pieces of memory."""
    return type("Kept", (ctypes.Structure,), {"_fields_": [("count", c_uint), ("memory", RestartKept * count)]})


_HANDLE = POINTER(c_ulong)  # cr_checkpoint_handle_t *, and those of the other kinds
_TIMEVAL = c_void_p  # struct timeval *; here always NULL: no limit

PROTOTYPES = {
    # name: (result, arguments)
    "cr_strerror": (c_char_p, (c_int,)),
    "cr_last_error": (c_char_p, ()),
    "cr_init": (c_int, ()),
    "cr_enter_cs": (c_int, (c_int,)),
    "cr_tryenter_cs": (c_int, (c_int,)),
    "cr_leave_cs": (c_int, (c_int,)),
    "cri_init_checkpoint_args_t": (c_int, (c_int, POINTER(CheckpointArgs))),
    "cr_request_checkpoint": (c_int, (POINTER(CheckpointArgs), _HANDLE)),
    "cr_wait_checkpoint": (c_int, (_HANDLE, _TIMEVAL)),
    "cr_log_checkpoint": (c_int, (_HANDLE, c_uint, c_char_p)),
    "cr_reap_checkpoint": (c_int, (_HANDLE,)),
    "cri_init_restart_args_t": (c_int, (c_int, POINTER(RestartArgs))),
    "cr_request_restart": (c_int, (POINTER(RestartArgs), _HANDLE)),
    "cr_wait_restart": (c_int, (_HANDLE, _TIMEVAL)),
    "cr_log_restart": (c_int, (_HANDLE, c_uint, c_char_p)),
    "cr_restart_pids": (c_int, (_HANDLE, POINTER(c_int), c_uint)),
    "cr_reap_restart": (c_int, (_HANDLE,)),
    "cri_init_pause_args_t": (c_int, (c_int, POINTER(PauseArgs))),
    "cr_request_pause": (c_int, (POINTER(PauseArgs), _HANDLE)),
    "cr_wait_pause": (c_int, (_HANDLE, _TIMEVAL)),
    "cr_log_pause": (c_int, (_HANDLE, c_uint, c_char_p)),
    "cr_reap_pause": (c_int, (_HANDLE,)),
    "cr_snapshot_take": (c_int, (c_int, c_uint, POINTER(c_ulong))),
    "cr_snapshot_load": (c_int, (c_int, c_int, c_uint, POINTER(c_ulong))),
    "cr_snapshot_rollback": (c_int, (c_ulong,)),
    "cr_snapshot_drop": (c_int, (c_ulong,)),
    "cr_generation": (POINTER(c_uint64), ()),
    "cr_kept_alloc": (c_int, (c_char_p, c_size_t, c_uint, POINTER(c_void_p))),
    "cr_kept_attach": (c_int, (c_char_p, c_int, POINTER(c_void_p), POINTER(c_size_t))),
    "cr_kept_copy": (c_int, (c_char_p,)),
    "cr_kept_fd": (c_int, (c_char_p,)),
    "cr_kept_free": (c_int, (c_char_p,)),
    "cr_image_open": (c_int, (c_char_p, POINTER(c_void_p))),
    "cr_image_close": (None, (c_void_p,)),
    "cr_image_pid": (c_int, (c_void_p,)),
    "cr_image_name": (c_char_p, (c_void_p,)),
    "cr_image_threads": (c_int, (c_void_p,)),
    "cr_image_tid": (c_int, (c_void_p, c_int)),
    "cr_image_runs": (c_long, (c_void_p,)),
    "cr_image_get_run": (c_int, (c_void_p, c_long, POINTER(ImageRun))),
    "cr_image_read": (c_ssize_t, (c_void_p, c_uint64, c_void_p, c_size_t)),
    "cr_image_verify": (c_int, (c_void_p,)),
    # The text must be freed, so its address is needed: c_char_p would be converted to bytes, and the address lost.
    "cr_image_json": (c_void_p, (c_void_p,)),
}


def _declare(library: ctypes.CDLL) -> None:
    for name, (result, arguments) in PROTOTYPES.items():
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{SONAME} has no function {name}: it is older than this module (Reprise {VERSION}); "
                              "install both from the same sources") from None
        function.restype, function.argtypes = result, arguments


def _check_version(library: ctypes.CDLL) -> None:
    """libcr has no function that returns its version, but it refuses structures of another version."""
    for kind, version, structure in (("checkpoint", CHECKPOINT_ARGS_VERSION, CheckpointArgs),
                                     ("restart", RESTART_ARGS_VERSION, RestartArgs), ("pause", PAUSE_ARGS_VERSION, PauseArgs)):
        if getattr(library, f"cri_init_{kind}_args_t")(version, ctypes.byref(structure())) != 0:
            raise ImportError(f"{SONAME} does not know version {version} of the arguments of a {kind}: it is of another "
                              f"version than this module (Reprise {VERSION}); install both from the same sources")


def _load() -> tuple[ctypes.CDLL, ctypes.PyDLL]:
    try:
        library = ctypes.CDLL(SONAME, use_errno=True)
    except OSError as error:
        raise ImportError(f"Reprise's library cannot be loaded ({error}): install it and run ldconfig, or set LD_LIBRARY_PATH "
                          "to its directory") from error
    # A second object for the same library, because ctypes decides by object whether a call releases the lock.
    same = ctypes.PyDLL(SONAME, handle=library._handle, use_errno=True)  # pylint: disable=protected-access
    _declare(library)
    _declare(same)
    _check_version(library)
    return library, same


#: `releasing` lets other threads of the interpreter run during a call, `holding` does not: it keeps the interpreter's lock.
#: The package's description says which calls keep it, and why.
releasing, holding = _load()
