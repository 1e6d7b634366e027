# SPDX-License-Identifier: GPL-2.0-only
"""part.py: prepare data, wait until the file "go" exists, and do the part of the work that standard input names.

The checkpoint is taken while it waits. It writes one line to standard output, waits until the file "end" exists, and ends
with the status that the second word of its input gives.
"""

import mmap
import os
import queue
import signal
import threading
import time

import numpy

THREADS = 4
data = numpy.arange(4 << 20, dtype=numpy.float64)  # 32 MB
shared = mmap.mmap(-1, 1 << 16)
lock = threading.RLock()
work, done = queue.Queue(), queue.Queue()
signalled = []
signal.signal(signal.SIGUSR1, lambda *_: signalled.append(os.getpid()))


def serve():
    while True:
        at, factor = work.get()
        with lock, lock:
            done.put(float(data[at::THREADS].sum()) * factor)


def until(name):
    while not os.path.exists(name):
        time.sleep(0.02)


threads = [threading.Thread(target=serve, daemon=True) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for factor in range(THREADS):
    work.put((factor, 1))
expected = sum(done.get() for _ in range(THREADS))
with open("ready", "w", encoding="ascii"):
    pass

until("go")
number, status = map(int, os.read(0, 100).split())
shared[:8] = number.to_bytes(8, "little")
for at in range(THREADS):
    work.put((at, number))
total = sum(done.get() for _ in range(THREADS))
signal.pthread_kill(threads[0].ident, signal.SIGUSR1)  # by the id that the C library knows
time.sleep(0.2)
right = (total == expected * number and int.from_bytes(shared[:8], "little") == number and signalled == [os.getpid()]
         and all(thread.is_alive() for thread in threads))
os.write(1, f"{number} {os.getpid()} {right}\n".encode())
until("end")
os._exit(status)
