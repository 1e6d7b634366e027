# SPDX-License-Identifier: GPL-2.0-only
"""Whether a job has printed what a run without failures prints."""


def strict(got, wanted):
    """It was printed once, also by crruns of which one went on where another died. @return what is wrong, or None"""
    if got == wanted:
        return None
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    return (f"another output from byte {at} on ({len(got)} bytes instead of {len(wanted)}):\n"
            f"got    {got[max(0, at - 80):at + 160]!r}\nwanted {wanted[max(0, at - 80):at + 160]!r}")


def with_repetitions(got, wanted):
    """The job was started again, from a wave or from the beginning: what came after that may be repeated; nothing may be
    omitted, and nothing else printed. The same for a crrun that has found a difference after a rollback.

    `places`: the offsets in `wanted` at which `got` may have arrived. Only when none is left, a repetition begins: bytes
    of one that are like those before it do no harm, as its true place is among those that are then considered.
    @return what is wrong, or None
    """
    places, furthest = {0}, 0
    for at, char in enumerate(got):
        next_places = {place + 1 for place in places if wanted[place:place + 1] == char}
        if not next_places:
            next_places = {place + 1 for place in range(furthest) if wanted[place] == char}
        if not next_places:
            return (f"what is at byte {at} is not of the output of a run without failures, up to which {furthest} of "
                    f"{len(wanted)} bytes were printed before:\n{got[max(0, at - 80):at + 160]!r}")
        places = next_places
        furthest = max(furthest, max(places))
    if furthest < len(wanted):
        return f"the last {len(wanted) - furthest} bytes are missing:\n{wanted[furthest:furthest + 200]!r}"
    last = wanted[wanted.rstrip("\n").rfind("\n") + 1:]
    return None if got.endswith(last) else f"it does not end with {last!r} but with {got[-160:]!r}"
