# SPDX-License-Identifier: GPL-2.0-only
"""Ranks that run `steps`: they compute until the test tells them what to do."""

import contextlib
import os

from checks import mpicheck
from fake_crd import Broken, Daemon, Rank
from stand_in import preloaded

GUARD = {"OMPI_MCA_btl_crtcp_guard": "1"}
FAILED = "process failed"


class Steps:
    """mpirun does not notice that a rank ends, and tells nobody."""

    def __init__(self, daemon, output):
        self.daemon, self.output, self.number = daemon, output, {}
        apart = f'"$@" >{output}.$OMPI_COMM_WORLD_RANK 2>&1 & exec sleep 100000'
        self.program = ["sh", "-c", apart, "sh", os.path.join(os.path.dirname(mpicheck()), "steps"), daemon.folder]

    def start(self, guard, more=None):
        """With a daemon."""
        self.daemon.start(self.program, self.output, {**(GUARD if guard else {}), **(more or {})})
        self.await_all()

    def start_plain(self, guard, more=None):
        """Without one, as a program that is told of failed processes by its transport."""
        words = ["--with-ft", "ulfm", "env", "-u", "CR_RANK_SOCKET"]
        Daemon.start(self.daemon, [*words, *self.program], self.output, {**(GUARD if guard else {}), **(more or {})})
        for n, pid in self.await_all().items():
            self.daemon.ranks[n] = Rank(n, None, pid, 0, [])

    def start_told(self, more=None):
        """With a daemon and an mpirun that tells the ranks of failures. mpirun goes on without failed ones."""
        told = ["sh", "-c", f'exec "$@" >{self.output}.$OMPI_COMM_WORLD_RANK 2>&1', "sh", *self.program[4:]]
        words = ["--with-ft", "ulfm", "env", f"LD_PRELOAD={preloaded()}"]
        Daemon.start(self.daemon, [*words, *told], self.output, more)
        self.await_all()

    def path(self, rank, number, end=""):
        return os.path.join(self.daemon.folder, f"{rank}.{number}{end}")

    def await_all(self):
        ranks = range(self.daemon.count)
        self.daemon.until(lambda: all(self.result(n, 0) for n in ranks), 60, "all ranks to compute")
        return {n: int(self.result(n, 0)) for n in ranks}

    def begin(self, rank, *words):
        number = self.number[rank] = self.number.get(rank, 0) + 1
        with open(self.path(rank, number, ".part"), "w", encoding="ascii") as file:
            file.write(" ".join(map(str, words)))
        os.rename(self.path(rank, number, ".part"), self.path(rank, number))
        return number

    def result(self, rank, number=None):
        with contextlib.suppress(FileNotFoundError), \
                open(self.path(rank, self.number[rank] if number is None else number, ".result"), encoding="utf-8") as file:
            return file.read()
        return None

    def step(self, rank, *words, seconds=20):
        """Have a rank carry out a step. @return its result; None: it has none in time"""
        self.begin(rank, *words)
        with contextlib.suppress(Broken):
            self.daemon.until(lambda: self.result(rank), seconds, f"{words} of rank {rank}")
        return self.result(rank)

    def exchange(self, a, b, size=100):
        """Two ranks send each other a message. A connection is made, and lanes are mapped again after a wave, only while they
        are in MPI."""
        begun = [(one, self.begin(one, what, to, size)) for what in ("send", "recv") for one, to in ((a, b), (b, a))]
        self.daemon.until(lambda: all(self.result(*step) for step in begun), 30, f"messages between {a} and {b}")
        if any(self.result(*step) != "ok" for step in begun):
            raise Broken(f"{a} and {b}: {[self.result(*step) for step in begun]}")

    def acquaint(self):
        """Connect each two ranks, and give each direction of their connection time to change to a lane."""
        for a in range(self.daemon.count):
            for b in range(a):
                self.exchange(a, b)
                self.exchange(a, b)

    def go_back(self, numbers):
        """The ranks were rolled back to when they had begun these steps: forget the later ones."""
        for rank, last in self.number.items():
            for number in range(numbers.get(rank, 0) + 1, last + 1):
                for end in ("", ".result"):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(self.path(rank, number, end))
        self.number = dict(numbers)
