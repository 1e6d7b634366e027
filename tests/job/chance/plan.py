# SPDX-License-Identifier: GPL-2.0-only
"""What a round does: determined by the seed and the number of the round alone."""

import random
from dataclasses import dataclass, field

from lib.cluster import NODES

from .kinds import KINDS
from .programs import random_program, spawning

SHAPES = [(2, 1), (2, 2), (3, 1), (3, 1)]  # nodes with ranks, spares


@dataclass
class Fault:
    number: int
    kind: str
    moment: str  # "start", "wave", "recovery": this long after the job's start, or the next beginning of one
    delay: float
    seconds: int
    variant: float
    order: list  # the nodes, the one to try first in front
    node: str = None
    hit: bool = False
    note: str = ""

    def __str__(self):
        where = f" of {self.node}" if self.node else ""
        when = {"start": "", "wave": "wave + ", "recovery": "recovery + "}[self.moment]
        return f"{self.kind}{where} at {when}{self.delay:.1f} s" + (f" ({self.note})" if self.note else "")


@dataclass
class Plan:
    seed: int
    number: int
    process: str = ""
    program: object = None
    hosts: list = field(default_factory=list)
    spares: list = field(default_factory=list)
    slots: int = 1
    ranks: int = 1
    children: int = 0  # that the ranks spawn
    every: str = ""
    options: list = field(default_factory=list)
    faults: list = field(default_factory=list)

    @property
    def name(self):
        return f"{self.seed}-{self.number}"

    @property
    def processes(self):
        return self.ranks + self.children

    def __str__(self):
        words = " ".join(word.rpartition("/")[2] for word in self.program.words)
        return (f"{words}; {self.ranks} ranks on {','.join(self.hosts)}, spare {','.join(self.spares)}, a wave every "
                f"{self.every} {' '.join(self.options)}")


def make_plan(seed, number):
    chance = random.Random(f"{seed}/{number}")
    plan = Plan(seed, number)
    busy, spare = chance.choice(SHAPES)
    nodes = chance.sample(NODES, busy + spare)
    plan.hosts, plan.spares = nodes[:busy], nodes[busy:]
    plan.slots = chance.choice([1, 2, 2])
    plan.ranks = busy * plan.slots - (plan.slots > 1 and chance.random() < 0.3)
    plan.process, plan.program = random_program(chance, plan.ranks)
    plan.every = f"{chance.choice([2, 3, 4])}s"
    if chance.random() < 0.25:
        plan.options.append("--no-double-up")
    if chance.random() < 0.2:
        plan.options += ["--fan-out", "1", "--detect", "6s"]
    elif chance.random() < 0.5:
        plan.options += ["--detect", "4s"]
    for index in range(chance.choice([1, 2, 2, 3])):
        moment = chance.choice(["start", "wave"] if not index else ["start", "wave", "recovery"])
        delay = {"start": (0, 16), "wave": (0, 2), "recovery": (0, 3)}[moment]
        plan.faults.append(Fault(index + 1, chance.choice(list(KINDS)), moment, chance.uniform(*delay), chance.randint(1, 20),
                                 chance.random(), chance.sample(nodes, len(nodes))))
    for fault in plan.faults:
        if KINDS[fault.kind].always:
            fault.moment, fault.delay = "start", 0
    plan.faults.sort(key=lambda fault: not KINDS[fault.kind].always)
    if chance.random() < 0.4:  # drawn last: plans of older seeds are as they were but for this
        plan.options += ["--redundancy", "partner"]
    if chance.random() < 0.2:  # and this
        # The ranks fill the first node, their children the others.
        plan.ranks, plan.children = plan.slots, (busy - 1) * plan.slots
        plan.process, plan.program = spawning(chance, plan.children)
    return plan
