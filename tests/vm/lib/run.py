# SPDX-License-Identifier: GPL-2.0-only
"""`vm run` and `vm shell`: one node for one command."""

import fcntl
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time
import tty
from pathlib import Path

from . import debug, qemu
from .base import (KERNEL_COMPLAINED, NO_STATUS, RUN, TIMED_OUT, Error, die_with_parent,
                   locked, say)
from .console import Console

BOOT_SECONDS = 180
DEBUG_BOOT_SECONDS = 900
POWER_OFF_SECONDS = 20


class Folder:
    """A directory for one guest's files, locked while this process lives."""

    def __init__(self):
        base = RUN / "runs"
        base.mkdir(parents=True, exist_ok=True)
        with locked(RUN / ".lock", "starting"):
            self.remove_stale(base)
            self.path = base / str(os.getpid())
            shutil.rmtree(self.path, ignore_errors=True)
            self.path.mkdir()
            self.lock = open(self.path / "lock", "w", encoding="ascii")
            fcntl.flock(self.lock, fcntl.LOCK_EX)

    @staticmethod
    def remove_stale(base):
        for path in base.iterdir():
            try:
                with open(path / "lock", "w", encoding="ascii") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            except OSError:
                pass
            shutil.rmtree(path, ignore_errors=True)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()


class Stopped(Exception):
    """Raised when a signal asks this process to stop."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


def stop(number, _frame):
    raise Stopped(number)


def same_file(a, b):
    one, two = os.fstat(a), os.fstat(b)
    return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]


class Guest:
    """A running QEMU, killed when this process dies, and its console."""

    def __init__(self, folder, built, files, options, channels, **more):
        self.console = Console(folder.path / "console")
        initrd = folder.path / "initrd"
        qemu.initramfs(built.boot / "initramfs.cpio", initrd, files)
        swap = qemu.swap_file(options.swap)
        fds = [fd for fd in (*[c.fileno() for c in channels], swap) if fd is not None]
        counted = options.clock == "instructions"
        line = qemu.command(built, initrd, self.console.path, cpus=options.cpus,
                            mem=options.mem, kvm=not counted and qemu.use_kvm(built), share=options.share,
                            swap_fd=swap, counted=counted, **more)
        self.log = folder.path / "qemu.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, pass_fds=fds,
                                            preexec_fn=die_with_parent)
        for channel in channels:
            channel.close()
        if swap is not None:
            os.close(swap)

    def end(self, seconds):
        """Wait until the guest powers off; kill it when that takes too long."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def verdict(guest, status, options):
    """The exit status: complaints of the kernel take precedence."""
    if options.console:
        shutil.copyfile(guest.console.path, options.console)
    complaint = guest.console.complaint()
    if complaint:
        print(complaint, file=sys.stderr)
        said = "" if status is None else f" (the command's status was {status})"
        say(f"the guest's kernel complained, see above{said}")
        return KERNEL_COMPLAINED
    if status is None:
        print(guest.console.tail(), guest.log.read_text("utf-8", "replace"),
              sep="\n", file=sys.stderr)
        say("the guest ended without the command's status; end of its console above")
        return NO_STATUS
    return status


class NoBoot(Exception):
    """The command did not start, or not in time."""


def relay(streams, control, timeout, boot_seconds):
    """Forward output until the guest ends. Returns the command's status, or None.

    `streams`: pairs of a socket and the descriptor its data goes to. Raises NoBoot, or
    TimeoutError `timeout` seconds from now.
    """
    selector = selectors.DefaultSelector()
    for source, target in streams:
        selector.register(source, selectors.EVENT_READ, target)
    selector.register(control, selectors.EVENT_READ, None)
    begin = time.monotonic()
    over = begin + timeout if timeout else float("inf")
    said, ended = b"", None
    # Output and status arrive on separate ports: only the end of QEMU ends both.
    while selector.get_map():
        now = time.monotonic()
        limits = [(over, TimeoutError)]
        if b"start\n" not in said:
            limits.append((begin + boot_seconds, NoBoot))
        if ended:
            limits = [(ended + POWER_OFF_SECONDS, None)]
        limit, error = min(limits, key=lambda pair: pair[0])
        if now >= limit:
            if error:
                raise error
            break
        for key, _events in selector.select(min(limit - now, 3600)):
            try:
                data = key.fileobj.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                selector.unregister(key.fileobj)
            elif key.data is None:
                said += data
                if b"exit " in said and not ended:
                    ended = time.monotonic()
            else:
                write_all(key.data, data)
    if b"start\n" not in said:
        raise NoBoot
    for line in said.decode("ascii", "replace").splitlines():
        if line.startswith("exit "):
            return int(line.split()[1])
    return None


