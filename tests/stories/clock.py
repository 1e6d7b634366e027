# SPDX-License-Identifier: GPL-2.0-only
"""The program of the story `clocks`: prints its clocks continuously, while threads wait until times of these clocks."""

import mmap
import os
import struct
import sys
import threading
import time

WAIT = float(sys.argv[2])
shortest = [1e9]
longest = [0.0]
waits = [0]


def waiter():
    """Waits until a time of CLOCK_MONOTONIC, as condition variables do."""
    never = threading.Event()
    while True:
        begin = time.monotonic()
        never.wait(WAIT)
        took = time.monotonic() - begin
        shortest[0], longest[0] = min(shortest[0], took), max(longest[0], took)
        waits[0] += 1


with open(sys.argv[1], "r+b") as file:
    page = mmap.mmap(file.fileno(), 4096)
for _ in range(3):
    threading.Thread(target=waiter, daemon=True).start()
count = 0
while True:
    count += 1
    real = time.time_ns()
    page[0:72] = struct.pack("=qqqqqqddq", os.getpid(), count, time.clock_gettime_ns(time.CLOCK_MONOTONIC),
                             time.clock_gettime_ns(time.CLOCK_BOOTTIME), real, waits[0], shortest[0], longest[0], count)
    time.sleep(0.01)
