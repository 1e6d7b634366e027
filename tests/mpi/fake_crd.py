# SPDX-License-Identifier: GPL-2.0-only
"""A daemon for the ranks of one node: it plays crd's part towards crtcp; mpirun starts the ranks."""

import contextlib
import os
import re
import secrets
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time

(HELLO, WELCOME, PREPARE, ABORT, PREPARED, RESTORED, PMIX, PMIX_DONE, PEERS, RESUME, RESUMED, LOST, LOG, CALM, MOVED, LANES, NEED_LANES,
 COUNTERS, GONE, WAVE_REQUEST, PINNED, STAY, STAYS, COPY_KEPT, KEPT_COPIED) = range(1, 26)
HEAD = struct.Struct("=IIII")
STATES = ("taken", "again", "unable")

# Share no memory between ranks, and make all peers known in MPI_Init.
ENVIRONMENT = {
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "crtcp,self",
    "OMPI_MCA_osc": "^ucx,sm",
    "OMPI_MCA_coll": "^sm,xhc,han,acoll,ucc,hcoll",
    "OMPI_MCA_shmem": "^posix",  # probing it leaves a deleted file open
    "OMPI_MCA_mpi_add_procs_cutoff": "1000000",
    "PMIX_MCA_gds": "hash",
    "OMPI_MCA_btl_crtcp_if_include": "lo",
    # libpmix also reads OMPI_MCA_mca_base_component_path, and warns about components that it does not know.
    "PMIX_MCA_mca_base_component_path": "/usr/lib/x86_64-linux-gnu/pmix2/lib/pmix",
}


LANES_MAGIC, PAGE, LINE = 0x656e616c, 4096, 64  # see rank_lanes.h


class Broken(Exception):
    """The test cannot continue."""


def component_folder():
    """Where mca_btl_crtcp.so is installed."""
    for folder in (os.environ.get("CRTCP_FOLDER", ""), "/usr/lib/x86_64-linux-gnu/reprise/openmpi",
                   "/usr/local/lib/x86_64-linux-gnu/reprise/openmpi"):
        if os.path.exists(os.path.join(folder, "mca_btl_crtcp.so")):
            return folder
    raise Broken("mca_btl_crtcp.so is not installed")


class Rank:
    def __init__(self, number, channel, pid, able, addresses):
        self.number, self.channel, self.pid, self.able, self.addresses = number, channel, pid, able, addresses
        self.counters = None  # (pid, _, address)
        self.said = []  # received messages that no call has taken yet: (type, bytes)