def run(built, options):
    merged = same_file(1, 2)
    files = {"vm/conf": qemu.conf("run", built, "node", swap=options.swap, share=options.share),
             "vm/argv": b"".join(os.fsencode(word) + b"\0" for word in options.command)}
    if merged:
        files["vm/merged"] = b""
    if options.stdin:
        files["vm/stdin"] = sys.stdin.buffer.read()

    folder = Folder()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)
    boot = DEBUG_BOOT_SECONDS if built.kernel in debug.NAMES else BOOT_SECONDS
    guest = None
    try:
        for again in (True, False):
            pairs = [socket.socketpair() for _ in range(2 if merged else 3)]
            ours = [pair[0] for pair in pairs]
            theirs = [pair[1] for pair in pairs]
            guest = Guest(folder, built, files, options, theirs,
                          ports=[f"socket,fd={end.fileno()}" for end in theirs])
            try:
                status = relay(list(zip(ours[1:], (1, 2))), ours[0], options.timeout, boot)
                break
            except NoBoot:
                guest.end(0)
                say("the guest did not boot")
                # An emulating QEMU sometimes fails, or lets a kernel fail that patches its own code.
                if not again or guest.console.module_loaded():
                    return verdict(guest, None, options)
                print(guest.console.tail(), file=sys.stderr)
                say("the module was not loaded yet: once more")
            except TimeoutError:
                guest.end(0)
                result = verdict(guest, TIMED_OUT, options)
                if result == TIMED_OUT:
                    print(guest.console.tail(), file=sys.stderr)
                    say(f"no end after {options.timeout:g} s, power cut")
                return result
        guest.end(POWER_OFF_SECONDS)
        return verdict(guest, status, options)
    except Stopped as signalled:
        return 128 + signalled.number
    except BrokenPipeError:
        return 128 + signal.SIGPIPE
    finally:
        if guest:
            guest.end(0)
        folder.remove()


def shell(built, options):
    """A login shell on the guest's console, connected to this terminal."""
    if not (os.isatty(0) and os.isatty(1)):
        raise Error("`vm shell` needs a terminal; use `vm run -- COMMAND` without one")
    size = os.get_terminal_size()
    files = {"vm/conf": qemu.conf("shell", built, "node", swap=options.swap, share=options.share,
                                  rows=size.lines, columns=size.columns,
                                  TERM=os.environ.get("TERM", "linux"))}
    folder = Folder()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    here, there = socket.socketpair()
    guest = None
    before = termios.tcgetattr(0)
    try:
        guest = Guest(folder, built, files, options, [there],
                      terminal=f"socket,fd={there.fileno()}")
        say("booting; end the shell to power off, press Ctrl-] to cut the power")
        tty.setraw(0)
        selector = selectors.DefaultSelector()
        selector.register(0, selectors.EVENT_READ)
        selector.register(here, selectors.EVENT_READ)
        while True:
            for key, _events in selector.select():
                data = os.read(key.fd, 1 << 16)
                if not data or (key.fd == 0 and b"\x1d" in data):
                    raise EOFError
                write_all(1 if key.fileobj is here else here.fileno(), data)
    except (EOFError, ConnectionError):
        pass
    except Stopped as signalled:
        return 128 + signalled.number
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        if guest:
            guest.end(2)
            result = verdict(guest, 0, options)
        folder.remove()
    return result


def share_folder(text):
    if text is None:
        return None
    path = Path(text).resolve()
    if not path.is_dir():
        raise Error(f"--share {text}: no such folder")
    return path
