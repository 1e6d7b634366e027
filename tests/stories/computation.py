# SPDX-License-Identifier: GPL-2.0-only
"""The program of the story `python`: threads that compute one number."""
import hashlib
import sys
import threading

ROUNDS = int(sys.argv[2])
results = [None] * 4
table, lock, done = {}, threading.Condition(), 0


def work(i):
    global done
    data, x, words = bytes([i]) * 65536, i + 1, []
    for n in range(ROUNDS):
        data = (hashlib.sha256(data).digest() * 2048)[:65536]  # runs without the interpreter's lock
        for _ in range(300):
            x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(str(x))
        with lock:
            table[i, n % 97] = x
            lock.notify_all()
        if n % 50 == 49:
            words = [hashlib.sha256("".join(sorted(words)).encode()).hexdigest()]
    results[i] = words[0] + data[:8].hex() + str(x)
    with lock:
        done += 1
        lock.notify_all()


threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
for t in threads:
    t.start()
with lock:
    while done < 4:
        lock.wait(0.01)
for t in threads:
    t.join()
everything = repr(results) + repr(sorted(table.items()))
with open(sys.argv[1], "w", encoding="ascii") as f:
    f.write(hashlib.sha256(everything.encode()).hexdigest() + "\n")
