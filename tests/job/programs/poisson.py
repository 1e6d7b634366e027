#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Diffusion in a square, implicit in time: each step solves a Poisson-like equation by conjugate gradients. mpi4py and numpy.

Runs N steps, and on as long as FILE exists. The output depends only on the number of steps and of ranks. Halos and sums are
numpy buffers; settings, statistics and a source that wanders from rank to rank are pickled objects.
"""

import argparse
import hashlib
import os

import numpy
from mpi4py import MPI

SIDE, EVERY = 192, 5


class Source:
    """Where heat is added. Goes from rank to rank as an object; each adds what it has done with it."""

    def __init__(self, column):
        self.column = column
        self.visits = []

    def visit(self, rank, step, strength):
        self.visits = (self.visits + [{"rank": rank, "step": step, "strength": strength}])[-6:]
        self.column = (self.column * 5 + 3 + rank) % SIDE


class Solver:
    """The rows of this rank, with a row of each neighbour above and below."""

    def __init__(self, comm, settings):
        self.comm, self.settings = comm, settings
        rank, ranks = comm.rank, comm.size
        self.low = SIDE * rank // ranks
        self.rows = SIDE * (rank + 1) // ranks - self.low
        self.above = rank - 1 if rank else MPI.PROC_NULL
        self.below = rank + 1 if rank + 1 < ranks else MPI.PROC_NULL
        self.field = numpy.zeros((self.rows, SIDE))
        self.halo = numpy.zeros((self.rows + 2, SIDE + 2))

    def sum(self, values):
        mine, total = numpy.array([values.sum()]), numpy.empty(1)
        self.comm.Allreduce(mine, total, op=MPI.SUM)
        return float(total[0])

    def exchange(self, x):
        inner = self.halo[1:-1, 1:-1]
        inner[:] = x
        first, last = numpy.ascontiguousarray(x[0]), numpy.ascontiguousarray(x[-1])
        above, below = numpy.zeros(SIDE), numpy.zeros(SIDE)
        self.comm.Sendrecv(first, self.above, 1, below, self.below, 1)
        self.comm.Sendrecv(last, self.below, 2, above, self.above, 2)
        self.halo[0, 1:-1], self.halo[-1, 1:-1] = above, below

    def operator(self, x):
        """(1 - dt * Laplace) x"""
        self.exchange(x)
        h, dt = self.halo, self.settings["dt"]
        return x + dt * (4.0 * x - h[:-2, 1:-1] - h[2:, 1:-1] - h[1:-1, :-2] - h[1:-1, 2:])

    def step(self):
        """@return number of iterations, residual"""
        b, x = self.field, self.field.copy()
        r = b - self.operator(x)
        p, rr = r.copy(), self.sum(r * r)
        for count in range(self.settings["most"]):
            if rr <= self.settings["residual"]:
                break
            q = self.operator(p)
            alpha = rr / self.sum(p * q)
            x = x + alpha * p
            r = r - alpha * q
            rr, before = self.sum(r * r), rr
            p = r + (rr / before) * p
        else:
            count = self.settings["most"]
        self.field = x
        return count, rr


def passed_on(comm, source, step, strength):
    """The source goes once around, by point-to-point messages of objects."""
    if comm.rank:
        source = comm.recv(source=comm.rank - 1, tag=step % 100)
    source.visit(comm.rank, step, strength)
    request = comm.isend(source, dest=(comm.rank + 1) % comm.size, tag=step % 100)
    if comm.rank == 0:
        source = comm.recv(source=comm.size - 1, tag=step % 100)
    request.wait()
    return source


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=0, metavar="N")
    parser.add_argument("--while", dest="hold", metavar="FILE")
    options = parser.parse_args()
    comm = MPI.COMM_WORLD
    settings = {"dt": 2.0, "most": 40, "residual": 1e-12, "strength": 25.0} if comm.rank == 0 else None
    settings = comm.bcast(settings)
    solver = Solver(comm, settings)
    parts = [Source(SIDE * n // comm.size) for n in range(comm.size)] if comm.rank == 0 else None
    source = comm.scatter(parts)
    step = 0
    while comm.bcast(step < options.iterations or bool(options.hold and os.path.exists(options.hold)) if comm.rank == 0 else None):
        solver.field[step % solver.rows, source.column] += settings["strength"]
        count, residual = solver.step()
        source = passed_on(comm, source, step, settings["strength"])
        step += 1
        if step % EVERY == 0:
            found = comm.gather({"rank": comm.rank, "most": float(solver.field.max()), "column": source.column})
            if comm.rank == 0:
                most = max(found, key=lambda one: (one["most"], one["rank"]))
                print(f"step {step}: {count} iterations, residual {residual!r}, hottest {most}", flush=True)
    whole = numpy.empty((SIDE, SIDE)) if comm.rank == 0 else None
    counts = comm.gather(solver.field.size)
    comm.Gatherv(solver.field, (whole, counts) if comm.rank == 0 else None)
    visits = comm.gather(source.visits)
    if comm.rank == 0:
        digest = hashlib.sha256(whole.tobytes() + repr(visits).encode()).hexdigest()
        print(f"poisson: {comm.size} ranks, {step} iterations, checksum {digest}", flush=True)


main()
