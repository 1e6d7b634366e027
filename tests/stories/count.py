# SPDX-License-Identifier: GPL-2.0-only
"""A program of the story `bindings`: counts, and writes the number to a file. Prints where a text lies in its memory."""

import ctypes
import os
import sys
import time

text = ctypes.create_string_buffer(b"a text that is easily found")
print(ctypes.addressof(text), flush=True)
count, file = 0, os.open(sys.argv[1], os.O_WRONLY)
while True:
    count += 1
    os.pwrite(file, f"{count:12}\n".encode(), 0)
    time.sleep(0.01)
