# SPDX-License-Identifier: GPL-2.0-only
"""The guest root and the kernels' boot files, made once and kept in the cache.

Both are named by a hash of what they are made from, made under a temporary name
and renamed when complete: what has its final name is whole.
"""

import os
import shutil
import subprocess
from pathlib import Path

from . import debug
from .base import (CACHE, GUEST, HERE, Error, digest, in_namespaces, locked, meaningful,
                   need_root, say, tail)

PACKAGES = HERE / "packages.txt"
KERNELS = HERE / "kernels.txt"

# command -> Debian package
HOST_NEEDS = {
    "debootstrap": "debootstrap",
    "mksquashfs": "squashfs-tools",
    "ip": "iproute2",
    "unshare": "util-linux",
    "xz": "xz-utils",
    "strip": "binutils",
    "ssh": "openssh-client",
    "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring",
}


def host_needs():
    missing = [package for need, package in HOST_NEEDS.items()
               if not (os.path.exists(need) if need.startswith("/") else shutil.which(need))]
    if not missing:
        return
    packages = " ".join(missing)
    if not shutil.which("apt-get"):
        raise Error(f"missing on this machine: {packages} (names of Debian's packages); "
                    "install them and run this again")
    need_root(f"installing {packages}")
    say(f"installing on this machine with apt-get: {packages} (up to 100 MB, under a minute)")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    install = ["apt-get", "-q", "-y", "--no-install-recommends", "install", *missing]
    for command in (["apt-get", "-q", "update"], install):
        result = subprocess.run(command, env=environment, text=True, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode:
        raise Error(f"apt-get could not install {packages}:\n{result.stdout[-2000:]}")


def root_key():
    return digest(*map(meaningful, (PACKAGES, KERNELS, GUEST / "make-root.sh")))


def boot_key():
    files = (GUEST / name for name in ("make-boot.sh", "extract-vmlinux", "init", "agent.c"))
    return digest(root_key(), *(file.read_text("utf-8") for file in files))


class Root:
    """A guest root in the cache."""

    def __init__(self, path):
        self.path = path
        self.tree = path / "root"
        self.image = path / "root.squashfs"
        self.key = path / "id_ed25519"
        lines = (path / "kernels").read_text("ascii").split("\n")
        self.releases = dict(line.split() for line in lines if line)

    def qemu(self):
        """The command to run QEMU from the guest root, with its libraries:
        the same on every host."""
        libraries = self.tree / "usr/lib/x86_64-linux-gnu"
        return ["env", f"QEMU_MODULE_DIR={libraries / 'qemu'}",
                str(self.tree / "usr/lib64/ld-linux-x86-64.so.2"),
                "--library-path", str(libraries),
                str(self.tree / "usr/bin/qemu-system-x86_64"),
                "-L", str(self.tree / "usr/share/qemu"), "-L", str(self.tree / "usr/share/seabios")]

    def release(self, kernel):
        return debug.release(self) if kernel in debug.NAMES else self.releases[kernel]

    def boot(self, kernel):
        """Directory with vmlinux and initramfs.cpio; made if missing."""
        name, own = kernel, []
        if kernel in debug.NAMES:
            own = [debug.get(self)]
            name = f"debug-{debug.key(self)}"
        final = CACHE / f"boot-{boot_key()}" / name
        if final.is_dir():
            return final
        need_root("making boot files")
        with locked(CACHE / ".lock-boot", "the boot files"):
            if final.is_dir():
                return final
            part = final.with_name(f"{name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            log = part / "log"
            status = in_namespaces(["sh", GUEST / "make-boot.sh", self.tree,
                                    self.release(kernel), GUEST, part, *own], log)
            if status:
                raise Error(f"making boot files of {kernel} failed ({log}):\n{tail(log)}")
            part.rename(final)
        return final


def kernel_names():
    """The kernels of the guest root; debug.NAMES are further kernels."""
    return [line.split()[0] for line in meaningful(KERNELS).splitlines()]


def have(kernel):
    """Whether a node can boot this kernel without long preparations."""
    path = CACHE / f"root-{root_key()}"
    return path.is_dir() and (kernel not in debug.NAMES or debug.folder(Root(path)).is_dir())


def get_root():
    """The guest root for the current recipe; made if missing."""
    final = CACHE / f"root-{root_key()}"
    if final.is_dir():
        return Root(final)
    host_needs()
    need_root("making the guest root")
    CACHE.mkdir(parents=True, exist_ok=True)
    with locked(CACHE / ".lock-root", "the guest root"):
        if final.is_dir():
            return Root(final)
        part = Path(f"{final}.part")
        again = "going on with" if part.is_dir() else "making"
        say(f"{again} the guest root in {CACHE} (once; about 5 minutes, 1 GB fetched, 6 GB kept)")
        part.mkdir(exist_ok=True)
        debs = CACHE / "debs"
        debs.mkdir(exist_ok=True)
        log = part / "log"
        status = in_namespaces(["sh", GUEST / "make-root.sh", part, debs, PACKAGES, KERNELS], log)
        if status:
            raise Error(f"making the guest root failed; run this again to go on where it "
                        f"stopped, or remove {part} to start over. End of {log}:\n{tail(log)}")
        part.rename(final)
        say("guest root ready")
    return Root(final)


def clean():
    """Remove roots, boot files and debugging kernels of other recipes. Returns their names."""
    keep = {f"root-{root_key()}", f"root-{root_key()}.part", f"boot-{boot_key()}"}
    removed = []
    need_root("cleaning the cache")
    with locked(CACHE / ".lock-root", "the guest root"):
        # Only the root tells which debugging kernel belongs to the recipe.
        root = CACHE / f"root-{root_key()}"
        if root.is_dir():
            name = debug.folder(Root(root)).name
            keep |= {name, f"{name}.part"}
        for pattern in ("root-*", "boot-*", *(["kernel-*"] if root.is_dir() else [])):
            for path in CACHE.glob(pattern):
                if path.name not in keep:
                    shutil.rmtree(path)
                    removed.append(path.name)
    return removed
