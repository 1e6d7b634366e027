# SPDX-License-Identifier: GPL-2.0-only
"""ids.py: holds what depends on its process and thread ids, waits until the file "go" exists, and tells what is left of it.

The checkpoint is taken while it waits. It writes one line to standard output, leaves a child if the file "child" exists, waits
until the file "end" exists, and ends with status 7.
"""

import ctypes
import fcntl
import os
import select
import signal
import subprocess
import threading
import time

RECURSIVE = 1
libc = ctypes.CDLL(None)
lock, kind = ctypes.create_string_buffer(64), ctypes.create_string_buffer(16)
libc.pthread_mutexattr_init(kind)
libc.pthread_mutexattr_settype(kind, RECURSIVE)
libc.pthread_mutex_init(lock, kind)
go, ids, problems = threading.Event(), {}, []
signal.signal(signal.SIGUSR2, lambda *_: problems.append("a signal that nobody sent"))


def note(what, good):
    if not good:
        problems.append(what)


def hold():
    ids["worker"] = threading.get_native_id()
    note("its lock cannot be taken", libc.pthread_mutex_lock(lock) == 0)
    ready.set()
    go.wait()
    note("another thread id", threading.get_native_id() == ids["worker"])
    note("the held lock cannot be given back", libc.pthread_mutex_unlock(lock) == 0)  # glibc compares the thread's id


def until(name):
    while not os.path.exists(name):
        time.sleep(0.02)


ready = threading.Event()
threads = [threading.Thread(target=hold)] + [threading.Thread(target=go.wait) for _ in range(6)]
for thread in threads:
    thread.start()
ready.wait()
ids["process"], ids["group"] = os.getpid(), os.getpgrp()
itself = os.pidfd_open(os.getpid())
status = os.open(f"/proc/{os.getpid()}/stat", os.O_RDONLY)
end, other = os.pipe()
fcntl.fcntl(end, fcntl.F_SETOWN, os.getpid())
with open("ready", "w", encoding="ascii") as file:
    file.write(f"{os.getpid()}")

until("go")
go.set()
for thread in threads:
    thread.join()
note("another process id", (os.getpid(), os.getpgrp()) == (ids["process"], ids["group"]))
note("another owner of the pipe", fcntl.fcntl(end, fcntl.F_GETOWN) == os.getpid())
signal.pidfd_send_signal(itself, 0)
note("its pidfd says it has ended", not select.select([itself], [], [], 0)[0])
note("its file in /proc is another's", os.pread(status, 4000, 0).split()[0] == os.readlink("/proc/self").encode())
new = threading.Thread(target=lambda: None)
new.start()
new.join()
os.write(1, f"{os.getpid()} {os.getppid()} {'; '.join(problems) or 'right'}\n".encode())
if os.path.exists("child"):
    subprocess.Popen(["sleep", "10000"], start_new_session=True)
    with open("left", "w", encoding="ascii"):
        pass
until("end")
os._exit(7)
