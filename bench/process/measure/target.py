# SPDX-License-Identifier: GPL-2.0-only
"""The process that is saved and restored."""

import os
import select
import subprocess

from .commands import Failed

ANSWER_SECONDS = 120


class Target:
    """Started with its own files and session, so that it shares nothing with this process."""

    def __init__(self, program, folder, size_mb, threads):
        self.paths = [os.path.join(folder, name) for name in ("commands", "answers")]
        for path in self.paths:
            if not os.path.exists(path):
                os.mkfifo(path)
        self.commands, self.answers = (os.open(path, os.O_RDWR) for path in self.paths)
        process = subprocess.Popen([program, *self.paths, str(size_mb), str(threads)], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/",
                                   start_new_session=True, close_fds=True)
        process.returncode = 0  # wait by pid: a restart makes a new process
        self.pid = process.pid
        if self.answer() != "ready":
            raise Failed("the target does not start")

    def answer(self):
        if not select.select([self.answers], [], [], ANSWER_SECONDS)[0]:
            raise Failed("the target does not answer")
        return os.read(self.answers, 64).decode().strip()

    def ask(self, command):
        os.write(self.commands, command.encode() + b"\n")
        return int(self.answer())

    def change(self, percent):
        """Change this percentage of its pages; returns the ns that the target needed."""
        return self.ask(f"d {percent}")

    def must_be_unchanged(self, after, every_word=False):
        changed = self.ask("C" if every_word else "c")
        if changed:
            raise Failed(f"{changed} pages are not what they were, after {after}")

    def close(self):
        os.close(self.commands)
        os.close(self.answers)
