# SPDX-License-Identifier: GPL-2.0-only
"""A part of `wire`: a wave comes while both ends of a broken connection try to make it anew."""

import contextlib
import socket

from checks import a_daemon, ok
from sockets import cut, inside
from stand_in import StandIn
from steps import Steps


def listen_for(daemon):
    """Addresses that no rank answers at, one for each rank. @return the listening sockets"""
    with inside(daemon):
        listeners = [socket.create_server(("127.0.0.1", 0)) for _ in daemon.ranks]
    for n, listener in enumerate(listeners):
        listener.setblocking(False)
        daemon.ranks[n].addresses = [f"127.0.0.1:{listener.getsockname()[1]}"]
    return listeners


def attempts(daemon, listeners):
    """Wait until each rank tries to connect. @return the connections, which stay unanswered"""
    got, tried = [], set()

    def all_try():
        for listener in listeners:
            with contextlib.suppress(BlockingIOError):
                got.append(listener.accept()[0])
                tried.add(listener)
        return len(tried) == len(listeners)

    daemon.until(all_try, 20, "each rank to make the connection anew")
    return got


def lost_messages():
    """A message is lost with a connection. Images that are taken before both ends know it would have its sender behind the
    message and its receiver before it: after a rollback to them nobody would send it again, and nobody would connect."""
    with a_daemon("lost-messages", StandIn(2)) as (daemon, output):
        steps = Steps(daemon, output)
        steps.start(False)
        steps.acquaint()
        daemon.roll_back(daemon.prepare())  # since a recovery each rank knows the other one's address
        listeners = listen_for(daemon)
        daemon.resume()
        sent = steps.step(0, "send", 1, 100)
        cut(daemon, 1)
        for n in (0, 1):
            steps.begin(n, "recv", 1 - n, 100)
        open_ends = attempts(daemon, listeners)
        words = daemon.prepare()
        ok(sent == "ok" and set(words.values()) == {b"f"},
           "lost-messages: no wave is taken while both ends of a broken connection try to make it anew", f"{sent}, {words}")
        said = daemon.finish(words)
        ok(all(s[1] == "again" and "broken" in s[4] for s in said.values()), "lost-messages: the reason is told", said)
        open_ends += attempts(daemon, listeners)
        ok(True, "lost-messages: both ends go on trying after the wave")
        words = daemon.prepare()
        ok(set(words.values()) == {b"f"}, "lost-messages: the next wave is not taken either", words)
        daemon.finish(words)
        for one in (*open_ends, *listeners):
            one.close()
