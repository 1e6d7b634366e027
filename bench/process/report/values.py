# SPDX-License-Identifier: GPL-2.0-only
"""The values of process.csv by measurement."""

import csv
from statistics import median


class Values:
    """Keys are (size_mb, threads, dirty_pct, what, metric); dirty_pct is "" if it does not apply."""

    def __init__(self, path):
        self.table, self.units = {}, {}
        machine = None
        with open(path, encoding="ascii", newline="") as file:
            for row in csv.DictReader(file):
                machine = row
                dirty = int(row["dirty_pct"]) if row["dirty_pct"] else ""
                key = (int(row["size_mb"]), int(row["threads"]), dirty, row["what"], row["metric"])
                # in the order of repeats, which is that of the file
                self.table.setdefault(key, []).append(int(row["value"]))
                self.units[key] = row["unit"]
        if machine is None:
            raise SystemExit(f"{path}: there are no values in it")
        self.machine = {name: machine[name] for name in ("kernel", "cpus", "accel", "thp")}
        self.repeats = int(machine["repeat"])

    def keys(self):
        return sorted(self.table, key=lambda key: (*key[:2], -1 if key[2] == "" else key[2], *key[3:]))

    def cells(self):
        return sorted({key[:2] for key in self.table})

    def dirty(self):
        return sorted({key[2] for key in self.table if key[2] != ""})

    def all(self, *key):
        return self.table[key]

    def has(self, *key):
        return key in self.table

    def median(self, *key):
        return median(self.table[key])

    def unit(self, *key):
        return self.units[key]

    def ratio(self, above, below):
        """For two keys: the ratio of their medians, and the smallest and largest ratio within a repeat."""
        ratios = [a / b for a, b in zip(self.all(*above), self.all(*below))]
        return self.median(*above) / self.median(*below), min(ratios), max(ratios)
