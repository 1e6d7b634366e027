# SPDX-License-Identifier: GPL-2.0-only
"""Draws plots with the guest root's gnuplot."""

import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
HEAD = """set terminal svg size 1150,{height} font "sans,13" background "white"
set output "{folder}/{name}.svg"
set grid lc rgb "#dddddd"
"""


def block(name, rows):
    """A data block of gnuplot's."""
    return f"${name} << EOD\n" + "\n".join(" ".join(map(str, row)) for row in rows) + "\nEOD\n"


def draw(folder, name, text, height):
    """Make NAME.svg in a folder of the project's."""
    folder = folder.resolve()
    there = Path("/mnt/project") / folder.relative_to(PROJECT)
    script = folder / ".plot.gp"
    script.write_text(HEAD.format(height=height, folder=there, name=name) + text, "utf-8")
    try:
        subprocess.run([PROJECT / "tests/vm/vm", "native", "--", "gnuplot", there / ".plot.gp"], check=True)
    finally:
        script.unlink()
