# SPDX-License-Identifier: GPL-2.0-only
"""gdb's checkpoints of the same target. gdb is attached already when it takes one."""

import json
import os
import subprocess

from .commands import Failed

SCRIPT = os.path.join(os.path.dirname(__file__), "in_gdb.py")
SECONDS = 600


class Refused(Failed):
    """What gdb says."""


def checkpoints(target, percent, rounds):
    """Checkpoints and restarts in turn; `percent` of the pages are changed between. Ends the target.

    @return a list of {"checkpoint": ns, "restart": ns, "blocked": whether signals are blocked then}
    """
    commands, answers = target.paths
    environment = os.environ | {"COMMANDS": commands, "ANSWERS": answers, "PERCENT": str(percent), "ROUNDS": str(rounds)}
    done = subprocess.run(["gdb", "-nx", "-q", "-batch", "-p", str(target.pid), "-x", SCRIPT], env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False)
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise Failed(f"gdb: {done.stdout}{done.stderr}") from None
    if "error" in result:
        raise Refused(result["error"])
    if any(values["changed"] for values in result["rounds"]):
        raise Failed("gdb: pages are not what they were, after a restart")
    return result["rounds"]
