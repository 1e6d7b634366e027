# SPDX-License-Identifier: GPL-2.0-only
"""changing.py STEPS OUT [WRITES [PAUSE]]: change memory in a way that depends on all of it, step by step; then write a checksum to OUT.

Each step writes some pages of a large block (40; or WRITES, and then none of them is part of a huge page), and replaces, drops
or grows some of many small ones. What is written depends on what is read. So a page that is restored wrongly changes the result.
The result does not depend on PAUSE, the seconds between two steps.
"""

import mmap
import random
import sys
import threading
import time
import zlib

PAGE = 4096
LARGE = 16 << 20

steps, out = int(sys.argv[1]), sys.argv[2]
writes = int(sys.argv[3]) if len(sys.argv) > 3 else 40
pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0.005
rng = random.Random(1)
large = mmap.mmap(-1, LARGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
if len(sys.argv) > 3:
    large.madvise(mmap.MADV_NOHUGEPAGE)
for at in range(0, LARGE, PAGE):
    large[at:at + 8] = rng.randbytes(8)
small = []
idle = threading.Thread(target=time.sleep, args=(10000,), daemon=True)
idle.start()

for step in range(steps):
    for _ in range(writes):
        at, to = rng.randrange(0, LARGE, PAGE), rng.randrange(0, LARGE, PAGE)
        large[to:to + 64] = (zlib.crc32(large[at:at + PAGE]) * (step + 1)).to_bytes(64, "little")
    drop = rng.randrange(0, LARGE - 16 * PAGE, PAGE)
    large.madvise(mmap.MADV_DONTNEED, drop, 16 * PAGE)
    if len(small) < 50 or rng.random() < 0.4:
        block = mmap.mmap(-1, rng.randrange(1, 40) * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block[:8] = large[drop + 16 * PAGE:drop + 16 * PAGE + 8]
        small.append(block)
    else:
        block = small.pop(rng.randrange(len(small)))
        large[drop:drop + 8] = block[:8]
        block.close()
    time.sleep(pause)

with open(out, "w", encoding="ascii") as file:
    file.write(f"{zlib.crc32(large)} {zlib.crc32(b''.join(block[:] for block in small))}\n")
