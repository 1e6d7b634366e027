# SPDX-License-Identifier: GPL-2.0-only
"""Numbers in readable form."""


def three(value):
    """With three significant digits, or all digits before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ms(ns):
    return three(ns / 1e6)


def mb(count):
    return three(count / (1 << 20))


def table(head, rows):
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
