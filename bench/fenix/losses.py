# SPDX-License-Identifier: GPL-2.0-only
"""Where the time of a run with losses has gone, by its records and the times at which ranks were killed."""

from dataclasses import dataclass


@dataclass
class Shares:
    """
    Seconds. `recomputed`: from the snapshot that all go back to, or from the end of a recovery since, until the loss. What they do not
    add up to is progress.
    """

    total: float
    checkpoint: float = 0
    repair: float = 0
    restore: float = 0
    recomputed: float = 0
    losses: int = 0

    def lost(self):
        return self.checkpoint + self.repair + self.restore + self.recomputed


def shares(run, kills):
    """
    Shares of a Run. The time of a checkpoint is that of the slowest rank; a repair begins with the death, and ends when Fenix_Init
    has returned in all ranks; a restore ends when all have their data.
    """
    end = max(record.end for record in run.of("step"))
    found = Shares(end)
    slowest = {}
    for record in run.of("checkpoint"):
        # A step that is computed again is stored again: the records of one snapshot are near each other.
        key = (record.step, sum(kill < record.end for kill, _ in kills))
        slowest[key] = max(slowest.get(key, 0), record.end - record.begin)
    found.checkpoint = sum(slowest.values())
    times = [kill for kill, _ in kills if kill < end]
    running = 0  # since then
    for kill, following in zip(times, [*times[1:], float("inf")]):
        begun = [record.begin for record in run.of("begun") if kill < record.begin < following]
        if not begun:
            continue  # nobody had this rank then
        restored = [record.end for record in run.of("restored") if kill < record.begin < following]
        snapshots = [record.end for record in run.of("checkpoint") if record.end < kill]
        found.losses += 1
        found.repair += max(begun) - kill
        found.recomputed += kill - max(running, *snapshots, 0)
        running = max(restored, default=max(begun))
        found.restore += running - max(begun)
    return found
