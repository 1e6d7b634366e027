# SPDX-License-Identifier: GPL-2.0-only
"""Reads the file of measure.py and recovery.py."""

import csv

SHARES = ("checkpoint", "repair", "restore", "recomputed")


def read(path):
    """{part: {engine: {case: {round: {what: value}}}}}"""
    found = {}
    with open(path, encoding="ascii") as file:
        for row in csv.DictReader(file):
            case = found.setdefault(row["part"], {}).setdefault(row["engine"], {}).setdefault(row["case"], {})
            case.setdefault(int(row["round"]), {})[row["what"]] = float(row["value"])
    return found


def column(rounds, value):
    """`value` of each round that has it: a name, or a function of the round."""
    function = value if callable(value) else lambda one: one.get(value)
    return [result for one in rounds.values() if (result := function(one)) is not None]
