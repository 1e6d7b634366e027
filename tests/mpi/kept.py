# SPDX-License-Identifier: GPL-2.0-only
"""A part of `wire`: a rank waits until its kept memory is copied to another node."""

import errno
import os
import struct

from checks import a_daemon, ok
from fake_crd import COPY_KEPT, KEPT_COPIED
from stand_in import StandIn
from steps import Steps


def asked(daemon):
    """@return (id, descriptor as /proc has it, name) of the next request of rank 0"""
    body = daemon.heard(COPY_KEPT, 20, "a request", [0])[0]
    number, pid, fd = struct.unpack_from("=Qii", body)
    return number, os.readlink(f"/proc/{pid}/fd/{fd}"), body[16:].decode()


def answer(daemon, number, status=0, why=b""):
    daemon.send(daemon.ranks[0], KEPT_COPIED, struct.pack("=QiI", number, status, 0) + why)


def kept_copies():
    with a_daemon("kept-copies", StandIn(2)) as (daemon, output):
        steps = Steps(daemon, output)
        steps.start(False)
        steps.exchange(0, 1)
        steps.begin(0, "copy")
        first, link, name = asked(daemon)
        ok((link, name) == ("/memfd:reprise.keep+it (deleted)", "it"), "kept-copies: a rank says which memory", (link, name))
        ok(asked(daemon)[0] == first, "kept-copies: it asks again")
        answer(daemon, first + 1)
        answer(daemon, first - 1, errno.EIO)
        daemon.serve_for(0.5)
        ok(steps.result(0) is None, "kept-copies: it waits for the answer to its own request", steps.result(0))
        daemon.roll_back(daemon.prepare())
        daemon.resume()
        ok(asked(daemon)[0] == first, "kept-copies: after a rollback into the wait it asks again")
        answer(daemon, first)
        daemon.until(lambda: steps.result(0), 20, "the copy")
        ok(steps.result(0) == "0 ", "kept-copies: it goes on when the memory is copied", steps.result(0))
        steps.begin(0, "copy")
        second = asked(daemon)[0]
        ok(second > first, "kept-copies: another request has another number", (first, second))
        answer(daemon, second, errno.EHOSTUNREACH, b"no node takes it")
        daemon.until(lambda: steps.result(0), 20, "the copy")
        ok(steps.result(0) == f"{errno.EHOSTUNREACH} no node takes it", "kept-copies: or when it cannot be copied", steps.result(0))
        steps.exchange(0, 1)
