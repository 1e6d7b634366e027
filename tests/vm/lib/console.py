# SPDX-License-Identifier: GPL-2.0-only
"""Messages on a kernel's console that count as complaints."""

import re
from pathlib import Path

COMPLAINT = re.compile(
    r"WARNING: |BUG: |BUG at |\bOops\b|Kernel panic|general protection fault"
    r"|soft lockup|hard LOCKUP|blocked for more than|self-detected stall|detected stalls"
    r"|detected expedited stalls|KASAN|UBSAN|KCSAN:|kmemleak:.*leaks"
    r"|unable to handle|invalid opcode|double fault|stack segment"
    r"|sleeping function called|scheduling while atomic|suspicious RCU usage"
    r"|(circular|recursive) locking|inconsistent lock state|bad unlock balance"
    r"|refcount_t:|list_(add|del) corruption|detected (over|under)flow"
    r"|Bad page (state|map)|bad (pmd|pud|pte) |nobody cared|page dumped because"
    r"|leaked reference|vm-guest-error|cut here")
# Messages about a user program, not about the kernel.
HARMLESS = re.compile(r"traps: ")
BEFORE, AFTER = 3, 60


class Console:
    """The log file of the console, read while it grows."""

    def __init__(self, path):
        self.path = Path(path)

    def lines(self):
        try:
            text = self.path.read_bytes().decode("utf-8", "replace")
        except FileNotFoundError:
            return []
        return [line.rstrip() for line in text.replace("\r", "").split("\n")]

    def complaint(self):
        """The first complaint with its surrounding lines, or an empty string."""
        lines = self.lines()
        for number, line in enumerate(lines):
            if COMPLAINT.search(line) and not HARMLESS.search(line):
                first = max(0, number - BEFORE)
                shown = lines[first:number + AFTER]
                if number + AFTER < len(lines):
                    shown.append(f"… {len(lines) - number - AFTER} more lines")
                return "\n".join(shown).rstrip()
        return ""

    def module_loaded(self):
        """Whether Reprise's module was ever loaded. What the kernel says before is not the module's fault."""
        return any("cr: loading out-of-tree module" in line for line in self.lines())

    def tail(self, count=20):
        return "\n".join(self.lines()[-count:]).strip()
