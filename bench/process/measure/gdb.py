# SPDX-License-Identifier: GPL-2.0-only
"""gdb's checkpoints of the same target. gdb is attached already when it takes one."""

import json
import os
import subprocess

from .commands import Failed

SCRIPT = os.path.join(os.path.dirname(__file__), "in_gdb.py")
PREFIX = "JSON "
SECONDS = 600


def checkpoints(target, percent, rounds):
    """Checkpoints and restarts in turn; `percent` of the pages are changed between. Ends the target.

    @return a list of {"checkpoint": ns, "restart": ns, "blocked": whether signals are blocked then}, or a string: what gdb says
    """
    variables = f"COMMANDS, ANSWERS, PERCENT, ROUNDS = *{target.paths!r}, {percent}, {rounds}"
    done = subprocess.run(["gdb", "-nx", "-q", "-batch", "-p", str(target.pid), "-ex", f"python {variables}", "-x", SCRIPT],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False)
    values = [json.loads(line[len(PREFIX):]) for line in done.stdout.splitlines() if line.startswith(PREFIX)]
    if values and "error" in values[-1]:
        return values[-1]["error"]
    if len(values) != rounds:
        raise Failed(f"gdb: {done.stdout}{done.stderr}")
    if any(value["changed"] for value in values):
        raise Failed("gdb: pages are not what they were, after a restart")
    return values
