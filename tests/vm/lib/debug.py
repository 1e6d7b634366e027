# SPDX-License-Identifier: GPL-2.0-only
"""The debugging kernel: built from the source of Debian's kernel, once, and kept in the cache.

It stands apart from the guest root, which it only uses the compiler of: whoever does not ask for
it pays nothing for it. Named by a hash of what it is made from, like root and boot files.
"""

import re
from pathlib import Path

from .base import (CACHE, GUEST, Error, digest, in_namespaces, locked, meaningful, need_root,
                   say, tail)

# Both are the same kernel; for the second, the module is built with coverage counters (gcov).
NAMES = ("debug", "debug-gcov")
CONFIG = GUEST / "debug.config"
SCRIPT = GUEST / "make-kernel.sh"
OF = "6.12"  # the root's kernel whose source is used


def version(root):
    """The upstream version of the root's kernel, for instance 6.12.48."""
    return re.match(r"[0-9.]+[0-9]", root.release(OF)).group()


def key(root):
    lines = CONFIG.read_text("utf-8").splitlines()
    wanted = [line for line in lines if re.match(r"(# )?CONFIG_", line)]
    return digest(version(root), "\n".join(wanted), meaningful(SCRIPT))


def folder(root):
    return CACHE / f"kernel-{key(root)}"


def get(root):
    """Directory with vmlinux, release and linux/ (to build modules against); built if missing."""
    final = folder(root)
    if final.is_dir():
        return final
    need_root("making the debugging kernel")
    with locked(CACHE / ".lock-kernel", "the debugging kernel"):
        if final.is_dir():
            return final
        part = Path(f"{final}.part")
        again = "going on with" if part.is_dir() else "making"
        say(f"{again} the debugging kernel in {CACHE} (once; some 20 minutes on two processors, "
            "3 GB needed meanwhile, 400 MB kept)")
        part.mkdir(exist_ok=True)
        debs = CACHE / "debs"
        debs.mkdir(exist_ok=True)
        log = part / "log"
        status = in_namespaces(["sh", SCRIPT, root.tree, part, debs, version(root), CONFIG], log)
        if status:
            raise Error(f"making the debugging kernel failed; run this again to go on where it "
                        f"stopped, or remove {part} to start over. End of {log}:\n{tail(log)}")
        part.rename(final)
        say("debugging kernel ready")
    return final


def release(root):
    return (get(root) / "release").read_text("ascii").strip()
