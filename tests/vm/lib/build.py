# SPDX-License-Identifier: GPL-2.0-only
"""Builds the project for the guests, in build/vm of the project."""

import filecmp
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

from . import debug
from .base import BUILD, GUEST, PROJECT, Error, in_namespaces, locked, need_root, say, tail

PARTS = ("all", "module", "user", "programs", "none")


def copy_sources(target):
    """Update Kbuild and kmod/ in `target`, and keep the files that make has made there.

    A file that did not change keeps its time, so that make has nothing to do;
    one that did gets the present time, however old its source's is.
    """
    target.mkdir(parents=True, exist_ok=True)
    sources = [PROJECT / "Kbuild"]
    sources += [path for path in (PROJECT / "kmod").rglob("*") if path.is_file()]
    wanted = {str(path.relative_to(PROJECT)) for path in sources}
    listing = target / ".sources"
    if listing.exists():
        for old in set(json.loads(listing.read_text("utf-8"))) - wanted:
            (target / old).unlink(missing_ok=True)
    listing.write_text(json.dumps(sorted(wanted)), "utf-8")
    for name in wanted:
        copy = target / name
        if copy.exists() and filecmp.cmp(PROJECT / name, copy, shallow=False):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PROJECT / name, copy)


def show_progress(what, log, done):
    """Report that something is being built if that takes long, and its progress."""
    if done.wait(3):
        return
    names = {"user": "commands, library and tests", "programs": "commands and library",
             "module": f"module ({log.stem})"}
    say(f"building: {names.get(what, what)}")
    started = time.monotonic()
    while not done.wait(20):
        steps = re.findall(r"^\[(\d+)/(\d+)\]", log.read_text("utf-8", "replace"), re.M)
        if steps and steps[-1][0] != "0":
            made, of = map(int, steps[-1])
            left = (time.monotonic() - started) / made * (of - made)
            say(f"  {made} of {of} files, some {max(1, round(left / 10)) * 10} s left")


def script(root, what, log, *arguments, **environment):
    """Run guest/build.sh; print its output if it failed or warned."""
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("", "utf-8")
    done = threading.Event()
    watcher = threading.Thread(target=show_progress, args=(what, log, done), daemon=True)
    watcher.start()
    try:
        status = in_namespaces(["env", *(f"{k}={v}" for k, v in environment.items()),
                                "sh", GUEST / "build.sh", root.tree, PROJECT, what, *arguments], log)
    finally:
        done.set()
        watcher.join()
    text = log.read_text("utf-8", "replace")
    if status:
        raise Error(f"building failed; the whole output is in {log}:\n{tail(log, 60)}")
    # Warnings that come from Debian's headers, not from the project.
    quiet = ("Skipping BTF generation", "the compiler differs from")
    noise = any("warning:" in line for line in text.splitlines()
                if not any(part in line for part in quiet))
    if noise:
        sys.stderr.write(text)


def build_module(root, kernel):
    if not (PROJECT / "Kbuild").exists():
        say(f"no Kbuild in {PROJECT}: no cr.ko built")
        shutil.rmtree(BUILD / f"{kernel}.tree", ignore_errors=True)
        return
    target = BUILD / kernel
    release = root.release(kernel)
    # make does not notice headers that changed under the same name.
    stamp = target / ".built-with"
    own = [debug.get(root)] if kernel in debug.NAMES else []
    made_with = " ".join([root.path.name, *(path.name for path in own), release])
    if target.exists() and (not stamp.exists() or stamp.read_text("ascii") != made_with):
        shutil.rmtree(target)
        shutil.rmtree(BUILD / f"{kernel}.tree", ignore_errors=True)
    copy_sources(target)
    stamp.write_text(made_with, "ascii")
    more = {"CR_GCOV": "y"} if kernel == "debug-gcov" else {}
    script(root, "module", BUILD / f"{kernel}.log", release, f"build/vm/{kernel}", *own, **more)


def build_user(root, what):
    """@what: "user", or "programs": without tests and benchmarks; existing ones stay"""
    if not (PROJECT / "CMakeLists.txt").exists():
        say(f"no CMakeLists.txt in {PROJECT}: no commands and library built")
        shutil.rmtree(BUILD / "user.tree", ignore_errors=True)
        return
    stamp = BUILD / "user" / ".built-with"
    if stamp.parent.exists() and (not stamp.exists() or
                                  stamp.read_text("ascii") != root.path.name):
        shutil.rmtree(stamp.parent)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.write_text(root.path.name, "ascii")
    script(root, what, BUILD / "user.log")
    with locked(BUILD / ".lock-pack", "packing"):
        shutil.rmtree(BUILD / "user.tree", ignore_errors=True)
        (BUILD / "user.tree.part").rename(BUILD / "user.tree")


def pack(kernel):
    """Pack everything that was built into one small squashfs, which is laid over the guest's root."""
    image = BUILD / f"{kernel}.squashfs"
    trees = [tree for tree in (BUILD / "user.tree", BUILD / f"{kernel}.tree") if tree.is_dir()]
    state = hashlib.sha256()
    for tree in trees:
        for path in sorted(tree.rglob("*")):
            info = path.lstat()
            link = os.readlink(path) if path.is_symlink() else ""
            content = hashlib.sha256(path.read_bytes()).hexdigest() \
                if path.is_file() and not link else ""
            state.update(f"{path.relative_to(tree)} {info.st_mode} {link} {content}\n".encode())
    stamp = BUILD / f"{kernel}.squashfs.made-from"
    if image.exists() and stamp.exists() and stamp.read_text("ascii") == state.hexdigest():
        return image
    joined = BUILD / f"{kernel}.joined"
    shutil.rmtree(joined, ignore_errors=True)
    joined.mkdir(parents=True)
    joined.chmod(0o755)
    for tree in trees:
        shutil.copytree(tree, joined, symlinks=True, dirs_exist_ok=True)
    part = BUILD / f"{kernel}.squashfs.part"
    part.unlink(missing_ok=True)
    result = subprocess.run(
        ["mksquashfs", str(joined), str(part), "-comp", "lz4", "-noappend", "-no-progress",
         "-quiet", "-all-root"], check=False, capture_output=True, text=True)
    if result.returncode:
        raise Error(f"packing what was built failed:\n{result.stderr}")
    shutil.rmtree(joined)
    # Rename, do not overwrite: a running guest keeps its old file.
    part.rename(image)
    stamp.write_text(state.hexdigest(), "ascii")
    return image


class Built:
    """The files that a guest boots with."""

    def __init__(self, root, kernel):
        self.root = root
        self.kernel = kernel
        self.boot = root.boot(kernel)
        self.extra = BUILD / f"{kernel}.squashfs"
        tree = BUILD / f"{kernel}.tree/usr/lib/modules" / root.release(kernel)
        self.module = (tree / "updates/cr.ko").exists()


def build(root, kernel, parts="all"):
    """Separate locks: a caller that needs only the module does not wait for a build of the user part."""
    BUILD.mkdir(parents=True, exist_ok=True)
    if parts != "none":
        need_root("building")
    if parts in ("all", "user", "programs"):
        with locked(BUILD / ".lock-user", "building the user part"):
            build_user(root, "programs" if parts == "programs" else "user")
    with locked(BUILD / f".lock-{kernel}", f"building the module for {kernel}"):
        if parts in ("all", "module", "programs"):
            build_module(root, kernel)
        with locked(BUILD / ".lock-pack", "packing"):
            if parts != "none" or not (BUILD / f"{kernel}.squashfs").exists():
                pack(kernel)
        return Built(root, kernel)
