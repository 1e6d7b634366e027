# SPDX-License-Identifier: GPL-2.0-only
"""Starts one guest: QEMU's command line, the guest's own files, the choice of KVM."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import debug
from .base import CACHE, PROJECT, Error, die_with_parent, locked

# Messages of warning level and above go to the console. Errors that the guest cannot survive end it at once.
KERNEL_LINE = ("console=ttyS0 loglevel=5 oops=panic panic=-1 softlockup_panic=1 "
               "hung_task_panic=1 sysctl.kernel.panic_on_rcu_stall=1 mitigations=off nokaslr "
               "random.trust_cpu=on tsc=reliable no_timer_check")
# The debugging kernel's checks make it several times slower. A slow guest would look like a lockup, and its
# measurement of the TSC may be far off, and with it all time limits of the tests.
DEBUG_LINE = " watchdog_thresh=60 clocksource=acpi_pm"


def cpio_entry(name, content, number, mode=0o100644):
    raw = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(raw), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + raw
    body = head + b"\0" * (-len(head) % 4) + content
    return body + b"\0" * (-len(body) % 4)


def initramfs(base, target, files):
    """Append `files` (name -> bytes), the configuration of one guest, to a ready initramfs."""
    with open(target, "wb") as out:
        with open(base, "rb") as source:
            shutil.copyfileobj(source, out)
        out.write(b"\0" * (-out.tell() % 512))
        for number, (name, content) in enumerate(sorted(files.items()), 1):
            out.write(cpio_entry(name, content, number))
        out.write(cpio_entry("TRAILER!!!", b"", 0))


def quote(value):
    return "'" + str(value).replace("'", "'\\''") + "'"


def conf(mode, built, hostname, address="", swap=0, share=None, **more):
    """The shell variables that guest/init and agent.c read."""
    values = {"mode": mode, "hostname": hostname, "address": address,
              "swap": swap or "", "share": "yes" if share else "",
              "module": "yes" if built.module else "", **more}
    return "".join(f"export {k}={quote(v)}\n" for k, v in values.items()).encode()


def comma(path):
    return str(path).replace(",", ",,")


# A clock that counts instructions: the guest's time advances by one nanosecond with each instruction, and jumps when all
# processors wait. They take turns, so that what happens is always the same.
COUNTED = ["-icount", "shift=0,sleep=off,align=off"]


def machine(kvm, counted=False):
    if kvm:
        return ["-machine", "q35,smm=off,sata=off,usb=off,hpet=off,accel=kvm", "-cpu", "host"]
    # Kernels prefer byte-wise string instructions where a CPU offers them. When emulated, they make clearing and
    # copying pages about four times slower, so they are disabled.
    return ["-machine", "q35,smm=off,sata=off,usb=off,hpet=off",
            "-accel", f"tcg,thread={'single' if counted else 'multi'}", *(COUNTED if counted else []),
            "-cpu", "max,la57=off,erms=off,fsrm=off"]


def command(built, initrd, console, *, cpus, mem, kvm, share=None, swap_fd=None,
            ports=(), net=None, terminal=None, counted=False):
    """QEMU's command line. `ports`: chardev back ends of virtio-serial ports 1, 2 …; `counted`: its clock counts
    instructions"""
    line = [*built.root.qemu(), "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", *machine(kvm, counted), "-smp", str(cpus), "-m", str(mem),
            "-rtc", f"base=utc,clock={'vm' if counted else 'host'}",
            "-kernel", str(built.boot / "vmlinux"), "-initrd", str(initrd),
            "-append", KERNEL_LINE + (DEBUG_LINE if built.kernel in debug.NAMES else ""),
            "-chardev", f"file,id=console,path={comma(console)}",
            "-serial", "chardev:console",
            # virtio-serial must be the first virtio device: the guest names the ports by its number.
            "-device", "virtio-serial-pci,id=serial"]
    drives = [(built.root.image, "read-only=on"), (built.extra, "read-only=on")]
    if swap_fd is not None:
        line += ["-add-fd", f"fd={swap_fd},set=1"]
        drives.append(("/dev/fdset/1", "read-only=off"))
    for number, (path, access) in enumerate(drives):
        line += ["-blockdev", f"driver=file,node-name=d{number},filename={comma(path)},"
                              f"{access},locking=off",
                 "-device", f"virtio-blk-pci,drive=d{number}"]
    for tag, path in (("project", PROJECT), ("share", share)):
        if path:
            line += ["-virtfs", f"local,id={tag},mount_tag={tag},path={comma(path)},"
                                "security_model=passthrough,multidevs=remap"]
    if terminal:
        line += ["-chardev", f"{terminal},id=terminal",
                 "-device", "virtconsole,chardev=terminal,nr=0"]
    for number, back_end in enumerate(ports, 1):
        line += ["-chardev", f"{back_end},id=p{number}",
                 "-device", f"virtserialport,chardev=p{number},nr={number},name=vm{number}"]
    if net:
        line += ["-netdev", f"tap,id=net,ifname={net['tap']},script=no,downscript=no",
                 "-device", f"virtio-net-pci,netdev=net,mac={net['mac']}"]
    return line


def swap_file(megabytes):
    """An unlinked file in the cache: it vanishes with QEMU, however QEMU ends."""
    if not megabytes:
        return None
    fd = os.open(CACHE, os.O_TMPFILE | os.O_RDWR, 0o600)
    os.ftruncate(fd, megabytes << 20)
    return fd


def boots_with_kvm(built):
    """Boot a guest with KVM up to its first program, which prints a message and powers off."""
    with tempfile.TemporaryDirectory(prefix="vm-kvm-") as folder:
        console = Path(folder) / "console"
        initrd = Path(folder) / "initrd"
        # Without drives, init would stop with an error; it prints the expected message first.
        initramfs(built.boot / "initramfs.cpio", initrd,
                  {"vm/conf": b"probe=yes\n"})
        line = [*built.root.qemu(), "-nodefaults", "-no-user-config", "-display", "none",
                "-no-reboot", *machine(True), "-smp", "2", "-m", "256",
                "-kernel", str(built.boot / "vmlinux"), "-initrd", str(initrd),
                "-append", KERNEL_LINE, "-chardev", f"file,id=console,path={console}",
                "-serial", "chardev:console"]
        try:
            subprocess.run(line, timeout=10, check=False, stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           preexec_fn=die_with_parent)
        except subprocess.TimeoutExpired:
            return False
        return console.exists() and b"vm-probe-ok" in console.read_bytes()


def use_kvm(built):
    """Whether KVM works here; tested once per boot of this machine."""
    forced = os.environ.get("REPRISE_KVM")
    if forced in ("0", "1"):
        return forced == "1"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    answer = CACHE / f"kvm-{boot_id}"
    with locked(CACHE / ".lock-kvm", "the KVM probe"):
        if not answer.exists():
            for old in CACHE.glob("kvm-*"):
                old.unlink()
            answer.write_text("yes" if boots_with_kvm(built) else "no", "ascii")
        return answer.read_text("ascii") == "yes"


def check_size(cpus, mem):
    if cpus < 1 or cpus > 64:
        raise Error(f"--cpus {cpus}: from 1 to 64")
    if mem < 256:
        raise Error(f"--mem {mem}: at least 256 (megabytes)")
