# SPDX-License-Identifier: GPL-2.0-only
"""What programs.py runs: cases, and the variants of each."""

from dataclasses import dataclass, field


@dataclass
class Case:
    """A program with a size. Its variants are compared with its variant `plain`."""

    name: str                                      # in the tables and in the CSV file
    program: str
    ranks: int
    words: tuple
    alone: tuple                                   # without boosters: the result that all must have
    faults: dict = field(default_factory=dict)     # variant: [(variable, files, points)]

    def variants(self):
        """Name, further words, faults."""
        yield "plain", ("plain",), []
        yield "recover", (), []
        for variant, faults in self.faults.items():
            yield variant, (), faults


def nbody(bodies, masters, mode, scaling):
    steps = 10
    # In the sixth of ten steps a booster ends right before its task does. Points are counted for all boosters of the rank:
    # boosters of masters with groups of their own have rank 0.
    point = f"done:{masters - 1}:6" if mode == "global" else f"done:0:{5 * masters + 1}"
    return Case(f"{scaling}, {mode}, {masters}", "nbody", masters, (bodies, steps, mode), (bodies, steps, "alone"),
                {"lost": [("CROFF_FAULT", "", point)]})


def fwi(shots, slaves, workers, steps):
    # A worker has rank 0 or 1 among its siblings, a slave 0. The first half of the shots makes the records, the second and
    # longer one inverts them.
    return Case(f"{shots} shots, {slaves} slaves with {workers} workers", "fwi", 1, (shots, slaves, workers, 1, steps),
                (shots, 0, workers, 1, steps),
                {"worker": [("FWI_WORKER_FAULT", "-WORKER", f"done:1:{shots + 3}")],
                 "slave": [("FWI_SLAVE_FAULT", "-SLAVE", f"done:0:{shots + 3}")],
                 "five": [("FWI_WORKER_FAULT", "-WORKER", f"done:1:3,done:1:{shots + 2},done:0:{shots + 5}"),
                          ("FWI_SLAVE_FAULT", "-SLAVE", f"done:0:5,done:0:{shots + 4}")]})


BODIES = 2500


def cases():
    """
    The most telling first. With one master a group is its own in any case. For weak scaling each master has as many bodies as all
    have with strong scaling, so with one master it is the same as that.
    """
    return [nbody(BODIES, 2, "global", "strong"), nbody(BODIES, 2, "partial", "strong"), fwi(6, 2, 2, 300),
            nbody(BODIES, 4, "global", "strong"), nbody(BODIES, 4, "partial", "strong"), nbody(BODIES, 1, "partial", "strong"),
            nbody(2 * BODIES, 2, "global", "weak"), nbody(2 * BODIES, 2, "partial", "weak")]
