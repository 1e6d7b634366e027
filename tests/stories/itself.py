# SPDX-License-Identifier: GPL-2.0-only
"""A program of the story `bindings`: rolls itself back, to snapshots and to an image. It appends to a file what it sees,
because its memory does not survive."""

import os
import sys
import threading
import time

import reprise

NOTES, DATA, IMAGE = sys.argv[1:4]


def tell(text):
    with open(NOTES, "a", encoding="ascii") as file:
        file.write(text + "\n")


def tick():
    global ticks
    while True:
        ticks += 1
        time.sleep(0.002)


def wait_for(count):
    while ticks < count:
        time.sleep(0.002)


def state():
    threads = len(os.listdir("/proc/self/task"))
    return f"{values} {table} offset {data.tell()} {'early' if ticks < late else 'late'} {threads} threads {ending.is_alive()}"


def change():
    values[0] = "changed"
    values.append("new")
    table["b"] = values
    data.read(100)
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    end.set()
    ending.join()
    wait_for(late)


ticks, values, table = 0, ["old"], {"a": 1}
data = open(DATA, "rb", buffering=0)  # pylint: disable=consider-using-with
data.read(10)
end = threading.Event()
ending = threading.Thread(target=end.wait)
ending.start()
threading.Thread(target=tick, daemon=True).start()
kept = reprise.keep("takes", 100)
wait_for(10)
late = ticks + 500
generation = reprise.generation()
tell(f"before {state()}")
with reprise.take() as snapshot:
    same = "same" if reprise.generation() == generation else "other"
    kept[0] += 1
    tell(f"take {snapshot.rollbacks} {snapshot.rolled_back} {state()}, {same} generation")
    if snapshot.rollbacks < 3:
        change()
        tell(f"changed {state()}")
        if snapshot.rollbacks == 1:
            threading.Thread(target=snapshot.rollback).start()
            time.sleep(600)
        snapshot.rollback()
        tell("rollback() has returned")
tell("closed" if snapshot.closed else "still open")
wait_for(ticks + 5)
end.set()
ending.join()
tell("the threads go on")

values[:] = ["saved"]
saved = reprise.checkpoint(0, IMAGE)
tell(f"checkpoint {saved.rolled_back} {values}")
if not saved.rolled_back:
    values.append("lost")
    reprise.pause(0, IMAGE)
    tell("pause() has returned")
tell(f"kept {kept[0]} {reprise.keep('takes', 100)[0]}")
tell("done")
