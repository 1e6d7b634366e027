# SPDX-License-Identifier: GPL-2.0-only
"""A fake daemon whose ranks use libcr_stand_in instead of libcr: waves and rollbacks where the module is not loaded."""

import os
import socket
import struct

from fake_crd import PREPARE, PREPARED, RESTORED, Broken, Daemon


def library():
    path = os.path.join(os.environ.get("REPRISE_TESTS", ""), "libcr_stand_in.so")
    if not os.path.isfile(path):
        raise Broken("libcr_stand_in.so is not in the folder REPRISE_TESTS")
    return path


class StandIn(Daemon):
    """A network namespace of its own keeps the ranks apart from the machine's other connections."""

    def __init__(self, ranks, sysctl=()):
        super().__init__(ranks)
        set_up = "".join(f"echo {value} > /proc/sys/net/{name} && " for name, value in sysctl)
        self.launcher = ["unshare", "-n", "sh", "-c", f'ip link set lo up && {set_up} exec "$@"', "sh"]
        self.control = {}  # of the callback that runs in a rank

    def start(self, argv, output, more=None):
        super().start(["env", f"LD_PRELOAD={library()}", *argv], output, more)
        self.until(lambda: len(self.ranks) == self.count, 100, "all ranks to say HELLO")

    def start_plain(self, argv, output):
        """Without crd and libcr."""
        Daemon.start(self, ["env", "-u", "CR_RANK_SOCKET", *argv], output)

    def ask(self, n):
        """Request a checkpoint of a rank."""
        control = socket.socket(socket.AF_UNIX)
        control.connect(f"{self.path}.{self.ranks[n].pid}")
        control.send(b"c")
        control.setblocking(False)
        self.control[n] = control

    def word(self, n):
        """@return the next answer of a rank's callback"""
        got = []

        def there():
            try:
                got.append(self.control[n].recv(1))
            except BlockingIOError:
                return False
            return True

        self.until(there, 60, f"the callback of rank {n}")
        return got[0]

    def prepare(self, timeout_ms=30000, only=None):
        """Begin a wave. @return {rank: b"r" or b"f"}: its callback waits in cr_checkpoint(), or has refused"""
        self.wave += 1
        numbers = range(self.count) if only is None else only
        for n in numbers:
            self.send(self.ranks[n], PREPARE, struct.pack("=II", self.wave, timeout_ms))
        for n in numbers:
            self.ask(n)
        return {n: self.word(n) for n in numbers}

    def leave(self, words, how):
        """End the callbacks of ranks that are ready, and forget those that have refused."""
        for n, word in words.items():
            if word == b"r":
                self.control[n].send(how)
        for n in words:
            if self.word(n) != b"d":
                raise Broken(f"the callback of rank {n} has not returned")
            self.control.pop(n).close()

    def finish(self, words):
        """The wave is over: its ranks go on. @return {rank: (wave, state, ms, connections, text)}"""
        self.leave(words, b"g")
        said = self.heard(PREPARED, 60, "PREPARED", words)
        if any(word != b"r" for word in words.values()):
            self.abort_wave()
        return said

    def roll_back(self, words):
        """Instead of going on, the ranks find themselves rolled back; they wait for resume()."""
        self.recovery += 1
        self.leave(words, b"p")
        self.heard(RESTORED, 60, "RESTORED")
