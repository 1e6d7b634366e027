# SPDX-License-Identifier: GPL-2.0-only
"""A fake daemon whose ranks use libcr_stand_in instead of libcr: waves and rollbacks where the module is not loaded."""

import contextlib
import os
import signal
import socket
import struct

from fake_crd import PREPARE, PREPARED, RESTORED, Broken, Daemon


def library():
    path = os.path.join(os.environ.get("REPRISE_TESTS", ""), "libcr_stand_in.so")
    if not os.path.isfile(path):
        raise Broken("libcr_stand_in.so is not in the folder REPRISE_TESTS")
    return path


def preloaded():
    """What crd preloads, too, if the build is told: REPRISE_NODE."""
    return ":".join([library(), *filter(None, [os.environ.get("REPRISE_NODE")])])


def state_of(pid):
    """@return the letter that /proc has for the state of a process"""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[0]


class StandIn(Daemon):
    """A network namespace of its own keeps the ranks apart from the machine's other connections."""

    def __init__(self, ranks, sysctl=()):
        super().__init__(ranks)
        set_up = "".join(f"echo {value} > /proc/sys/net/{name} && " for name, value in sysctl)
        self.launcher = ["unshare", "-n", "sh", "-c", f'ip link set lo up && {set_up} exec "$@"', "sh"]
        self.control = {}  # of the callback that runs in a rank
        self.taken = {}  # number of images, by process

    def start(self, argv, output, more=None):
        super().start(["env", f"LD_PRELOAD={preloaded()}", *argv], output, more)
        self.until(lambda: len(self.ranks) == self.count, 100, "all ranks to say HELLO")

    def start_plain(self, argv, output):
        """Without crd and libcr."""
        Daemon.start(self, ["env", "-u", "CR_RANK_SOCKET", *argv], output)

    def start_apart(self, argv, output, more=None):
        """mpirun does not notice that a rank ends: ranks can be killed, and replaced by processes made of images. Neither
        does it notice that the program ends."""
        self.start(["sh", "-c", '"$@" & exec sleep 100000', "sh", *argv], output, more)

    def say(self, n, address, word):
        self.control[n] = socket.socket(socket.AF_UNIX)
        self.control[n].connect(address)
        self.control[n].send(word)
        self.control[n].setblocking(False)

    def ask(self, n):
        """Request a checkpoint of a rank."""
        self.say(n, f"{self.path}.{self.ranks[n].pid}", b"c")

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

    def roll_back(self, words, restart=()):
        """Instead of going on, the ranks find themselves rolled back; they wait for resume().
        @param restart these find themselves restarted: without connections, with new ports"""
        self.recovery += 1
        self.leave({n: word for n, word in words.items() if n not in restart}, b"p")
        self.leave({n: words[n] for n in restart}, b"s")
        self.heard(RESTORED, 60, "RESTORED")

    def finish_with_images(self, words, only=None):
        """As finish(); each rank takes an image of itself. @param only these; None: all
        @return (what the ranks said, {rank: address of its image})"""
        images = {}
        for n, word in words.items():
            if word == b"r" and only is not None and n not in only:
                self.control[n].send(b"g")
            elif word == b"r":
                pid = self.ranks[n].pid
                self.taken[pid] = self.taken.get(pid, 0) + 1
                images[n] = f"{self.path}.{pid}.{self.taken[pid]}"
                self.control[n].send(b"i")
        self.leave(words, b"")
        said = self.heard(PREPARED, 60, "PREPARED", words)
        return said, images

    def kill(self, dead=(), stay=()):
        """Kill all ranks. None reads from a connection afterwards. @param dead these are known to have ended
        @param stay these live on"""
        def ended(pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                return state_of(pid) == "Z"
            return True

        if gone := {n: rank.pid for n, rank in self.ranks.items() if n not in dead and ended(rank.pid)}:
            raise Broken(f"ranks have ended by themselves: {gone}")
        for n, rank in self.ranks.items():
            if n not in dead and n not in stay:
                os.kill(rank.pid, signal.SIGKILL)
        self.until(lambda: all(ended(r.pid) for n, r in self.ranks.items() if n not in stay), 60, "killed ranks to end")

    def go_back(self, images, restart=(), dead=(), stay=()):
        """Replace all ranks by processes made of images, with the connections of the wave. They wait for resume().
        @param restart these come without their connections, as on another node @param dead these have ended
        @param stay these can stay in the recovery, which has begun"""
        self.kill(dead, stay)
        self.recovery += not stay
        for n, address in images.items():
            self.say(n, address, b"s" if n in restart else b"p")
        self.leave({n: b"f" for n in images}, b"")
        said = self.heard(RESTORED, 60, "RESTORED", images)
        wrong = {n: got for n, got in said.items() if got[0] != self.wave or got[1] != (n in restart)}
        if wrong:
            raise Broken(f"ranks are at another wave than {self.wave}: {wrong}")

    def unread(self):
        """Bytes on their way between processes in the ranks' network: {(local, remote): (unacknowledged, unread)}"""
        found = {}
        for name in ("tcp", "tcp6"):
            with open(f"/proc/{self.mpirun.pid}/net/{name}", encoding="ascii") as file:
                for line in file.readlines()[1:]:
                    words = line.split()
                    sent, received = (int(number, 16) for number in words[4].split(":"))
                    if words[3] == "01" and (sent or received):
                        found[words[1], words[2]] = (sent, received)
        return found
