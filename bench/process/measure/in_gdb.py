# SPDX-License-Identifier: GPL-2.0-only
"""Executed by gdb, which is attached to a target: gdb's own `checkpoint` (a fork by the program) and `restart` (from then on the
program is the forked process). gdb.py gives it the environment and reads the last line that it prints, which is JSON."""

import json
import os
import subprocess
import time

import gdb  # pylint: disable=import-error

COMMANDS, ANSWERS, PERCENT, ROUNDS = (os.environ[name] for name in ("COMMANDS", "ANSWERS", "PERCENT", "ROUNDS"))


def timed(command):
    begin = time.monotonic_ns()
    gdb.execute(command, to_string=True)
    return time.monotonic_ns() - begin


def ask(command):
    """Let the program run until it has answered. Another process does the talking: Python's threads stand still in gdb.execute().
    After a restart the program has all signals blocked, as the C library has while it forks, so SIGSTOP ends the run."""
    pid = gdb.selected_thread().ptid[1]
    talk = f"echo '{command}' >{COMMANDS}; read answer <{ANSWERS}; kill -STOP {pid}; echo $answer"
    with subprocess.Popen(["sh", "-c", talk], stdout=subprocess.PIPE, text=True) as outside:
        gdb.execute("continue", to_string=True)
        return int(outside.stdout.read())


def blocks_signals():
    with open(f"/proc/{gdb.selected_thread().ptid[1]}/status", encoding="ascii") as lines:
        return any(line.startswith("SigBlk:") and int(line.split()[1], 16) for line in lines)


def measure():
    gdb.execute("handle SIGSTOP nopass", to_string=True)
    for number in range(1, int(ROUNDS) + 1):
        values = {"checkpoint": timed("checkpoint")}
        ask(f"d {PERCENT}")
        values["restart"] = timed(f"restart {number}")
        values["blocked"] = blocks_signals()
        values["changed"] = ask("c")
        yield values


def main():
    try:
        result = {"rounds": list(measure())}
    except gdb.error as error:
        result = {"error": str(error)}
    gdb.execute("kill", to_string=True)
    print(json.dumps(result), flush=True)


main()
