# SPDX-License-Identifier: GPL-2.0-only
"""Prints a C program that compiles only if the Python module declares what libcr.h declares: types, constants, versions."""

import ctypes

import reprise
from reprise import _library

STRUCTURES = {"cr_checkpoint_args": _library.CheckpointArgs, "cr_restart_args": _library.RestartArgs,
              "cr_pause_args": _library.PauseArgs, "cr_rstrt_relocate_pair": _library.RelocatePair,
              "cr_rstrt_fd": _library.RestartFd, "cr_rstrt_kept_one": _library.RestartKept,
              "cr_image_run": _library.ImageRun}
SCOPES = {"PROCESS": "PROC", "GROUP": "PGRP", "SESSION": "SESS", "TREE": "TREE"}
# The C types of results and arguments, as far as their sizes and kinds say.
TYPES = {ctypes.c_int: "int", ctypes.c_uint: "unsigned", ctypes.c_long: "long", ctypes.c_ulong: "unsigned long",
         ctypes.c_uint64: "uint64_t"}


def same(left, right):
    print(f'_Static_assert({left} == {right}, "{left} is not {right}");')


def pointer(kind):
    return kind in (ctypes.c_void_p, ctypes.c_char_p) or hasattr(kind, "contents")


print('#include <string.h>\n#include "libcr.h"')
for name, structure in STRUCTURES.items():
    same(f"sizeof(struct {name})", ctypes.sizeof(structure))
    for field, kind in structure._fields_:
        same(f"offsetof(struct {name}, {field})", getattr(structure, field).offset)
        same(f"sizeof(((struct {name} *)0)->{field})", ctypes.sizeof(kind))
same("offsetof(struct cr_rstrt_relocate, path)", _library.relocate_type(2).path.offset)
same("offsetof(struct cr_rstrt_fds, fd)", _library.fds_type(2).fd.offset)
same("offsetof(struct cr_rstrt_kept, memory)", _library.kept_type(2).memory.offset)
for name, value in vars(_library).items():
    if name.isupper() and isinstance(value, int):
        same(f"CR_{name}", value)
for code in reprise.Code:
    same(f"CR_{code.name}", code.value)
same("CR_MAX_ERRCODE - CR_MIN_ERRCODE - 1", len(reprise.Code))
for scope in reprise.Scope:
    same(f"CR_SCOPE_{SCOPES[scope.name]}", scope.value)

# Each function can be called with arguments of the declared types. Pointers are compared in number and place only.
print("int main(void)\n{")
print(f'\t_Static_assert(sizeof CR_REPRISE_VERSION == {len(reprise.__version__) + 1}, "version");')
for name, (result, arguments) in _library.PROTOTYPES.items():
    words = ", ".join("(void *)0" if pointer(kind) else f"({TYPES[kind]})0" for kind in arguments)
    print(f"\t(void)sizeof(({name}({words}), 0));")
    if result is not None and not pointer(result):
        print(f'\t_Static_assert(_Generic({name}({words}), {TYPES[result]}: 1, default: 0), "{name} returns another type");')
print(f'\treturn strcmp(CR_REPRISE_VERSION, "{reprise.__version__}");\n}}')
