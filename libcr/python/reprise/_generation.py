# SPDX-License-Identifier: LGPL-2.1-or-later
"""The generation of the process's memory."""

from ._library import holding
from .errors import failure


def generation() -> int:
    """A number that increases whenever the memory of the calling process returns to an earlier state (pause, restart, rollback
    to a snapshot), and in a child of a fork. The number itself is not rolled back.

    A program that holds values which must never be used twice (random numbers, nonces, session keys, identifiers) stores the
    number with them, compares it before each use, and creates the values again when it differs. The function needs no module.

    Raises Error: ENOMEM.
    """
    number = holding.cr_generation()
    if not number:
        raise failure("generation", reported=False)
    return number.contents.value