class Daemon:
    """Serves the ranks while a caller waits; has no thread of its own."""

    def __init__(self, ranks, folder=None):
        self.count = ranks
        self.lanes = os.environ.get("WIRE") == "lanes"  # the ranks of a node share memory
        self.memory = {}  # of a node: the memory that its ranks share
        self.node_of = [0] * ranks
        self.folder = folder or tempfile.mkdtemp(prefix="fake-crd-")
        self.path = os.path.join(self.folder, "rank.sock")
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.path)
        self.listener.listen(1024)
        self.cookie = secrets.token_bytes(32)
        self.recovery = self.wave = 0
        self.ranks = {}
        self.log = []
        self.lost = []
        self.nobody = []  # connections that have not introduced themselves
        self.mpirun = None
        self.begun = time.monotonic()
        self.launcher = []  # words before mpirun's

    # ---- messages

    def send(self, rank, kind, body=b"", fds=()):
        packet = HEAD.pack(kind, HEAD.size + len(body), rank.number, self.recovery) + body
        if fds:
            socket.send_fds(rank.channel, [packet], fds)
        else:
            rank.channel.send(packet)

    @staticmethod
    def strings(data, count):
        return [s.decode() for s in data.split(b"\0")[:count]]

    def hear(self, channel):
        try:
            packet = channel.recv(65536)
        except ConnectionError:
            packet = b""
        rank = next((r for r in self.ranks.values() if r.channel is channel), None)
        if not packet:
            channel.close()
            if channel in self.nobody:
                self.nobody.remove(channel)
            if rank:
                rank.channel = None
            return
        kind, length, number, _ = HEAD.unpack_from(packet)
        body = packet[HEAD.size:]
        if length != len(packet):
            raise Broken(f"rank {number} sent {len(packet)} bytes with the length {length} in the header")
        if kind == HELLO:
            _, pid, able, count = struct.unpack_from("=IiII", body)
            self.take(channel, Rank(number, channel, pid, able, self.strings(body[16:], count)))
            self.send(self.ranks[number], WELCOME, self.cookie + struct.pack("=IIII", self.node_of[number], 0, 0, 0))
            self.hand_out_lanes(number)
        elif kind == RESTORED:
            wave, pid, restarted, stale, count, _ = struct.unpack_from("=IiIIII", body)
            self.take(channel, Rank(number, channel, pid, 1, self.strings(body[24:], count)))
            self.ranks[number].said.append((RESTORED, (wave, restarted, stale)))
        elif kind == LOG:
            self.log.append(f"rank {number}: {body.decode()}")
        elif kind == LOST:
            peer, error = struct.unpack_from("=Ii", body)
            why = os.strerror(error) if error else "end"
            self.lost.append(f"rank {number} lost {peer}: {why}: {body[8:].decode()}")
        elif kind == PREPARED:
            wave, state, quiesce, connections, _ = struct.unpack_from("=IIQII", body)
            rank.said.append((PREPARED, (wave, STATES[state], quiesce / 1e6, connections, body[24:].decode())))
        elif kind == COUNTERS:
            rank.counters = struct.unpack_from("=iIQ", body)
        elif kind == NEED_LANES:
            self.hand_out_lanes(number)
        elif kind == RESUMED:
            rank.said.append((RESUMED, struct.unpack_from("=QII", body)))
        else:
            rank.said.append((kind, body))

    def make_lanes(self, node):
        """Memory for the ranks of a node, as rank_lanes.h describes it."""
        ranks = [n for n in range(self.count) if self.node_of[n] == node]
        lane = 256 << 10
        while lane > PAGE and lane * len(ranks) ** 2 > 128 << 20:
            lane //= 2
        begin = -(-(LINE + LINE * len(ranks)) // PAGE) * PAGE
        memory = os.memfd_create("lanes")
        os.ftruncate(memory, begin + len(ranks) ** 2 * (PAGE + lane))
        os.pwrite(memory, struct.pack("=IIII", LANES_MAGIC, secrets.randbits(32), len(ranks), lane), 0)
        for i, n in enumerate(ranks):
            os.pwrite(memory, struct.pack("=I", n), LINE + LINE * i)
        return memory

    def hand_out_lanes(self, n):
        if not self.lanes:
            return
        node = self.node_of[n]
        if node not in self.memory:
            self.memory[node] = self.make_lanes(node)
        self.send(self.ranks[n], LANES, fds=(self.memory[node],))

    def new_lanes(self):
        """For a recovery."""
        for memory in self.memory.values():
            os.close(memory)
        self.memory = {}

    def take(self, channel, rank):
        if channel in self.nobody:
            self.nobody.remove(channel)
        old = self.ranks.get(rank.number)
        if old and old.channel and old.channel is not channel:
            old.channel.close()
        self.ranks[rank.number] = rank

    def serve(self, seconds=0.0):
        """Handle pending messages; wait up to this many seconds for one."""
        channels = [r.channel for r in self.ranks.values() if r.channel] + self.nobody
        ready, _, _ = select.select([self.listener] + channels, [], [], seconds)
        for one in ready:
            if one is self.listener:
                self.nobody.append(self.listener.accept()[0])
            else:
                self.hear(one)

    def serve_for(self, seconds):
        """Handle all messages that come in this time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.serve(0.05)

    def until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise Broken(f"waited {seconds} s in vain for {what}")
            if self.mpirun and self.mpirun.poll() not in (None, 0):
                raise Broken(f"mpirun ended with {self.mpirun.returncode} while waiting for {what}")
            self.serve(0.05)

    def heard(self, kind, seconds, what, numbers=None):
        """Wait for one message of this type from each rank."""
        numbers = range(self.count) if numbers is None else numbers

        def all_said():
            return all(n in self.ranks and any(k == kind for k, _ in self.ranks[n].said) for n in numbers)

        self.until(all_said, seconds, what)
        result = {}
        for n in numbers:
            said = self.ranks[n].said
            result[n] = next(body for k, body in said if k == kind)
            said[:] = [s for s in said if s[0] != kind]
        return result

    # ---- the job

    def start(self, argv, output, more=None):
        environment = dict(os.environ, **ENVIRONMENT, OMPI_MCA_mca_base_component_path=component_folder(),
                           CR_RANK_SOCKET=self.path, **(more or {}))
        exports = [w for name in ENVIRONMENT for w in ("-x", name)] + ["-x", "CR_RANK_SOCKET"]
        with open(output, "w", encoding="utf-8") as out:
            self.mpirun = subprocess.Popen(
                [*self.launcher, "mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                 "-n", str(self.count), *exports, *argv], env=environment, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    @staticmethod
    def namespace(rank):
        """@return its name, ended by 0"""
        with open(f"/proc/{rank.pid}/environ", "rb") as file:
            return next(w.partition(b"=")[2] for w in file.read().split(b"\0") if w.startswith(b"PMIX_NAMESPACE=")) + b"\0"

    def gone(self, number):
        """Tell the others that a rank has failed."""
        namespace = self.namespace(next(r for n, r in self.ranks.items() if n != number))
        for n, rank in self.ranks.items():
            if n != number:
                self.send(rank, GONE, struct.pack("=II", number, 0) + namespace)

    def ask_to_stay(self, n, wave):
        """A recovery begins in which a rank stays while others of its own namespace go back: it cannot tell them from spawned processes."""
        self.recovery += 1
        self.send(self.ranks[n], STAY, struct.pack("=II", wave, 0) + self.namespace(self.ranks[n]))

    def can_stay(self, n, seconds=10):
        """@return (whether it can, why not)"""
        body = self.heard(STAYS, seconds, "STAYS", (n,))[n]
        of, can = struct.unpack_from("=II", body)
        if of != self.recovery:
            raise Broken(f"rank {n} answers for recovery {of}")
        return bool(can), body[8:].decode()

    def stay_over(self, n, moved=()):
        """The others are back."""
        self.send(self.ranks[n], PEERS, struct.pack("=II", self.count, 0) + self.table(moved))
        self.send(self.ranks[n], RESUME, bytes(32) + struct.pack("=IIII", self.node_of[n], 0, 0, 0))

    def image(self, wave, rank):
        return os.path.join(self.folder, f"wave-{wave}-rank-{rank}.img")

    def together(self, commands):
        """Run commands at once, serving the ranks meanwhile. @return {key: (status, text)}"""
        running = {key: subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for key, argv in commands.items()}
        self.until(lambda: all(p.poll() is not None for p in running.values()), 120, "commands to end")
        return {key: (p.returncode, p.stdout.read()) for key, p in running.items()}

    def take_wave(self, timeout_ms=30000, only=None):
        """@return (wave, {rank: (state, text)}, {rank: quiesce in ms}); the wave is complete when all are 'taken'"""
        self.wave += 1
        numbers = range(self.count) if only is None else only
        for n in numbers:
            self.send(self.ranks[n], PREPARE, struct.pack("=II", self.wave, timeout_ms))
        ends = self.together({n: ["cr_checkpoint", "--no-sync", str(self.ranks[n].pid), self.image(self.wave, n)]
                              for n in numbers})
        said = self.heard(PREPARED, 60, "PREPARED", numbers)
        states = {}
        for n in numbers:
            _, state, _, _, text = said[n]
            if state == "taken" and ends[n][0]:
                state, text = "failed", ends[n][1]
            states[n] = (state, text)
        if any(s != "taken" for s, _ in states.values()) or only is not None:
            self.abort_wave()
        return self.wave, states, {n: said[n][2] for n in numbers}

    def abort_wave(self):
        for rank in self.ranks.values():
            if rank.channel:
                self.send(rank, ABORT, struct.pack("=II", self.wave, 0))

    def calm(self, on):
        for rank in self.ranks.values():
            self.send(rank, CALM, struct.pack("=II", on, 0))

    def take_whole_wave(self, tries=20):
        for _ in range(tries):
            wave, states, quiesce = self.take_wave()
            bad = {n: s for n, s in states.items() if s[0] != "taken"}
            if not bad:
                return wave, quiesce
            if any(s[0] != "again" for s in bad.values()):
                raise Broken(f"wave {wave}: {bad}")
            time.sleep(0.3)
        raise Broken(f"no wave in {tries} tries: {bad}")

    def go_back(self, wave, moved=(), restart=(), spin=0):
        """Roll all ranks back. @param restart ranks whose processes are gone, restarted from their images
        @param moved further moved ranks
        @return {rank: (discarded bytes, kept, closed)}"""
        self.recovery += 1
        moved = (*moved, *restart)
        back = ["--dead-sockets", "--rewind-files"]
        ends = self.together({n: ["cr_restart", *back, "--no-restore-pid", "--detach", self.image(wave, n)]
                              if n in restart else ["cr_pause", *back, str(r.pid), self.image(wave, n)]
                              for n, r in self.ranks.items()})
        wrong = {n: text for n, (status, text) in ends.items() if status}
        if wrong:
            raise Broken(f"rolling back: {wrong}")
        restored = self.heard(RESTORED, 60, "RESTORED")
        for n, (of, restarted, stale) in restored.items():
            if of != wave or restarted != (n in restart) or stale != (n in restart):
                raise Broken(f"rank {n} says it is at wave {of}, restarted {restarted}, PMIx stale {stale}")
        return self.resume(moved, spin)

    def table(self, moved):
        """Where the ranks listen."""
        table = b""
        for n in range(self.count):
            text = b"".join(a.encode() + b"\0" for a in self.ranks[n].addresses)
            text += b"\0" * (-len(text) % 4)
            table += struct.pack("=IIHH", n, self.recovery if n in moved else 0, len(self.ranks[n].addresses),
                                 12 + len(text)) + text
        return table

    def resume(self, moved=(), spin=0, only=None):
        """Have the restored ranks continue. @param only these ranks; None: all @return as go_back()"""
        numbers = range(self.count) if only is None else only
        table = self.table(moved)
        nonce = secrets.token_bytes(32)
        self.new_lanes()
        for rank in (self.ranks[n] for n in numbers):
            self.send(rank, PEERS, struct.pack("=II", self.count, 0) + table)
            for m in moved:  # each in a message of its own
                self.send(rank, MOVED, struct.pack("=III", 1, 0, m))
            self.hand_out_lanes(rank.number)
            self.send(rank, RESUME, nonce + struct.pack("=IIII", self.node_of[rank.number], spin, 0, 0))
        return self.heard(RESUMED, 60, "RESUMED", numbers)

    def age(self):
        """Seconds since this daemon was made."""
        return time.monotonic() - self.begun

    def sockets(self):
        """TCP connections between ranks: {(rank, inode, local, remote)}"""
        numbers = {}
        for n, rank in self.ranks.items():
            for fd in os.listdir(f"/proc/{rank.pid}/fd"):
                try:
                    target = os.readlink(f"/proc/{rank.pid}/fd/{fd}")
                except FileNotFoundError:
                    continue
                if match := re.match(r"socket:\[(\d+)\]", target):
                    numbers[match[1]] = n
        ends = []
        for name in ("tcp", "tcp6"):
            with open(f"/proc/{self.mpirun.pid}/net/{name}", encoding="ascii") as file:
                for line in file.readlines()[1:]:
                    words = line.split()
                    if words[3] == "01" and words[9] in numbers:
                        ends.append((numbers[words[9]], words[9], words[1], words[2]))
        locals_ = {e[2] for e in ends}
        return {e for e in ends if e[3] in locals_}

    def cut(self):
        """Have the kernel reset one connection between two ranks. @return whether it can do so"""
        local = sorted(self.sockets())[0][2]
        port = int(local.split(":")[1], 16)
        done = subprocess.run(["ss", "-K", "-tn", "sport", "=", f":{port}"], capture_output=True, text=True,
                              check=False)
        return done.returncode == 0 and str(port) in done.stdout

    def close(self):
        for rank in self.ranks.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank.pid, signal.SIGKILL)
        if self.mpirun and self.mpirun.poll() is None:
            self.mpirun.send_signal(signal.SIGCONT)  # it may be stopped
            self.mpirun.terminate()
            try:
                self.mpirun.wait(10)
            except subprocess.TimeoutExpired:
                self.mpirun.kill()
                self.mpirun.wait()
        self.listener.close()
        self.new_lanes()
